#include "http/answer_head.hpp"

#include "http/characters.hpp"
#include "http/problem.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace semel::http {

namespace {

constexpr auto connection_headers = std::to_array<std::string_view>(
    {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "trailer",
     "te", "content-length", "date"});

bool is_the_connections(std::string_view name) {
  return std::ranges::any_of(connection_headers,
                             [&](std::string_view each) { return same_name(each, name); });
}

void append_number(std::string& out, std::size_t number) {
  std::array<char, 20> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  static_cast<void>(error);
  out.append(digits.data(), end);
}

}  // namespace

bool has_body(int status) { return status != 204 && status != 304 && status != 205; }

bool is_sendable(const Response& response) {
  return response.status >= 200 && response.status <= 599 &&
         std::ranges::all_of(response.headers, [](const Header& header) {
           return !header.name.empty() && std::ranges::all_of(header.name, is_token_character) &&
                  std::ranges::all_of(header.value, is_value_character);
         });
}

void append_head(std::string& out, const Response& response, const AnswerFrame& frame) {
  out += "HTTP/1.1 ";
  append_number(out, static_cast<std::size_t>(response.status));
  out += ' ';
  out += reason_of(response.status);
  out += "\r\n";
  for (const Header& header : response.headers) {
    if (is_the_connections(header.name)) continue;
    out.append(header.name).append(": ").append(header.value).append("\r\n");
  }
  out.append("date: ").append(frame.date).append("\r\n");
  if (frame.is_chunked) {
    out += "transfer-encoding: chunked\r\n";
  } else if (!frame.ends_by_close && response.status != 204 && response.status != 304) {
    out += "content-length: ";
    append_number(out, has_body(response.status) ? frame.length.value_or(response.body.size()) : 0);
    out += "\r\n";
  }
  if (frame.closes) {
    out += "connection: close\r\n";
  } else if (frame.says_keep_alive) {
    out += "connection: keep-alive\r\n";
  }
  out += "\r\n";
}

}  // namespace semel::http
