#include "http/answer_reader.hpp"

#include <doctest/doctest.h>

#include <array>

namespace semel::http {

namespace {

std::optional<AnswerHead> read(std::string_view text, bool request_is_head = false) {
  return read_answer_head(text, request_is_head, 3);
}

}  // namespace

TEST_CASE("an answer's head says how its body ends and whether the connection stays") {
  struct Case {
    int number;
    std::string_view text;
    bool request_is_head;
    int status;
    AnswerEnd end;
    bool keep_alive;
  };

  const auto cases = std::to_array<Case>(
      {{1, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", false, 200, AnswerEnd::length, true},
       {2, "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", false, 200, AnswerEnd::length, true},
       {3, "HTTP/1.1 200 \r\nTransfer-Encoding: Chunked\r\n\r\n", false, 200, AnswerEnd::chunked,
        true},
       {4, "HTTP/1.1 200 OK\r\n\r\n", false, 200, AnswerEnd::close, false},
       {5, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true, 200, AnswerEnd::none, true},
       {6, "HTTP/1.1 204 No Content\r\n\r\n", false, 204, AnswerEnd::none, true},
       {7, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", false, 304, AnswerEnd::none,
        true},
       {8, "HTTP/1.1 100 Continue\r\n\r\n", false, 100, AnswerEnd::none, true},
       {9, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: x, Close\r\n\r\n", false, 200,
        AnswerEnd::length, false},
       {10, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\n", false, 200, AnswerEnd::length, false},
       {11, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n", false, 200,
        AnswerEnd::length, true}});
  for (const Case& each : cases) {
    CAPTURE(each.number);
    const auto head = read(each.text, each.request_is_head);
    REQUIRE(head);
    CHECK(head->status == each.status);
    CHECK(head->end == each.end);
    CHECK(head->keep_alive == each.keep_alive);
  }
  CHECK(read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", true)->length == 5);
  CHECK(read("HTTP/1.1 200 OK\r\nX-A:  b \r\n\r\n")->headers == std::vector<Header>{{"X-A", "b"}});
}

TEST_CASE("what leaves open where an answer ends is no answer") {
  const auto texts = std::to_array<std::string_view>(
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
       "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
       "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
       "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
       "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
       "HTTP/1.1 200 OK\r\nA: 1\r\n folded\r\n\r\n",
       "HTTP/1.1 200 OK\r\nA : 1\r\n\r\n",
       "HTTP/1.1 200 OK\r\nA: 1\n\r\n\r\n",
       "HTTP/1.1 200 OK\r\nA: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\n\r\n",
       "HTTP/2.0 200 OK\r\n\r\n",
       "HTTP/1.2 200 OK\r\n\r\n",
       "HTTP/1.1 20 OK\r\n\r\n",
       "HTTP/1.1 099 OK\r\n\r\n",
       "HTTP/1.1 2000 OK\r\n\r\n",
       "HTTP/1.1 200OK\r\n\r\n",
       "http/1.1 200 OK\r\n\r\n",
       "\r\nHTTP/1.1 200 OK\r\n\r\n",
       "HTTP/1.1 200 OK\r\n",
       ""});
  for (const std::string_view text : texts) {
    CAPTURE(text);
    CHECK_FALSE(read(text));
  }
}

}  // namespace semel::http
