// The head of an answer that comes from elsewhere, read as strictly as that of a request: a proxy that is wrong about where
// an answer ends hands one client what belongs to another.
#pragma once

#include <semel/detail/http_message.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace semel::http {

/// How the body of an answer ends.
enum class AnswerEnd : std::uint8_t { none, length, chunked, close };

struct AnswerHead {
  int status = 0;
  std::vector<Header> headers;  ///< as sent
  AnswerEnd end = AnswerEnd::none;
  std::optional<std::uint64_t> length{};  ///< as announced, also where no body follows
  bool keep_alive = true;
};

/// `text` is the head with its empty line. Nothing where it is not one: no HTTP/1.x, a header that is none, more than
/// `headers_max` of them, two lengths, a length beside a transfer coding, a coding other than chunked.
std::optional<AnswerHead> read_answer_head(std::string_view text, bool request_is_head,
                                           std::size_t headers_max);

}  // namespace semel::http
