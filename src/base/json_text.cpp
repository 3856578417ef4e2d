#include "base/json_text.hpp"

#include "base/base64.hpp"
#include "base/utf8.hpp"

#include <semel/value.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <list>

namespace semel::base {

namespace {

constexpr std::int64_t exponent_max = 1'000'000'000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The exponent written as `text`, which is empty or has a sign and digits.
std::optional<std::int64_t> exponent_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return 0;
  std::int64_t exponent = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error != std::errc{} || exponent > exponent_max || exponent < -exponent_max) {
    return std::nullopt;
  }
  return exponent;
}

constexpr auto plain_characters = [] {
  std::array<bool, 256> table{};
  for (std::size_t c = 0x20; c < 0x7F; ++c) table[c] = c != '"' && c != '\\';
  return table;
}();

bool is_plain(char c) { return plain_characters[static_cast<unsigned char>(c)]; }

/// The same for eight characters at once. A byte's top bit says that it is not plain; bits above
/// the first such byte may be wrong, which is of no consequence.
bool are_plain(const char* eight) {
  constexpr std::uint64_t each = 0x0101010101010101U;
  std::uint64_t word = 0;
  std::memcpy(&word, eight, sizeof word);
  const auto zero_in = [](std::uint64_t bytes) { return (bytes - each) & ~bytes; };
  const std::uint64_t control = (word - 0x20 * each) & ~word;
  const std::uint64_t special =
      zero_in(word ^ ('"' * each)) | zero_in(word ^ ('\\' * each)) | zero_in(word ^ (0x7F * each));
  return ((control | special | word) & (0x80 * each)) == 0;
}

}  // namespace

std::size_t plain_length(std::string_view text) {
  std::size_t length = 0;
  while (text.size() - length >= 8 && are_plain(text.data() + length)) length += 8;
  while (length < text.size() && is_plain(text[length])) ++length;
  return length;
}

std::optional<Decimal> exact_decimal(std::string_view number) {
  const std::size_t e = std::min(number.find_first_of("eE"), number.size());
  const auto exponent = exponent_of(number.substr(std::min(e + 1, number.size())));

  Decimal decimal;
  decimal.is_negative = number.starts_with('-');
  std::int64_t fraction_digits = 0;
  bool is_fraction = false;
  for (const char c : number.substr(0, e)) {
    if (c == '.') is_fraction = true;
    if (!is_digit(c)) continue;
    if (c != '0' || !decimal.digits.empty()) decimal.digits += c;
    if (is_fraction) ++fraction_digits;
  }
  if (decimal.digits.empty()) return Decimal{};
  if (!exponent) return std::nullopt;

  const std::size_t significant = decimal.digits.find_last_not_of('0') + 1;
  const auto zeros = static_cast<std::int64_t>(decimal.digits.size() - significant);
  decimal.digits.resize(significant);
  decimal.exponent = *exponent - fraction_digits + zeros;
  return decimal;
}

void append_decimal(std::string& out, const Decimal& decimal) {
  if (decimal.digits.empty()) {
    out += '0';
    return;
  }
  if (decimal.is_negative) out += '-';
  const auto count = static_cast<std::int64_t>(decimal.digits.size());
  if (decimal.exponent == 0 || (decimal.exponent > 0 && count + decimal.exponent <= 21)) {
    out += decimal.digits;
    out.append(static_cast<std::size_t>(decimal.exponent), '0');
  } else if (decimal.exponent < 0 && count + decimal.exponent > 0) {
    const auto whole = static_cast<std::size_t>(count + decimal.exponent);
    out.append(decimal.digits, 0, whole).append(1, '.').append(decimal.digits, whole);
  } else {
    out += decimal.digits;
    out += 'e';
    out += std::to_string(decimal.exponent);
  }
}

}  // namespace semel::base

namespace semel::value {

namespace {

constexpr std::string_view tag_start = "{\"$alternative\":";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_number_start(char c) { return c == '-' || is_digit(c); }

/// `text` as a JSON string, cut where it is too long for a message.
std::string quoted_briefly(std::string_view text) {
  constexpr std::size_t brief = 60;
  std::string out{"\""};
  std::size_t length = 0;
  while (length < text.size() && length < brief) length += base::utf8_length(text.substr(length));
  out += text.substr(0, length);
  return out += length < text.size() ? "...\"" : "\"";
}

}  // namespace

// --- failures -----------------------------------------------------------------------------------

namespace detail {

void Failure::in_member(std::string_view name) {
  std::string step{"/"};
  for (const char c : name) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else {
      step += c;
    }
  }
  path.insert(0, step);
}

void Failure::in_element(std::size_t index) { path.insert(0, "/" + std::to_string(index)); }

Misfit Failure::misfit() && { return {std::move(path), reason + std::move(detail)}; }

void refuse(Misfit misfit) { throw ValidationError{std::move(misfit.path), misfit.message}; }

bool fail_length(Reader& reader, std::size_t length) {
  return reader.fail("expected an array of ", std::to_string(length));
}

bool fail_alternative(Reader& reader, std::size_t index) {
  return reader.fail("unknown alternative ", std::to_string(index));
}

bool fail_unknown(Reader& reader, std::string_view name) {
  return reader.fail("unknown value ", quoted_briefly(name));
}

}  // namespace detail

