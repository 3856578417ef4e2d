// The head of an answer as bytes.
#pragma once

#include <semel/detail/http_message.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace semel::http {

/// What frames an answer: the connection's business, not the handler's.
struct AnswerFrame {
  std::string_view date;
  std::optional<std::uint64_t> length{};  ///< where it is not that of the body
  bool is_chunked = false;                ///< else Content-Length, where the status has one
  bool ends_by_close = false;             ///< neither of the two: a stream to an HTTP/1.0 client
  bool closes = false;
  bool says_keep_alive = false;  ///< to an HTTP/1.0 client
};

/// Whether an answer with this status has a body.
bool has_body(int status);

/// Whether the answer can be sent as it is: a status from 200 to 599, headers that stay within their lines.
bool is_sendable(const Response& response);

/// Appends status line and headers. Headers that are about the connection are left to `frame`.
void append_head(std::string& out, const Response& response, const AnswerFrame& frame);

}  // namespace semel::http
