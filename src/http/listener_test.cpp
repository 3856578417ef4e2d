// The server as a client sees it that sends exactly these bytes.
#include "http/listener.hpp"

#include "http/raw_client.hpp"

#include <semel/error.hpp>

#include <doctest/doctest.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace semel::http {
namespace {

using namespace std::chrono_literals;
using testing::RawAnswer;
using testing::RawClient;

const base::SystemClock wall_clock;

/// Answers by the path: what a request is told and when.
class TestHandler : public Handler {
 public:
  Admission admit(const Request& request, const ListenerLimits& limits) override {
    Admission admission{.body_bytes_max = limits.body_bytes_max};
    if (request.path == "/slow-body") admission.body_time = 50ms;
    if (request.path.starts_with("/upload")) {
      admission.is_streamed = true;
      admission.body_bytes_max = std::size_t{1} << 30U;
    }
    if (request.path == "/refused") admission.refusal = Response{403, {}, "not you"};
    return admission;
  }

  void handle(const Request& request, Responder responder) override {
    if (request.path == "/later") {
      keep(request, std::move(responder));
    } else if (request.path == "/thread") {
      const std::jthread elsewhere(
          [&] { responder.answer({200, {}, "from " + std::string(request.body)}); });
    } else if (request.path == "/throw") {
      throw std::runtime_error("secret");
    } else if (request.path == "/forget") {
      const Responder dropped = std::move(responder);
    } else if (request.path == "/none") {
      responder.answer({204, {}, "no body in sight"});
    } else if (request.path == "/bad-header") {
      responder.answer({200, {{"x", "a\r\nset-cookie: b"}}, ""});
    } else if (request.path == "/framing") {
      responder.answer({200, {{"Content-Length", "99"}, {"Transfer-Encoding", "chunked"}}, "ok"});
    } else if (request.path == "/stream") {
      AnswerStream stream = responder.stream({200, {{"content-type", "text/plain"}}, "one"});
      stream.write("", {});
      stream.write("two", {});
      stream.finish();
    } else if (request.path == "/broken-stream") {
      AnswerStream stream = responder.stream({200, {}, "one"});
    } else if (request.path == "/upload-echo") {
      BodyStream body = responder.body();
      echo(std::move(body), std::make_shared<AnswerStream>(responder.stream({200, {}, ""})));
    } else if (request.path == "/upload-count") {
      const auto kept = std::make_shared<Responder>(std::move(responder));
      count(request, kept, 0);
    } else if (request.path == "/upload-ignored") {
      responder.answer({200, {}, "ignored"});
    } else if (request.path == "/large-stream") {
      pump(std::make_shared<AnswerStream>(responder.stream({200, {}, ""})), 200);
    } else {
      responder.answer({200,
                        {{"content-type", "text/plain"}},
                        std::string(request.method) + " " + std::string(request.target) + " " +
                            std::string(request.body)});
    }
  }

  /// The oldest request kept by /later.
  Responder next_kept() {
    std::unique_lock lock(mutex_);
    kept_one_.wait(lock, [&] { return !kept_.empty(); });
    Responder responder = std::move(kept_.front());
    kept_.pop_front();
    return responder;
  }

  std::string last_body() {
    const std::lock_guard lock(mutex_);
    return last_body_;
  }

  int parts_written = 0;
  std::promise<bool> pump_end;

 private:
  void keep(const Request& request, Responder responder) {
    const std::lock_guard lock(mutex_);
    last_body_ = request.body;
    kept_.push_back(std::move(responder));
    kept_one_.notify_all();
  }

  /// Sends back what arrives, and asks for more when that has left.
  static void echo(BodyStream body, const std::shared_ptr<AnswerStream>& stream) {
    body.read([body, stream](BodyPart part) {
      const bool is_last = part.state == BodyPart::State::last;
      stream->write(std::move(part.bytes), [body, stream, is_last](bool ok) {
        if (is_last && ok) stream->finish();
        if (!is_last && ok) echo(body, stream);
      });
    });
  }

  static void count(const Request& request, const std::shared_ptr<Responder>& responder,
                    std::size_t before) {
    responder->body().read([&request, responder, before](const BodyPart& part) {
      const std::size_t bytes = before + part.bytes.size();
      if (part.state == BodyPart::State::more) {
        count(request, responder, bytes);
      } else {
        const bool is_lost = part.state == BodyPart::State::lost;
        responder->answer(
            {is_lost ? 400 : 200,
             {},
             std::string(request.header("x-name").value_or("")) + " " + std::to_string(bytes)});
      }
    });
  }

