#include "http/head_parser.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace semel::http {
namespace {

struct Case {
  int number;
  std::string bytes;
  int status;  // 0: accepted
  std::string code;
};

std::string get(const std::string& headers) { return "GET / HTTP/1.1\r\n" + headers + "\r\n"; }

std::string post(const std::string& headers) {
  return "POST /p HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n";
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      // ---- accepted
      {1, get("Host: a\r\n"), 0, ""},
      {2, get("host:a\r\n"), 0, ""},
      {3, get("HOST: \t a \t \r\n"), 0, ""},
      {4, "GET / HTTP/1.0\r\n\r\n", 0, ""},
      {5, "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 0, ""},
      {6, get("Host: [::1]:8080\r\n"), 0, ""},
      {7, get("Host: 127.0.0.1:80\r\n"), 0, ""},
      {8, get("Host:\r\n"), 0, ""},
      {9, get("Host: a\r\nX-Empty:\r\nX-Tab: a\tb\r\nX-High: \xC3\xA9\r\n"), 0, ""},
      {10, "GET http://a.example/x?y HTTP/1.1\r\nHost: b\r\n\r\n", 0, ""},
      {11, "GET HTTP://a HTTP/1.1\r\nHost: a\r\n\r\n", 0, ""},
      {12, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 0, ""},
      {13, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 0, ""},
      {14, post("Content-Length: 0\r\n"), 0, ""},
      {15, post("Content-Length: 00005\r\n"), 0, ""},
      {16, post("Transfer-Encoding: chunked\r\n"), 0, ""},
      {17, post("Transfer-Encoding: Chunked\r\n"), 0, ""},
      {18, post("Transfer-Encoding: ,chunked,\r\n"), 0, ""},
      {19, get("Host: a\r\nExpect: 100-Continue\r\n"), 0, ""},
      {20, get("Host: a\r\nA!#$%&'*+-.^_`|~1: x\r\n"), 0, ""},
      // ---- lines
      {30, "GET / HTTP/1.1\nHost: a\n\n", 400, "MALFORMED"},
      {31, "GET / HTTP/1.1\r\nHost: a\n\r\n", 400, "MALFORMED"},
      {32, "GET / HTTP/1.1\r\nHost: a\r\n\n", 400, "MALFORMED"},
      {33, "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400, "MALFORMED"},
      {34, "\n", 400, "MALFORMED"},
      {35, "\r\n\r\nGET / HTTP/1.1\r\n", 400, "MALFORMED"},
      {36, std::string("\x16\x03\x01", 3), 400, "MALFORMED"},
      {37, " GET / HTTP/1.1\r\n", 400, "MALFORMED"},
      {38, std::string("\0", 1), 400, "MALFORMED"},
      // ---- the first line
      {40, "GET /\r\n", 400, "MALFORMED"},
      {41, "GET / \r\n", 400, "MALFORMED"},
      {42, "GET  / HTTP/1.1\r\n", 400, "MALFORMED"},
      {43, "GET /  HTTP/1.1\r\n", 400, "MALFORMED"},
      {44, "GET /a b HTTP/1.1\r\n", 400, "MALFORMED"},
      {45, "GET\t/\tHTTP/1.1\r\n", 400, "MALFORMED"},
      {46, "GET / HTTP/1.1 \r\n", 400, "MALFORMED"},
      {47, "GET / HTTP/2.0\r\n", 400, "MALFORMED"},
      {48, "GET / HTTP/1.2\r\n", 400, "MALFORMED"},
      {49, "GET / HTTP/0.9\r\n", 400, "MALFORMED"},
      {50, "GET / http/1.1\r\n", 400, "MALFORMED"},
      {51, "GET / HTTP/1.10\r\n", 400, "MALFORMED"},
      {52, "GET / HTTP/11\r\n", 400, "MALFORMED"},
      {53, "G@T / HTTP/1.1\r\n", 400, "MALFORMED"},
      {54, "get / HTTP/1.1\r\n", 501, "NOT_IMPLEMENTED"},
      {55, "BREW / HTTP/1.1\r\n", 501, "NOT_IMPLEMENTED"},
      // ---- targets
      {60, "GET a HTTP/1.1\r\n", 400, "MALFORMED"},
      {61, "GET * HTTP/1.1\r\n", 400, "MALFORMED"},
      {62, "GET /a#b HTTP/1.1\r\n", 400, "MALFORMED"},
      {63, "GET /\xC3\xA9 HTTP/1.1\r\n", 400, "MALFORMED"},
      {64, "GET /\x01 HTTP/1.1\r\n", 400, "MALFORMED"},
      {65, "GET /\x7F HTTP/1.1\r\n", 400, "MALFORMED"},
      {66, "GET ftp://a/ HTTP/1.1\r\n", 400, "MALFORMED"},
      {67, "GET http:///a HTTP/1.1\r\n", 400, "MALFORMED"},
      {68, "GET http://user@a/ HTTP/1.1\r\n", 400, "MALFORMED"},
      {69, "GET a:80 HTTP/1.1\r\n", 400, "MALFORMED"},
      {70, "CONNECT /a HTTP/1.1\r\n", 400, "MALFORMED"},
      {71, "CONNECT a HTTP/1.1\r\n", 400, "MALFORMED"},
      // ---- headers
      {80, get("Host: a\r\nX : b\r\n"), 400, "MALFORMED"},
      {81, get("Host: a\r\nX\t: b\r\n"), 400, "MALFORMED"},
      {82, get("Host: a\r\n X: b\r\n"), 400, "MALFORMED"},
      {83, get("Host: a\r\nX: b\r\n c\r\n"), 400, "MALFORMED"},
      {84, get("Host: a\r\nX: b\r\n\tc\r\n"), 400, "MALFORMED"},
      {85, get("Host: a\r\n: b\r\n"), 400, "MALFORMED"},
      {86, get("Host: a\r\nX\r\n"), 400, "MALFORMED"},
      {87, get("Host: a\r\nX(: b\r\n"), 400, "MALFORMED"},
      {88, get(std::string("Host: a\r\nX: b\0c\r\n", 17)), 400, "MALFORMED"},
      {89, get("Host: a\r\nX: b\x01\r\n"), 400, "MALFORMED"},
      {90, get("Host: a\r\nX: b\x7F\r\n"), 400, "MALFORMED"},
      {91, get("Host: a\r\nX: b\x0B\r\n"), 400, "MALFORMED"},
      {92, get("Host: a\r\nX\xC3\xA9: b\r\n"), 400, "MALFORMED"},
      {93, get("Host: a\r\nIdempotency-Key: a\x01\r\n"), 400, "IDEMPOTENCY_KEY_INVALID"},
      {94, get("Host: a\r\nidempotency-key: \x7F\r\n"), 400, "IDEMPOTENCY_KEY_INVALID"},
      {95, get("Host: a\r\nIdempotency-Key\r\n"), 400, "MALFORMED"},
      // ---- Host
      {100, get(""), 400, "MALFORMED"},
      {101, get("Host: a\r\nHost: a\r\n"), 400, "MALFORMED"},
      {102, get("Host: a\r\nhOST: b\r\n"), 400, "MALFORMED"},
      {103, get("Host: a b\r\n"), 400, "MALFORMED"},
      {104, get("Host: a, b\r\n"), 400, "MALFORMED"},
      {105, get("Host: user@a\r\n"), 400, "MALFORMED"},
      {106, get("Host: a/b\r\n"), 400, "MALFORMED"},
      {107, get("Host: a:port\r\n"), 400, "MALFORMED"},
      {108, get("Host: [::1\r\n"), 400, "MALFORMED"},
      {109, get("Host: [::1]x\r\n"), 400, "MALFORMED"},
      {110, "GET http://a/ HTTP/1.1\r\n\r\n", 400, "MALFORMED"},
      // ---- lengths and codings
      {120, post("Content-Length: 5\r\nContent-Length: 5\r\n"), 400, "MALFORMED"},
      {121, post("Content-Length: 5\r\nContent-Length: 6\r\n"), 400, "MALFORMED"},
      {122, post("Content-Length: 5, 5\r\n"), 400, "MALFORMED"},
      {123, post("Content-Length: +5\r\n"), 400, "MALFORMED"},
      {124, post("Content-Length: -5\r\n"), 400, "MALFORMED"},
      {125, post("Content-Length: 0x5\r\n"), 400, "MALFORMED"},
      {126, post("Content-Length: 5 5\r\n"), 400, "MALFORMED"},
      {127, post("Content-Length:\r\n"), 400, "MALFORMED"},
      {128, post("Content-Length: 99999999999999999999\r\n"), 400, "MALFORMED"},
      {129, post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400, "MALFORMED"},
      {130, post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400, "MALFORMED"},
      {131, post("Transfer-Encoding: gzip\r\nContent-Length: 5\r\n"), 400, "MALFORMED"},
      {132, post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400, "MALFORMED"},
      {133, post("Transfer-Encoding: chunked, chunked\r\n"), 400, "MALFORMED"},
      {134, post("Transfer-Encoding: chunked, gzip\r\n"), 400, "MALFORMED"},
      {135, post("Transfer-Encoding:\r\n"), 400, "MALFORMED"},
      {136, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "MALFORMED"},
      {137, post("Transfer-Encoding: gzip\r\n"), 501, "NOT_IMPLEMENTED"},
      {138, post("Transfer-Encoding: gzip, chunked\r\n"), 501, "NOT_IMPLEMENTED"},
      {139, post("Transfer-Encoding: xchunked\r\n"), 501, "NOT_IMPLEMENTED"},
      {140, post("Transfer-Encoding: identity\r\n"), 501, "NOT_IMPLEMENTED"},
      {141, post("Transfer-Encoding: \"chunked\"\r\n"), 501, "NOT_IMPLEMENTED"},
      {142, post("Transfer-Encoding: chunked;q=1\r\n"), 501, "NOT_IMPLEMENTED"},
      {143, post("Expect: the unexpected\r\n"), 417, "EXPECTATION_FAILED"},
  };
  return all;
}

Parsed parse_whole(HeadParser& parser, const std::string& bytes) {
  parser.reset();
  return parser.parse(bytes);
}

TEST_CASE("a head is accepted or refused, and it does not matter how it arrives") {
  HeadParser parser{HeadLimits{}};
  for (const Case& each : cases()) {
    CAPTURE(each.number);
    const Parsed expected = each.status == 0 ? Parsed::complete : Parsed::failed;
    REQUIRE(parse_whole(parser, each.bytes) == expected);
    if (each.status != 0) {
      CHECK(parser.refused().status == each.status);
      CHECK(parser.refused().code == each.code);
    }

    for (std::size_t split = 0; split < each.bytes.size(); ++split) {
      parser.reset();
      Parsed parsed = parser.parse(std::string(each.bytes, 0, split));
      if (parsed == Parsed::incomplete) parsed = parser.parse(std::string(each.bytes));
      CAPTURE(split);
      CHECK(parsed == expected);
    }

    parser.reset();
    Parsed parsed = Parsed::incomplete;
    for (std::size_t size = 0; size <= each.bytes.size() && parsed == Parsed::incomplete; ++size)
      parsed = parser.parse(std::string(each.bytes, 0, size));
    CHECK(parsed == expected);
  }
}

TEST_CASE("what a head says is shown as it was sent") {
  const std::string bytes =
      "POST /a%20b/c?x=1&y HTTP/1.1\r\nHost: shop.example:81\r\nX-One:  1 \r\nx-one: 2\r\n"
      "Content-Length: 3\r\nConnection: x, Close\r\n\r\nabc";
  HeadParser parser{HeadLimits{}};
  REQUIRE(parser.parse(bytes) == Parsed::complete);
  Request request;
  parser.show(bytes, request);

  CHECK(request.method == "POST");
  CHECK(request.target == "/a%20b/c?x=1&y");
  CHECK(request.path == "/a%20b/c");
  CHECK(request.query == "x=1&y");
  CHECK(request.host == "shop.example:81");
  REQUIRE(request.headers.size() == 5);
  CHECK(request.headers[1].name == "X-One");
  CHECK(request.headers[1].value == "1");
  CHECK(request.header("X-ONE") == "1");
  CHECK_FALSE(request.header("absent"));
  CHECK(parser.framing().content_length == 3);
  CHECK_FALSE(parser.framing().keep_alive);
  CHECK(parser.length() == bytes.size() - 3);
}

TEST_CASE("a target with a host in it counts for more than the Host header") {
  HeadParser parser{HeadLimits{}};
  Request request;
  const std::string bytes = "GET http://a.example:80?q HTTP/1.1\r\nHost: b\r\n\r\n";
  REQUIRE(parser.parse(bytes) == Parsed::complete);
  parser.show(bytes, request);

  CHECK(request.host == "a.example:80");
  CHECK(request.path == "/");
  CHECK(request.query == "q");
}

TEST_CASE("whether a connection stays open") {
  struct Stay {
    const char* bytes;
    bool keep_alive;
  };

  HeadParser parser{HeadLimits{}};
  for (const Stay& each : std::to_array<Stay>({
           {"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true},
           {"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false},
           {"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, close\r\n\r\n", false},
           {"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
            false},
           {"GET / HTTP/1.0\r\n\r\n", false},
           {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
       })) {
    CAPTURE(each.bytes);
    REQUIRE(parse_whole(parser, each.bytes) == Parsed::complete);
    CHECK(parser.framing().keep_alive == each.keep_alive);
  }
}

TEST_CASE("a head may be as large as the limit and no larger") {
  HeadParser parser{HeadLimits{}};
  const std::string start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
  const std::size_t limit = std::size_t{32} << 10U;
  const auto sized = [&](std::size_t size) {
    return start + std::string(size - start.size() - 4, 'x') + "\r\n\r\n";
  };
  CHECK(parse_whole(parser, sized(limit)) == Parsed::complete);
  REQUIRE(parse_whole(parser, sized(limit + 1)) == Parsed::failed);
  CHECK(parser.refused().status == 431);
  CHECK(parser.refused().code == "HEADERS_TOO_LARGE");
  // Also where no line ever ends.
  CHECK(parse_whole(parser, std::string(limit, 'x')) == Parsed::incomplete);
  REQUIRE(parse_whole(parser, std::string(limit + 1, 'x')) == Parsed::failed);
  CHECK(parser.refused().status == 431);

  std::string many = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 99; ++i) many += "X: y\r\n";
  CHECK(parse_whole(parser, many + "\r\n") == Parsed::complete);
  REQUIRE(parse_whole(parser, many + "X: y\r\n\r\n") == Parsed::failed);
  CHECK(parser.refused().status == 431);
}

}  // namespace
}  // namespace semel::http
