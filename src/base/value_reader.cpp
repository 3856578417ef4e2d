// Reading JSON text: what does not fit says where and why.
#include "base/base64.hpp"
#include "base/json_text.hpp"
#include "base/utf8.hpp"

#include <semel/value.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace semel::value {

namespace {

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

}  // namespace semel::value
