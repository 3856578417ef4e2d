#include "http/chunked.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace semel::http {
namespace {

struct Outcome {
  Parsed state = Parsed::incomplete;
  std::string body;
  std::string rest;
  int status = 0;
};

/// Decodes as a connection does: what arrives is appended, the framing between is taken out.
Outcome decode(const std::string& bytes, std::size_t at_a_time, std::size_t body_max = 1000) {
  ChunkedReader reader{body_max, 300};
  Outcome outcome;
  std::string buffer;
  std::size_t body_end = 0;
  for (std::size_t at = 0; at < bytes.size() && outcome.state == Parsed::incomplete;
       at += at_a_time) {
    buffer += bytes.substr(at, at_a_time);
    const auto progress = reader.read(buffer.data() + body_end, buffer.size() - body_end);
    body_end += progress.body;
    buffer.erase(body_end, progress.consumed - progress.body);
    outcome.state = progress.state;
  }
  outcome.body = buffer.substr(0, body_end);
  outcome.rest = buffer.substr(body_end);
  if (outcome.state == Parsed::failed) outcome.status = reader.refused().status;
  return outcome;
}

TEST_CASE("chunks become a body, however they arrive, and what follows is left") {
  const std::string bytes =
      "5\r\nhello\r\n1;name=value;other=\"a b\"\r\n,\r\n000A\r\n 0123\r\n678\r\n0\r\nX: "
      "y\r\n\r\nGET";
  for (std::size_t at_a_time = 1; at_a_time <= bytes.size(); ++at_a_time) {
    CAPTURE(at_a_time);
    const Outcome outcome = decode(bytes, at_a_time);
    REQUIRE(outcome.state == Parsed::complete);
    CHECK(outcome.body == "hello, 0123\r\n678");
    CHECK(std::string("GET").starts_with(outcome.rest));
  }
}

TEST_CASE("a body that is chunked badly is refused, however it arrives") {
  struct Case {
    int number;
    std::string bytes;
    int status;
  };

  const std::vector<Case> cases{
      {1, "\r\n", 400},
      {2, "g\r\n", 400},
      {3, "5 \r\nhello\r\n", 400},
      {4, " 5\r\nhello\r\n", 400},
      {5, "0x5\r\nhello\r\n", 400},
      {6, "+5\r\nhello\r\n", 400},
      {7, "-1\r\n", 400},
      {8, "5\nhello\r\n", 400},
      {9, "5\r\nhello\n0\r\n\r\n", 400},
      {10, "5\r\nhelloX\r\n", 400},
      {11, "5\r\nhell\r\n0\r\n\r\n", 400},
      {12, "00000000000000005\r\n", 400},
      {13, "FFFFFFFFFFFFFFFF\r\n", 413},
      {14, "3E9\r\n", 413},
      {15, "3E8\r\n" + std::string(1000, 'x') + "\r\n1\r\n", 413},
      {16, "5;" + std::string(300, 'x') + "\r\n", 400},
      {17, "5;a\x01\r\nhello\r\n", 400},
      {18, "5 ;a\r\nhello\r\n", 400},
      {19, ";a\r\n", 400},
      {20, "0\r\nX : y\r\n\r\n", 400},
      {21, "0\r\nX: y\n\r\n", 400},
      {22, "0\r\n folded\r\n\r\n", 400},
      {23, "0\r\n" + std::string(301, 'x') + "\r\n\r\n", 431},
      {24,
       "0\r\n" + std::string(30, 'x') + ": " + std::string(140, 'y') + "\r\n" +
           std::string(30, 'x') + ": " + std::string(140, 'y') + "\r\n\r\n",
       431},
      {25, "1;" + std::string(200, 'x') + "\r\na\r\n1;" + std::string(200, 'x') + "\r\n", 431},
      {26, std::string("5\0\r\n", 4), 400},
  };
  for (const Case& each : cases) {
    CAPTURE(each.number);
    for (std::size_t at_a_time :
         {std::size_t{1}, std::size_t{2}, std::size_t{7}, each.bytes.size()}) {
      CAPTURE(at_a_time);
      const Outcome outcome = decode(each.bytes, at_a_time);
      CHECK(outcome.state == Parsed::failed);
      CHECK(outcome.status == each.status);
    }
  }
}

TEST_CASE("a chunked body may be as large as the limit") {
  const std::string chunk = "3E8\r\n" + std::string(1000, 'x') + "\r\n0\r\n\r\n";

  CHECK(decode(chunk, 64).state == Parsed::complete);
  CHECK(decode(chunk, 64, 999).status == 413);
}

}  // namespace
}  // namespace semel::http