bool Reader::fail(const char* reason, std::string detail) {
  if (ok()) {
    failure_.reason = reason;
    failure_.detail = std::move(detail);
    failure_.at = static_cast<std::size_t>(at_ - begin_);
  }
  return false;
}

bool Reader::fail_unexpected(std::string_view name) {
  fail("unexpected member");
  --failure_.at;  // An alternative that knows the member and minds its value came further.
  return in_member(name);
}

bool Reader::in_member(std::string_view name) {
  failure_.in_member(name);
  return false;
}

bool Reader::in_element(std::size_t index) {
  failure_.in_element(index);
  return false;
}

bool Reader::malformed(const char* why) {
  failure_.is_final = true;
  return fail("not JSON at byte ", std::to_string(at_ - begin_) + ": " + why);
}

/// The value that comes next is of another kind; or none comes.
bool Reader::expected(const char* what) {
  const char c = peek();
  if (at_ == end_) return malformed("the text ends early");
  const bool is_value =
      is_number_start(c) || std::string_view{"{[\"tfn"}.find(c) != std::string_view::npos;
  return is_value ? fail(what) : malformed("expected a value");
}

bool Reader::back_to(const Mark& mark, detail::Failure& best) {
  if (failure_.is_final) return false;
  reread_ += static_cast<std::size_t>(at_ - mark.at);
  // Variants within variants can multiply; a type and a text made for that must not take for ever.
  const std::size_t reread_max = 256 * static_cast<std::size_t>(end_ - begin_) + 65536;
  if (reread_ > reread_max) {
    failure_ = {};
    failure_.is_final = true;
    return fail("too many alternatives to try");
  }
  if (best.reason == nullptr || failure_.at > best.at) best = std::move(failure_);
  failure_ = {};
  at_ = mark.at;
  depth_left_ = mark.depth_left;
  return true;
}

bool Reader::give_up(const Mark& mark, detail::Failure best) {
  if (best.at <= static_cast<std::size_t>(mark.at - begin_)) return fail("matches no alternative");
  failure_ = std::move(best);
  return false;
}

// --- reading ------------------------------------------------------------------------------------

void Reader::skip_space() {
  while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
}

char Reader::peek() {
  skip_space();
  return at_ == end_ ? '\0' : *at_;
}

Reader::Mark Reader::mark() {
  skip_space();
  return {at_, depth_left_};
}

bool Reader::finish() {
  skip_space();
  return at_ == end_ || malformed("something follows the value");
}

bool Reader::literal(std::string_view word) {
  if (!rest().starts_with(word)) {
    return malformed("expected a value");
  }
  at_ += word.size();
  return true;
}

bool Reader::is_null() { return peek() == 'n'; }

bool Reader::null() { return peek() == 'n' ? literal("null") : expected("expected null"); }

bool Reader::boolean(bool& out) {
  const char c = peek();
  if (c != 't' && c != 'f') return expected("expected true or false");
  out = c == 't';
  return literal(out ? "true" : "false");
}

bool Reader::enter(char bracket, const char* what) {
  if (peek() != bracket) return expected(what);
  if (depth_left_ == 0) {
    failure_.is_final = true;
    return fail("nested too deeply");
  }
  --depth_left_;
  ++at_;
  return true;
}

bool Reader::enter_array() { return enter('[', "expected an array"); }

bool Reader::enter_object() { return enter('{', "expected an object"); }

bool Reader::next_element(std::size_t index) {
  const char c = peek();
  if (c == ']') {
    ++at_;
    ++depth_left_;
    return false;
  }
  if (index == 0) return true;
  if (c != ',') return malformed("expected , or ]");
  ++at_;
  return peek() != ']' || malformed("expected a value");
}