  void pump(const std::shared_ptr<AnswerStream>& stream, int left) {
    stream->write(std::string(std::size_t{64} << 10U, 'x'), [=, this](bool ok) {
      ++parts_written;
      if (!ok) {
        pump_end.set_value(false);
      } else if (left > 1) {
        pump(stream, left - 1);
      } else {
        stream->finish();
        pump_end.set_value(true);
      }
    });
  }

  std::mutex mutex_;
  std::condition_variable kept_one_;
  std::deque<Responder> kept_;
  std::string last_body_;
};

struct Fixture {
  explicit Fixture(ListenerOptions options = {})
      : listener(Listener::open(options, handler, wall_clock)) {}

  RawClient client() const { return RawClient{listener->port()}; }

  TestHandler handler;
  std::unique_ptr<Listener> listener;
};

std::string get(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n";
}

std::string post(const std::string& path, const std::string& body,
                 const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + headers + "\r\n" + body;
}

TEST_CASE("what is malformed is told why and the connection ends; what is not goes on") {
  struct Case {
    int number;
    std::string bytes;
    int status;
    std::string code;
    bool stays;
  };

  const std::string start = "POST /x HTTP/1.1\r\nHost: a\r\n";
  const std::vector<Case> cases{
      {1, get("/x"), 200, "", true},
      {2, get("/x", "Connection: close\r\n"), 200, "", false},
      {3, "GET /x HTTP/1.0\r\n\r\n", 200, "", false},
      {4, "GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, "", true},
      {5, post("/x", "abc"), 200, "", true},
      {6, start + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 200, "", true},
      {7, "GET /x HTTP/1.1\n\n", 400, "MALFORMED", false},
      {8, "GET /x HTTP/1.1\r\n\r\n", 400, "MALFORMED", false},
      {9, start + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
       "MALFORMED", false},
      {10, start + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400, "MALFORMED", false},
      {11, start + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400, "MALFORMED", false},
      {12, start + "Transfer-Encoding: gzip\r\n\r\n", 501, "NOT_IMPLEMENTED", false},
      {13, "BREW /x HTTP/1.1\r\nHost: a\r\n\r\n", 501, "NOT_IMPLEMENTED", false},
      {14, start + "Content-Length: 1048577\r\n\r\n", 413, "PAYLOAD_TOO_LARGE", false},
      {15, start + "Transfer-Encoding: chunked\r\n\r\n100001\r\n", 413, "PAYLOAD_TOO_LARGE", false},
      {16, start + "X: " + std::string(std::size_t{32} << 10U, 'x') + "\r\n\r\n", 431,
       "HEADERS_TOO_LARGE", false},
      {17, start + "Expect: rain\r\n\r\n", 417, "EXPECTATION_FAILED", false},
      {18, get("/throw"), 500, "INTERNAL", true},
      {19, get("/forget"), 500, "INTERNAL", true},
      {20, get("/bad-header"), 500, "INTERNAL", true},
      {21, get("/none"), 204, "", true},
  };
  const Fixture fixture;
  for (const Case& each : cases) {
    CAPTURE(each.number);
    RawClient client{fixture.listener->port()};
    const auto answer = client.send(each.bytes).receive();
    REQUIRE(answer);
    CHECK(answer->status == each.status);
    CHECK(answer->code() == each.code);
    CHECK(answer->says("\r\ndate: "));
    if (each.stays) {
      CHECK_FALSE(answer->says("connection: close"));
      REQUIRE(client.send(get("/again")).receive());
    } else {
      CHECK(answer->says("connection: close"));
      CHECK(client.is_closed());
    }
  }
}

TEST_CASE("requests that arrive in pieces are the same requests") {
  const Fixture fixture;
  const std::string bytes = post("/a?b", "hello") +
                            "PUT /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n" +
                            get("/d");
  for (std::size_t split = 0; split <= bytes.size(); ++split) {
    CAPTURE(split);
    RawClient client{fixture.listener->port()};
    client.send(std::string_view(bytes).substr(0, split));
    client.send(std::string_view(bytes).substr(split));
    CHECK(client.receive()->body == "POST /a?b hello");
    CHECK(client.receive()->body == "PUT /c abcde");
    CHECK(client.receive()->body == "GET /d ");
  }
  RawClient client{fixture.listener->port()};
  for (const char byte : bytes) client.send({&byte, 1});
  CHECK(client.receive()->body == "POST /a?b hello");
  CHECK(client.receive()->body == "PUT /c abcde");
  CHECK(client.receive()->body == "GET /d ");
}

TEST_CASE("a pipeline is answered in order, also where an answer comes late or from elsewhere") {
  Fixture fixture;
  auto client = fixture.client();
  std::string all = post("/later", "first") + get("/2") + post("/thread", "3") + get("/4");
  for (int i = 0; i < 500; ++i) all += get("/n" + std::to_string(i));
  client.send(all);

  Responder first = fixture.handler.next_kept();
  CHECK(fixture.handler.last_body() == "first");
  first.answer({200, {}, "1"});

  CHECK(client.receive()->body == "1");
  CHECK(client.receive()->body == "GET /2 ");
  CHECK(client.receive()->body == "from 3");
  CHECK(client.receive()->body == "GET /4 ");
  for (int i = 0; i < 500; ++i)
    REQUIRE(client.receive()->body == "GET /n" + std::to_string(i) + " ");
}

TEST_CASE("an answer to HEAD has the headers of a GET and no body") {
  const Fixture fixture;
  auto client = fixture.client();
  client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n" + get("/y"));

  const auto head = client.receive(true);
  CHECK(head->status == 200);
  CHECK(head->says("content-length: 8"));
  CHECK(client.receive()->body == "GET /y ");

  client.send("HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n" + get("/y"));
  CHECK(client.receive(true)->says("transfer-encoding: chunked"));
  CHECK(client.receive()->body == "GET /y ");
}

TEST_CASE("whoever asks before sending a body is told to go on, or not") {
  const Fixture fixture;
  auto client = fixture.client();
  const std::string start =
      "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n";

  client.send(start);
  CHECK(client.receive()->status == 100);
  client.send("abc");
  CHECK(client.receive()->body == "POST /x abc");

  // Who does not wait is not told.
  client.send(start + "abc");
  CHECK(client.receive()->body == "POST /x abc");

  auto large = fixture.client();
  large.send(
      "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n");
  CHECK(large.receive()->status == 413);
  CHECK(large.is_closed());

  auto refused = fixture.client();
  refused.send(
      "POST /refused HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  CHECK(refused.receive()->body == "not you");
  CHECK(refused.is_closed());

  // Nothing comes: nothing has to be waited for.
  auto empty = fixture.client();
  empty.send("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n");
  CHECK(empty.receive()->status == 200);
}

TEST_CASE("bodies may be as large as the limit") {
  const Fixture fixture;
  auto client = fixture.client();
  const std::string body(std::size_t{1} << 20U, 'x');

  client.send(post("/x", body) + get("/y"));
  CHECK(client.receive()->body == "POST /x " + body);
  CHECK(client.receive()->body == "GET /y ");

  std::string chunked = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (std::size_t at = 0; at < body.size(); at += 1000) {
    const std::string chunk = body.substr(at, 1000);
    chunked += (chunk.size() == 1000 ? "3e8" : "240") + std::string("\r\n") + chunk + "\r\n";
  }
  client.send(chunked + "0\r\n\r\n" + get("/y"));
  CHECK(client.receive()->body == "POST /x " + body);
  CHECK(client.receive()->body == "GET /y ");
}

TEST_CASE("a client that sent far too much still reads why it was refused") {
  const Fixture fixture;
  auto client = fixture.client();
  std::jthread sender([&] {
    client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n" +
                std::string(8'000'000, 'x'));
    client.finish_sending();
  });

  const auto answer = client.receive();

  REQUIRE(answer);
  CHECK(answer->status == 413);
}

TEST_CASE("a handler cannot break the framing") {
  const Fixture fixture;
  auto client = fixture.client();

  const auto answer = client.send(get("/framing")).receive();

  CHECK(answer->says("content-length: 2\r\n"));
  CHECK_FALSE(answer->says("99"));
  CHECK_FALSE(answer->says("chunked"));
  CHECK(answer->body == "ok");
}

TEST_CASE("an answer may be a stream, and a broken one is recognised as such") {
  const Fixture fixture;
  auto client = fixture.client();

  CHECK(client.send(get("/stream")).receive()->body == "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
  CHECK(client.send(get("/x")).receive()->status == 200);

  auto old = fixture.client();
  old.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  CHECK_FALSE(old.receive()->says("chunked"));
  CHECK(old.rest() == "onetwo");

  auto cut = fixture.client();
  CHECK(cut.send(get("/broken-stream")).rest().ends_with("3\r\none\r\n"));
}

TEST_CASE("a stream goes as fast as its reader, and ends with it") {
  Fixture fixture;
  SUBCASE("read to the end") {
    auto client = fixture.client();
    client.send(get("/large-stream", "Connection: close\r\n"));
    const std::string all = client.rest();
    CHECK(all.size() > 200 * (std::size_t{64} << 10U));
    CHECK(all.ends_with("\r\n0\r\n\r\n"));
    CHECK(fixture.handler.pump_end.get_future().get());
  }
  SUBCASE("the reader goes away") {
    auto client = fixture.client();
    client.send(get("/large-stream"));
    REQUIRE(client.receive(true));
    client.reset();
    CHECK_FALSE(fixture.handler.pump_end.get_future().get());
    CHECK(fixture.handler.parts_written < 200);
  }
}

TEST_CASE("a body may be read while it arrives, however large") {
  const Fixture fixture;
  auto client = fixture.client();
  const std::string body(std::size_t{20} << 20U, 'x');

  std::jthread sender(
      [&] { client.send(post("/upload-count", body, "X-Name: n\r\n") + get("/next")); });
  CHECK(client.receive()->body == "n 20971520");
  CHECK(client.receive()->body == "GET /next ");
  sender.join();

  // There and back at the same time, through buffers far smaller than the body.
  std::jthread again([&] { client.send(post("/upload-echo", body, "Connection: close\r\n")); });
  const std::string all = client.rest();
  CHECK(std::ranges::count(all, 'x') == 20971520);
  CHECK(all.ends_with("\r\n0\r\n\r\n"));
}

TEST_CASE("a streamed body is the same however it is cut") {
  const Fixture fixture;
  const std::string bytes =
      post("/upload-count", "hello", "X-Name: a\r\n") +
      "PUT /upload-count HTTP/1.1\r\nHost: a\r\nX-Name: b\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\nX: y\r\n\r\n" +
      get("/d");
  for (std::size_t split = 0; split <= bytes.size(); ++split) {
    CAPTURE(split);
    RawClient client{fixture.listener->port()};
    client.send(std::string_view(bytes).substr(0, split));
    client.send(std::string_view(bytes).substr(split));
    CHECK(client.receive()->body == "a 5");
    CHECK(client.receive()->body == "b 7");
    CHECK(client.receive()->body == "GET /d ");
  }
}

TEST_CASE("a streamed body that does not come to its end is lost, and the connection with it") {
  ListenerOptions options;
  options.limits.idle_timeout = 60ms;
  const Fixture fixture{options};
  const std::string start = "POST /upload-count HTTP/1.1\r\nHost: a\r\n";

  auto half = fixture.client();
  half.send(start + "Content-Length: 10\r\n\r\nabc").finish_sending();
  CHECK(half.receive()->body == " 3");
  CHECK(half.is_closed());

  auto malformed = fixture.client();
  malformed.send(start + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n");
  CHECK(malformed.receive()->status == 400);
  CHECK(malformed.is_closed());

  auto slow = fixture.client();
  slow.send(start + "Content-Length: 10\r\n\r\nabc");
  CHECK(slow.receive()->body == " 3");
  CHECK(slow.is_closed());

  auto early = fixture.client();
  early.send("POST /upload-ignored HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  const auto answer = early.receive();
  CHECK(answer->body == "ignored");
  CHECK(answer->says("connection: close"));

  auto waiting = fixture.client();
  waiting.send(start + "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n");
  CHECK(waiting.receive()->status == 100);
  CHECK(waiting.send("abc").receive()->body == " 3");
}

TEST_CASE("slow clients are told so, idle ones are closed") {
  ListenerOptions options;
  options.limits.header_timeout = 20ms;
  options.limits.idle_timeout = 60ms;
  const Fixture fixture{options};

  SUBCASE("headers that do not come to an end") {
    auto client = fixture.client();
    const auto answer = client.send("GET / HT").receive();
    CHECK(answer->status == 408);
    CHECK(answer->code() == "TIMEOUT");
    CHECK(client.is_closed());
  }
  SUBCASE("a body in which no byte arrives") {
    auto client = fixture.client();
    const auto answer =
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na").receive();
    CHECK(answer->status == 408);
    CHECK(client.is_closed());
  }
  SUBCASE("nothing at all, and nothing after a request") {
    auto silent = fixture.client();
    CHECK(silent.is_closed());
    auto idle = fixture.client();
    CHECK(idle.send(get("/x")).receive()->status == 200);
    CHECK(idle.is_closed());
  }
  SUBCASE("a body that trickles, where there is a limit for all of it") {
    auto client = fixture.client();
    client.send("POST /slow-body HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n");
    std::jthread trickle([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) client.send("x");
    });
    const auto answer = client.receive();
    CHECK(answer->status == 408);
  }
  SUBCASE("an answer that nobody reads") {
    Fixture slow{options};
    auto client = slow.client();
    client.send(get("/large-stream"));
    CHECK_FALSE(slow.handler.pump_end.get_future().get());
  }
  SUBCASE("a request under way is not idle") {
    Fixture slow{options};
    auto client = slow.client();
    client.send(get("/later"));
    Responder responder = slow.handler.next_kept();
    auto other = slow.client();
    CHECK(other.is_closed());  // so the limit has passed
    responder.answer({200, {}, "late"});
    CHECK(client.receive()->body == "late");
  }
}

TEST_CASE("a client that goes away does not stop its request") {
  Fixture fixture;
  {
    auto client = fixture.client();
    client.send(post("/later", "kept"));
    Responder responder = fixture.handler.next_kept();
    client.reset();
    CHECK(fixture.handler.last_body() == "kept");
    responder.answer({200, {}, "to nobody"});
  }
  CHECK(fixture.client().send(get("/x")).receive()->status == 200);
}

TEST_CASE("stopping finishes what is under way and accepts nobody") {
  ListenerOptions options;
  options.limits.linger = 20ms;  // this client does not close, not even when it has its answer
  Fixture fixture{options};
  auto idle = fixture.client();
  REQUIRE(idle.send(get("/x")).receive());
  auto busy = fixture.client();
  busy.send(get("/later") + get("/never"));
  Responder responder = fixture.handler.next_kept();

  std::jthread stopping([&] { fixture.listener->stop(); });
  CHECK(idle.is_closed());
  responder.answer({200, {}, "done"});

  const auto answer = busy.receive();
  CHECK(answer->body == "done");
  CHECK(answer->says("connection: close"));
  CHECK(busy.is_closed());
  stopping.join();
  CHECK_THROWS(fixture.client());
  fixture.listener->stop();
}

TEST_CASE("stopping does not wait for ever, and a late answer does no harm") {
  ListenerOptions options;
  options.stop_grace = 20ms;
  Fixture fixture{options};
  auto client = fixture.client();
  client.send(get("/later"));
  Responder responder = fixture.handler.next_kept();

  fixture.listener->stop();
  CHECK(client.is_closed());
  fixture.listener.reset();

  responder.answer({200, {}, "too late"});
}

TEST_CASE("several threads serve one port") {
  ListenerOptions options;
  options.threads = 3;
  const Fixture fixture{options};
  std::vector<std::jthread> clients;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      for (int connection = 0; connection < 10; ++connection) {
        RawClient client{fixture.listener->port()};
        for (int n = 0; n < 20; ++n) {
          if (client.send(post("/thread", "x")).receive()->body == "from x") ++answered;
        }
      }
    });
  }
  clients.clear();
  CHECK(answered == 1600);
}

TEST_CASE("a port that is taken is not shared") {
  const Fixture first;
  for (const unsigned threads : {1U, 2U}) {
    ListenerOptions options;
    options.port = first.listener->port();
    options.threads = threads;
    TestHandler handler;
    try {
      const auto second = Listener::open(options, handler, wall_clock);
      FAIL("two servers on one port");
    } catch (const Error& error) {
      CHECK(error.code() == "LISTEN_FAILED");
    }
  }
}

}  // namespace
}  // namespace semel::http
