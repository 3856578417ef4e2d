#include "http/answer_reader.hpp"

#include "http/characters.hpp"
#include "http/head_parser.hpp"

#include <algorithm>
#include <charconv>

namespace semel::http {

namespace {

constexpr std::string_view line_end = "\r\n";

/// Most answers have no more.
constexpr std::size_t headers_reserve = 16;

/// "HTTP/1.1 200 OK"; servers are known to leave out the reason, and the space with it.
bool read_status_line(std::string_view line, AnswerHead& head, bool& is_1_0) {
  constexpr std::string_view version = "HTTP/1.";
  if (line.size() < 12 || !line.starts_with(version) || line[8] != ' ') return false;
  if (line[7] != '0' && line[7] != '1') return false;
  is_1_0 = line[7] == '0';
  const std::string_view digits = line.substr(9, 3);
  if (!std::ranges::all_of(digits, is_digit) || digits[0] == '0') return false;
  head.status = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
  const std::string_view reason = line.substr(12);
  return reason.empty() || (reason[0] == ' ' && std::ranges::all_of(reason, is_value_character));
}

struct Noted {
  bool is_chunked = false;
  bool says_close = false;
  bool says_keep_alive = false;
};

bool note(const HeaderView& header, AnswerHead& head, Noted& noted) {
  if (same_name(header.name, "content-length")) {
    const std::string_view value = header.value;
    // Eighteen digits always fit.
    if (head.length || value.empty() || value.size() > 18 || !std::ranges::all_of(value, is_digit))
      return false;
    std::uint64_t length = 0;
    std::from_chars(value.data(), value.data() + value.size(), length);
    head.length = length;
  } else if (same_name(header.name, "transfer-encoding")) {
    if (noted.is_chunked || !same_name(header.value, "chunked")) return false;
    noted.is_chunked = true;
  } else if (same_name(header.name, "connection")) {
    for_each_element(header.value, [&](std::string_view option) {
      noted.says_close = noted.says_close || same_name(option, "close");
      noted.says_keep_alive = noted.says_keep_alive || same_name(option, "keep-alive");
    });
  }
  return true;
}

AnswerEnd end_of(const AnswerHead& head, bool is_chunked, bool request_is_head) {
  if (request_is_head || head.status < 200 || head.status == 204 || head.status == 304)
    return AnswerEnd::none;
  if (is_chunked) return AnswerEnd::chunked;
  return head.length ? AnswerEnd::length : AnswerEnd::close;
}

}  // namespace

std::optional<AnswerHead> read_answer_head(std::string_view text, bool request_is_head,
                                           std::size_t headers_max) {
  AnswerHead head;
  head.headers.reserve(std::min(headers_max, headers_reserve));
  Noted noted;
  bool is_1_0 = false;
  for (bool is_first = true;; is_first = false) {
    const std::size_t end = text.find(line_end);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + line_end.size());
    if (is_first) {
      if (!read_status_line(line, head, is_1_0)) return std::nullopt;
      continue;
    }
    if (line.empty()) break;
    const auto header = read_header_line(line);
    if (!header || head.headers.size() == headers_max || !note(*header, head, noted))
      return std::nullopt;
    head.headers.push_back({std::string(header->name), std::string(header->value)});
  }
  if (noted.is_chunked && (head.length || is_1_0)) return std::nullopt;
  head.end = end_of(head, noted.is_chunked, request_is_head);
  head.keep_alive =
      head.end != AnswerEnd::close && !noted.says_close && (!is_1_0 || noted.says_keep_alive);
  return head;
}

}  // namespace semel::http