bool Reader::next_member(std::size_t index, std::string_view& name) {
  const char c = peek();
  if (c == '}') {
    ++at_;
    ++depth_left_;
    return false;
  }
  if (index != 0) {
    if (c != ',') return malformed("expected , or }");
    ++at_;
  }
  if (peek() != '"') return malformed("expected the name of a member");
  if (!scan_string(name, scratch_)) return false;
  if (peek() != ':') return malformed("expected :");
  ++at_;
  return true;
}

std::optional<std::size_t> Reader::enter_alternative() {
  if (peek() != '{') return std::nullopt;
  const char* const start = at_;
  const auto take = [this](std::string_view word) {
    skip_space();
    if (!rest().starts_with(word)) {
      return false;
    }
    at_ += word.size();
    return true;
  };

  std::size_t index = 0;
  if (take("{") && take("\"$alternative\"") && take(":") && is_digit(peek())) {
    const auto [rest, error] = std::from_chars(at_, end_, index);
    at_ = rest;
    if (error == std::errc{} && take(",") && take("\"value\"") && take(":")) return index;
  }
  at_ = start;
  return std::nullopt;
}

bool Reader::leave_alternative() {
  if (peek() != '}') return fail("expected the end of the alternative");
  ++at_;
  return true;
}

bool Reader::scan_number(std::string_view& token, bool& is_integral) {
  const char* const start = at_;
  const auto next_is = [this](char a, char b) { return at_ != end_ && (*at_ == a || *at_ == b); };
  const auto digits = [this] {
    if (at_ == end_ || !is_digit(*at_)) return malformed("expected a digit");
    while (at_ != end_ && is_digit(*at_)) ++at_;
    return true;
  };

  if (*at_ == '-') ++at_;
  const bool has_leading_zero = end_ - at_ >= 2 && *at_ == '0' && is_digit(at_[1]);
  if (has_leading_zero) return malformed("a leading zero");
  if (!digits()) return false;
  is_integral = true;
  if (next_is('.', '.')) {
    is_integral = false;
    ++at_;
    if (!digits()) return false;
  }
  if (next_is('e', 'E')) {
    is_integral = false;
    ++at_;
    if (next_is('+', '-')) ++at_;
    if (!digits()) return false;
  }
  token = {start, static_cast<std::size_t>(at_ - start)};
  return true;
}

bool Reader::number_text(std::string_view& out) {
  bool is_integral = false;
  return is_number_start(peek()) ? scan_number(out, is_integral) : expected("expected a number");
}

namespace {

bool has_negative_exponent(std::string_view number) { return number.find('-', 1) != number.npos; }

/// An integer as its sign and magnitude; `fits` says whether 64 bits were enough.
struct Whole {
  bool is_negative = false;
  bool fits = true;
  std::uint64_t magnitude = 0;
};

Whole whole_from(std::string_view digits, bool is_negative) {
  Whole whole{.is_negative = is_negative};
  for (const char c : digits) {
    const auto digit = static_cast<std::uint64_t>(c - '0');
    if (__builtin_mul_overflow(whole.magnitude, 10U, &whole.magnitude) ||
        __builtin_add_overflow(whole.magnitude, digit, &whole.magnitude)) {
      whole.fits = false;
      break;
    }
  }
  return whole;
}

/// The integer that a number is, if it is one: 1e3 and 5.0 are.
std::optional<Whole> whole_of(std::string_view token, bool is_integral) {
  const bool is_negative = token.starts_with('-');
  if (is_integral) return whole_from(token.substr(is_negative ? 1 : 0), is_negative);
  auto decimal = base::exact_decimal(token);
  const bool has_fraction = decimal ? decimal->exponent < 0 : has_negative_exponent(token);
  if (has_fraction) return std::nullopt;
  if (!decimal || decimal->exponent > 20) return Whole{.is_negative = is_negative, .fits = false};
  decimal->digits.append(static_cast<std::size_t>(decimal->exponent), '0');
  return whole_from(decimal->digits, decimal->is_negative);
}

constexpr std::uint64_t int64_limit = std::uint64_t{1} << 63;

std::int64_t negated(std::uint64_t magnitude) { return static_cast<std::int64_t>(0 - magnitude); }

}  // namespace

bool Reader::integer(std::int64_t& out, int bits) {
  if (!is_number_start(peek())) return expected("expected an integer");
  std::string_view token;
  bool is_integral = false;
  if (!scan_number(token, is_integral)) return false;
  const auto whole = whole_of(token, is_integral);
  if (!whole) return fail("expected an integer");
  const std::uint64_t limit = int64_limit >> (64 - bits);
  if (!whole->fits || whole->magnitude > limit - (whole->is_negative ? 0 : 1)) {
    return fail("not in range of int", std::to_string(bits));
  }
  out =
      whole->is_negative ? negated(whole->magnitude) : static_cast<std::int64_t>(whole->magnitude);
  return true;
}

