// Writing JSON text.
#include "base/base64.hpp"
#include "base/json_text.hpp"
#include "base/utf8.hpp"

#include <semel/value.hpp>

#include <array>
#include <charconv>
#include <cmath>

namespace semel::value {

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

}  // namespace semel::value