bool Reader::integer(std::uint64_t& out, int bits) {
  if (!is_number_start(peek())) return expected("expected an integer");
  std::string_view token;
  bool is_integral = false;
  if (!scan_number(token, is_integral)) return false;
  const auto whole = whole_of(token, is_integral);
  if (!whole) return fail("expected an integer");
  const std::uint64_t limit = std::numeric_limits<std::uint64_t>::max() >> (64 - bits);
  if (!whole->fits || whole->magnitude > limit || (whole->is_negative && whole->magnitude != 0)) {
    return fail("not in range of uint", std::to_string(bits));
  }
  out = whole->magnitude;
  return true;
}

template <class Float>
bool Reader::floating(std::string_view token, Float& out) {
  const auto [rest, error] = std::from_chars(token.data(), token.data() + token.size(), out);
  if (error == std::errc{}) return true;

  // Too small a number is zero, as rounding has it; too large a one has no value near it.
  const auto decimal = base::exact_decimal(token);
  const bool is_small =
      decimal ? decimal->exponent + static_cast<std::int64_t>(decimal->digits.size()) < 0
              : has_negative_exponent(token);
  if (!is_small) {
    return fail(sizeof(Float) == 4 ? "not in range of a float" : "not in range of a double");
  }
  out = token.starts_with('-') ? Float{-0.0F} : Float{0};
  return true;
}

bool Reader::number(double& out) {
  std::string_view token;
  return number_text(token) && floating(token, out);
}

bool Reader::number(float& out) {
  std::string_view token;
  return number_text(token) && floating(token, out);
}

bool Reader::string(std::string& out) {
  if (peek() != '"') return expected("expected a string");
  std::string_view view;
  if (!scan_string(view, out)) return false;
  if (view.data() != out.data()) out.assign(view);
  return true;
}

bool Reader::string_view(std::string_view& out) {
  return peek() == '"' ? scan_string(out, scratch_) : expected("expected a string");
}

/// `out` is a part of the text where nothing is escaped there, else all of `buffer`.
bool Reader::scan_string(std::string_view& out, std::string& buffer) {
  const char* start = ++at_;  // of what is not yet in the buffer
  bool is_buffered = false;
  const auto to_buffer = [&] {
    if (!is_buffered) buffer.clear();
    is_buffered = true;
    buffer.append(start, at_);
  };
  while (true) {
    at_ += base::plain_length(rest());
    if (at_ == end_) return malformed("the text ends within a string");
    if (*at_ == '"') break;
    if (*at_ == '\\') {
      to_buffer();
      if (!scan_escape(buffer)) return false;
      start = at_;
      continue;
    }
    if (static_cast<unsigned char>(*at_) < 0x20) {
      return malformed("a control character in a string");
    }
    const std::size_t length = base::utf8_length(rest());
    if (length == 0) return malformed("not UTF-8");
    at_ += length;
  }
  if (is_buffered) {
    to_buffer();
    out = buffer;
  } else {
    out = {start, static_cast<std::size_t>(at_ - start)};
  }
  ++at_;
  return true;
}

bool Reader::scan_hex4(unsigned& out) {
  out = 0;
  if (end_ - at_ < 4) return malformed("expected four hexadecimal digits");
  const auto [rest, error] = std::from_chars(at_, at_ + 4, out, 16);
  if (error != std::errc{} || rest != at_ + 4) return malformed("expected four hexadecimal digits");
  at_ += 4;
  return true;
}

bool Reader::scan_escape(std::string& out) {
  constexpr std::string_view names = "\"\\/bfnrt";
  constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
  ++at_;
  if (at_ == end_) return malformed("the text ends within a string");
  const char name = *at_++;
  if (const std::size_t known = names.find(name); known != std::string_view::npos) {
    out += meanings[known];
    return true;
  }
  if (name != 'u') return malformed("an unknown escape");

  unsigned unit = 0;
  if (!scan_hex4(unit)) return false;
  const auto is_surrogate = [](unsigned half, unsigned first) {
    return half >= first && half < first + 0x400;
  };
  char32_t code_point = unit;
  if (is_surrogate(unit, 0xDC00)) return malformed("half a surrogate pair");
  if (is_surrogate(unit, 0xD800)) {
    unsigned low = 0;
    if (end_ - at_ < 2 || at_[0] != '\\' || at_[1] != 'u') {
      return malformed("half a surrogate pair");
    }
    at_ += 2;
    if (!scan_hex4(low)) return false;
    if (!is_surrogate(low, 0xDC00)) return malformed("half a surrogate pair");
    code_point = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  }
  base::append_utf8(out, code_point);
  return true;
}

bool Reader::bytes(Bytes& out) {
  std::string_view text;
  if (!string_view(text)) return false;
  return base::read_base64(text, out) || fail("expected base64");
}

bool Reader::skip() {
  std::string_view unused;
  switch (peek()) {
    case '{':
      if (!enter_object()) return false;
      for (std::size_t index = 0; next_member(index, unused); ++index) {
        if (!skip()) return false;
      }
      return ok();
    case '[':
      if (!enter_array()) return false;
      for (std::size_t index = 0; next_element(index); ++index) {
        if (!skip()) return false;
      }
      return ok();
    case '"':
      return scan_string(unused, scratch_);
    case 'n':
      return literal("null");
    case 't':
      return literal("true");
    case 'f':
      return literal("false");
    default:
      return number_text(unused);
  }
}

bool Reader::json(Json& out) {
  std::string_view view;
  switch (peek()) {
    case '{': {
      if (!enter_object()) return false;
      auto& object = out.emplace_object();
      object.reserve(4);
      for (std::size_t index = 0; next_member(index, view); ++index) {
        const auto [member, is_new] = object.emplace(view, nullptr);
        const std::string_view name = member->key();
        if (!is_new) return fail("member repeated") || in_member(name);
        if (!json(member->value())) return in_member(name);
      }
      return ok();
    }
    case '[': {
      if (!enter_array()) return false;
      auto& array = out.emplace_array();
      array.reserve(4);
      for (std::size_t index = 0; next_element(index); ++index) {
        if (!json(array.emplace_back(nullptr))) return in_element(index);
      }
      return ok();
    }
    case '"':
      if (!scan_string(view, scratch_)) return false;
      out.emplace_string().assign(view);
      return true;
    case 'n':
      out = nullptr;
      return literal("null");
    case 't':
      out = true;
      return literal("true");
    case 'f':
      out = false;
      return literal("false");
    default:
      return json_number(out);
  }
}

bool Reader::json_number(Json& out) {
  if (!is_number_start(peek())) return expected("expected a value");
  std::string_view token;
  bool is_integral = false;
  if (!scan_number(token, is_integral)) return false;
  if (is_integral) {
    const Whole whole = *whole_of(token, is_integral);
    const bool is_signed =
        whole.magnitude < int64_limit || (whole.is_negative && whole.magnitude == int64_limit);
    if (whole.fits && is_signed) {
      out =
          whole.is_negative ? negated(whole.magnitude) : static_cast<std::int64_t>(whole.magnitude);
      return true;
    }
    if (whole.fits && !whole.is_negative) {
      out = whole.magnitude;
      return true;
    }
  }
  double number = 0;
  if (!floating(token, number)) return false;
  out = number;
  return true;
}

// --- writing ------------------------------------------------------------------------------------

bool Writer::fail(const char* reason) {
  if (failure_.reason == nullptr) failure_.reason = reason;
  return false;
}

bool Writer::in_member(std::string_view name) {
  failure_.in_member(name);
  return false;
}

bool Writer::in_element(std::size_t index) {
  failure_.in_element(index);
  return false;
}

bool Writer::enter(char bracket) {
  if (depth_left_ == 0) return fail("nested too deeply");
  --depth_left_;
  *out_ += bracket;
  return true;
}

bool Writer::leave(char bracket) {
  ++depth_left_;
  *out_ += bracket;
  return true;
}

void Writer::element(std::size_t index) {
  if (index != 0) *out_ += ',';
}

bool Writer::member(std::size_t index, std::string_view name) {
  element(index);
  if (!string(name)) return false;
  *out_ += ':';
  return true;
}

bool Writer::null() {
  *out_ += "null";
  return true;
}

bool Writer::boolean(bool value) {
  *out_ += value ? "true" : "false";
  return true;
}

namespace {

template <class Integer>
bool write_integer(std::string& out, Integer value) {
  std::array<char, 24> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  out.append(buffer.data(), end);
  return true;
}

/// The shortest text that reads back as the same number, and that no integer has.
template <class Float>
bool write_float(std::string& out, Float value) {
  std::array<char, 32> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  const std::string_view text{buffer.data(), end};
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";
  return true;
}

}  // namespace

bool Writer::integer(std::int64_t value) { return write_integer(*out_, value); }

bool Writer::integer(std::uint64_t value) { return write_integer(*out_, value); }

bool Writer::number(double value) {
  return std::isfinite(value) ? write_float(*out_, value)
                              : fail("NaN and infinity have no JSON form");
}

bool Writer::number(float value) {
  return std::isfinite(value) ? write_float(*out_, value)
                              : fail("NaN and infinity have no JSON form");
}

namespace {

void append_escape(std::string& out, char c) {
  constexpr std::string_view meanings = "\"\\\b\f\n\r\t";
  constexpr std::string_view names = "\"\\bfnrt";
  constexpr std::string_view hex = "0123456789abcdef";
  out += '\\';
  if (const std::size_t known = meanings.find(c); known != std::string_view::npos) {
    out += names[known];
  } else {
    out += "u00";
    out += hex[static_cast<unsigned char>(c) >> 4];
    out += hex[static_cast<unsigned char>(c) & 0xF];
  }
}

}  // namespace

bool Writer::string(std::string_view value) {
  std::string& out = *out_;
  out.reserve(out.size() + value.size() + 2);
  out += '"';
  while (!value.empty()) {
    std::size_t length = base::plain_length(value);
    if (length == 0) {
      if (static_cast<unsigned char>(value.front()) < 0x80) {
        append_escape(out, value.front());
        value.remove_prefix(1);
        continue;
      }
      length = base::utf8_length(value);
      if (length == 0) return fail("not UTF-8; binary data belongs in semel::Bytes");
    }
    out += value.substr(0, length);
    value.remove_prefix(length);
  }
  out += '"';
  return true;
}

bool Writer::bytes(std::span<const std::byte> value) {
  *out_ += '"';
  base::append_base64(*out_, value);
  *out_ += '"';
  return true;
}

bool Writer::json(const Json& value) {
  switch (value.kind()) {
    case boost::json::kind::null:
      return null();
    case boost::json::kind::bool_:
      return boolean(value.get_bool());
    case boost::json::kind::int64:
      return integer(value.get_int64());
    case boost::json::kind::uint64:
      return integer(value.get_uint64());
    case boost::json::kind::double_:
      return number(value.get_double());
    case boost::json::kind::string:
      return string(value.get_string());
    case boost::json::kind::array: {
      if (!enter('[')) return false;
      std::size_t index = 0;
      for (const Json& each : value.get_array()) {
        element(index);
        if (!json(each)) return in_element(index);
        ++index;
      }
      return leave(']');
    }
    case boost::json::kind::object: {
      if (!enter('{')) return false;
      std::size_t index = 0;
      for (const auto& each : value.get_object()) {
        if (!member(index++, each.key())) return false;
        if (!json(each.value())) return in_member(each.key());
      }
      return leave('}');
    }
  }
  return fail("a JSON value of an unknown kind");
}

// --- structs and variants -----------------------------------------------------------------------

namespace detail {

namespace {

constexpr std::size_t not_found = static_cast<std::size_t>(-1);

/// Members usually come in the order in which they are declared.
std::size_t find_field(std::span<const Field> fields, std::string_view name, std::size_t likely) {
  if (likely < fields.size() && fields[likely].name == name) return likely;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
  }
  return not_found;
}

class Seen {
 public:
  bool contains(std::size_t index) const { return (words_[index / 64] >> (index % 64) & 1U) != 0; }

  void add(std::size_t index) { words_[index / 64] |= std::uint64_t{1} << (index % 64); }

 private:
  std::array<std::uint64_t, fields_max / 64> words_{};
};

bool leave_out(const Reader& reader, void* object, const Field& field) {
  if (field.set_absent != nullptr) {
    field.set_absent(object);
    return true;
  }
  return reader.mode() == Mode::journal;
}

}  // namespace

bool read_fields(Reader& reader, void* object, std::span<const Field> fields) {
  if (!reader.enter_object()) return false;
  Seen seen;
  std::size_t likely = 0;
  std::string_view name;
  for (std::size_t index = 0; reader.next_member(index, name); ++index) {
    const std::size_t found = find_field(fields, name, likely);
    if (found == not_found) {
      if (reader.mode() == Mode::boundary) return reader.fail_unexpected(name);
      if (!reader.skip()) return false;
      continue;
    }
    const Field& field = fields[found];
    if (seen.contains(found)) return reader.fail("member repeated") || reader.in_member(field.name);
    seen.add(found);
    likely = found + 1;
    if (!field.read(reader, object)) return reader.in_member(field.name);
  }
  if (!reader.ok()) return false;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (seen.contains(i) || leave_out(reader, object, fields[i])) continue;
    return reader.fail("required") || reader.in_member(fields[i].name);
  }
  return true;
}

bool write_fields(Writer& writer, const void* object, std::span<const Field> fields) {
  if (!writer.enter('{')) return false;
  std::size_t index = 0;
  for (const Field& field : fields) {
    if (field.is_left_out != nullptr && field.is_left_out(object)) continue;
    writer.element(index++);
    writer.text()
        .append(1, '"')
        .append(field.name)
        .append("\":");  // an identifier needs no escapes
    if (!field.write(writer, object)) return writer.in_member(field.name);
  }
  return writer.leave('}');
}

bool looks_tagged(const Writer& writer, std::size_t start) {
  return std::string_view{writer.text()}.substr(start).starts_with(tag_start);
}

bool tag_alternative(Writer& writer, std::size_t start, std::size_t index) {
  std::string& text = writer.text();
  text.insert(start, std::string{tag_start} + std::to_string(index) + ",\"value\":");
  text += '}';
  return true;
}

}  // namespace detail

// --- times --------------------------------------------------------------------------------------

namespace {

constexpr std::int64_t year_0000 = -62'167'219'200;  // in seconds from 1970
constexpr std::int64_t year_10000 = 253'402'300'800;

void append_padded(std::string& out, std::int64_t value, std::size_t width) {
  const std::string digits = std::to_string(value);
  out.append(width - std::min(width, digits.size()), '0') += digits;
}

/// Takes RFC 3339 apart from the front; once something is missing, `ok` stays false.
struct TimeText {
  std::string_view rest;
  bool ok = true;

  bool next_is(std::string_view any_of) const {
    return !rest.empty() && any_of.find(rest.front()) != any_of.npos;
  }

  char take(std::string_view any_of) {
    if (!ok || !next_is(any_of)) {
      ok = false;
      return '\0';
    }
    const char c = rest.front();
    rest.remove_prefix(1);
    return c;
  }

  int take_digits(int count, int max) {
    int value = 0;
    for (int i = 0; i < count; ++i) value = value * 10 + (take("0123456789") - '0');
    ok = ok && value <= max;
    return value;
  }
};

}  // namespace

bool Writer::time(std::int64_t seconds, std::int64_t nanoseconds) {
  using namespace std::chrono;
  if (seconds < year_0000 || seconds >= year_10000) return fail("not in range of a time");
  const sys_seconds second{std::chrono::seconds{seconds}};
  const auto day = floor<days>(second);
  const year_month_day date{day};
  const hh_mm_ss clock{second - day};

  std::string& out = *out_;
  out += '"';
  append_padded(out, int{date.year()}, 4);
  out += '-';
  append_padded(out, unsigned{date.month()}, 2);
  out += '-';
  append_padded(out, unsigned{date.day()}, 2);
  out += 'T';
  append_padded(out, clock.hours().count(), 2);
  out += ':';
  append_padded(out, clock.minutes().count(), 2);
  out += ':';
  append_padded(out, clock.seconds().count(), 2);
  out += '.';
  append_padded(out, nanoseconds, 9);
  out += "Z\"";
  return true;
}

bool Reader::time(std::int64_t& seconds, std::int64_t& nanoseconds) {
  using namespace std::chrono;
  constexpr const char* wanted = "expected a time such as 2026-01-31T12:00:00Z";
  std::string_view view;
  if (!string_view(view)) return false;

  TimeText text{view};
  const int year = text.take_digits(4, 9999);
  text.take("-");
  const int month = text.take_digits(2, 12);
  text.take("-");
  const int day = text.take_digits(2, 31);
  text.take("Tt");
  const int hour = text.take_digits(2, 23);
  text.take(":");
  const int minute = text.take_digits(2, 59);
  text.take(":");
  const int second = text.take_digits(2, 59);
  nanoseconds = 0;
  if (text.next_is(".")) {
    text.take(".");
    std::int64_t unit = 100'000'000;
    do {
      nanoseconds += unit * text.take_digits(1, 9);
      unit /= 10;
    } while (unit > 0 && text.next_is("0123456789"));
  }
  std::int64_t offset = 0;
  if (const char zone = text.take("Zz+-"); zone == '+' || zone == '-') {
    const std::int64_t hours = text.take_digits(2, 23);
    text.take(":");
    offset = (zone == '-' ? -60 : 60) * (hours * 60 + text.take_digits(2, 59));
  }
  const year_month_day date{std::chrono::year{year},
                            std::chrono::month{static_cast<unsigned>(month)},
                            std::chrono::day{static_cast<unsigned>(day)}};
  if (!text.ok || !text.rest.empty() || !date.ok()) return fail(wanted);
  const auto at = sys_days{date} + hours{hour} + minutes{minute} + std::chrono::seconds{second};
  seconds = at.time_since_epoch().count() - offset;
  return true;
}

// --- whole texts --------------------------------------------------------------------------------

std::string to_text(const Json& value) { return encode(value); }

Json from_text(std::string_view json) { return decode<Json>(json, Mode::journal); }

namespace {

/// Room for the deepest value we write with a tag at each of its levels.
constexpr std::size_t canonical_depth_max = 2 * journal_depth_max;

class Canonical {
 public:
  Canonical(std::string_view json, std::string& out)
      : json_(json), reader_(json, Mode::boundary, canonical_depth_max), out_(out), writer_(out) {
    out.reserve(json.size());
  }

  bool write() { return value() && reader_.finish(); }

  Misfit misfit() { return reader_.misfit(); }

 private:
  /// A member where it was written: from `begin` to `end`, the comma behind it included.
  struct Member {
    std::string_view name;
    std::size_t begin;
    std::size_t end;
  };

  bool value();
  bool number();
  bool array();
  bool object();
  std::string_view lasting(std::string_view name);
  bool sort(std::span<Member> members);

  std::string_view json_;
  Reader reader_;
  std::string& out_;
  Writer writer_;
  std::vector<Member> members_;       // of all objects that are open, the innermost last
  std::list<std::string> unescaped_;  // names that the text has only in another form
};

bool Canonical::value() {
  std::string_view text;
  bool truth = false;
  switch (reader_.peek()) {
    case '{':
      return object();
    case '[':
      return array();
    case '"':
      return reader_.string_view(text) && writer_.string(text);
    case 't':
    case 'f':
      return reader_.boolean(truth) && writer_.boolean(truth);
    case 'n':
      return reader_.null() && writer_.null();
    default:
      return number();
  }
}

bool Canonical::number() {
  std::string_view token;
  if (!reader_.number_text(token)) return false;
  const bool is_short_integer = token.size() <= 20 && token.find_first_of(".eE") == token.npos;
  if (is_short_integer) {
    out_ += token == "-0" ? "0" : token;
    return true;
  }
  const auto decimal = base::exact_decimal(token);
  if (!decimal) return reader_.fail("the exponent is too large to compare");
  base::append_decimal(out_, *decimal);
  return true;
}

bool Canonical::array() {
  if (!reader_.enter_array()) return false;
  out_ += '[';
  for (std::size_t index = 0; reader_.next_element(index); ++index) {
    writer_.element(index);
    if (!value()) return reader_.in_element(index);
  }
  out_ += ']';
  return reader_.ok();
}

bool Canonical::object() {
  if (!reader_.enter_object()) return false;
  out_ += '{';
  const std::size_t first = members_.size();
  std::string_view name;
  for (std::size_t index = 0; reader_.next_member(index, name); ++index) {
    const Member member{.name = lasting(name), .begin = out_.size(), .end = 0};
    members_.push_back(member);
    writer_.member(0, member.name);
    if (!value()) return reader_.in_member(member.name);
    out_ += ',';
    members_[first + index].end = out_.size();
  }
  if (!reader_.ok() || !sort(std::span{members_}.subspan(first))) return false;
  if (members_.size() != first) out_.pop_back();
  out_ += '}';
  members_.resize(first);
  return true;
}

/// The reader's name as long as the text itself lives, or a copy of it.
std::string_view Canonical::lasting(std::string_view name) {
  const std::less_equal<const char*> no_later{};
  const bool is_in_text =
      no_later(json_.data(), name.data()) && no_later(name.data(), json_.data() + json_.size());
  return is_in_text ? name : unescaped_.emplace_back(name);
}

bool Canonical::sort(std::span<Member> members) {
  if (!std::ranges::is_sorted(members, {}, &Member::name)) {
    const std::size_t start = members.front().begin;
    std::ranges::sort(members, {}, &Member::name);
    std::string sorted;
    sorted.reserve(out_.size() - start);
    for (const Member& each : members) sorted.append(out_, each.begin, each.end - each.begin);
    out_.replace(start, out_.npos, sorted);
  }
  const auto repeated = std::ranges::adjacent_find(members, {}, &Member::name);
  if (repeated == members.end()) return true;
  return reader_.fail("member repeated") || reader_.in_member(repeated->name);
}

}  // namespace

std::string canonical(std::string_view json) {
  std::string out;
  Canonical text{json, out};
  if (!text.write()) detail::refuse(text.misfit());
  return out;
}

}  // namespace semel::value

namespace semel::base {

std::optional<std::string> try_canonical(std::string_view json) {
  std::string out;
  if (!value::Canonical{json, out}.write()) return std::nullopt;
  return out;
}

}  // namespace semel::base
