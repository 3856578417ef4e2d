// Events as the command line reads them.
#include "app/cli_events.hpp"

#include "app/cli_table.hpp"
#include "http/listener.hpp"
#include "http/origin.hpp"
#include "http/problem.hpp"

#include <semel/error.hpp>

#include <boost/json.hpp>
#include <doctest/doctest.h>

#include <deque>
#include <mutex>
#include <sstream>
#include <vector>

namespace semel::app {
namespace {

/// Sends what is on its list, one to each request, and cuts the connection behind it; then only problems. Notes the
/// Last-Event-ID of each.
class Journal final : public http::Handler {
 public:
  explicit Journal(std::deque<std::string> streams) : streams_(std::move(streams)) {}

  void handle(const http::Request& request, http::Responder responder) override {
    const std::lock_guard lock(mutex_);
    asked_.emplace_back(request.header("last-event-id").value_or("none"));
    if (streams_.empty()) {
      responder.answer(http::problem("RUN_NOT_FOUND", "no such run"));
      return;
    }
    responder.stream({200, {{"content-type", "text/event-stream"}}, streams_.front()});
    streams_.pop_front();
  }

  std::vector<std::string> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(listener_->port()); }

 private:
  std::mutex mutex_;
  std::deque<std::string> streams_;
  std::vector<std::string> asked_;
  base::SystemClock clock_;
  std::unique_ptr<http::Listener> listener_ = http::Listener::open({}, *this, clock_);
};

struct Followed {
  std::vector<std::string> events{};
  std::vector<std::chrono::nanoseconds> waits{};
};

Followed follow(const std::string& url) {
  Followed followed;
  const auto transport = http::ClientTransport::open(
      http::read_origin(url), {.answer_bytes_max = 1U << 20U, .idle_connections_max = 1});
  follow_events(
      *transport, {.method = "GET", .target = "/journal"},
      [&](const Event& event) {
        followed.events.push_back(event.id + " " + event.kind + " " + event.data);
        return event.kind != "end";
      },
      [&](std::chrono::nanoseconds time) { followed.waits.push_back(time); });
  return followed;
}

TEST_CASE("events are whole wherever their bytes are cut") {
  const std::string text =
      ": a comment\n\nid: 1\nevent: started\ndata: {\"a\":1}\n\n"
      "data: one\r\ndata:two\r\n\r\nevent: nothing\n\nid: 7\nevent: end\ndata\n\n";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    CAPTURE(cut);
    std::vector<Event> events;
    EventReader reader;
    const auto note = [&](const Event& event) { events.push_back(event); };

    reader.feed(std::string_view{text}.substr(0, cut), note);
    reader.feed(std::string_view{text}.substr(cut), note);

    REQUIRE(events.size() == 3);
    CHECK(events[0].id == "1");
    CHECK(events[0].kind == "started");
    CHECK(events[0].data == "{\"a\":1}");
    CHECK(events[1].id.empty());
    CHECK(events[1].kind == "message");
    CHECK(events[1].data == "one\ntwo");
    CHECK(events[2].kind == "end");
  }
}

TEST_CASE("a stream that breaks is taken up behind the last event that came whole") {
  Journal journal({"id: 0\ndata: a\n\nid: 1\ndata: b\n\nid: 2\ndata: c", ": nothing yet\n\n",
                   "id: 2\ndata: c\n\nevent: end\ndata: {}\n\nid: 9\ndata: behind the end\n\n"});

  const Followed followed = follow(journal.url());

  CHECK(followed.events ==
        std::vector<std::string>{"0 message a", "1 message b", "2 message c", " end {}"});
  CHECK(journal.asked() == std::vector<std::string>{"none", "1", "1"});
  CHECK(followed.waits.size() == 2);
}

TEST_CASE(
    "what the server says instead of events is thrown, and a stream that never goes on given up") {
  Journal refusing({});
  Journal silent(std::deque<std::string>(10, ": hello\n\n"));

  try {
    follow(refusing.url());
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == "RUN_NOT_FOUND");
    CHECK(std::string(error.what()) == "no such run");
  }
  try {
    follow(silent.url());
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == "CONNECTION_FAILED");
  }
  CHECK(silent.asked().size() == 10);
}

TEST_CASE("a table has colours where they are wanted, and is as wide as without") {
  Table table({"RUN", "STATUS", "X"});
  table.add({"a", "failed", "1"});
  table.add({"b", "completed", "2"});
  std::ostringstream plain;
  std::ostringstream coloured;

  table.print(plain);
  table.print(coloured, true);

  CHECK(plain.str() ==
        "RUN  STATUS     X\n"
        "a    failed     1\n"
        "b    completed  2\n");
  CHECK(coloured.str() ==
        "\x1b[1mRUN\x1b[0m  \x1b[1mSTATUS\x1b[0m     \x1b[1mX\x1b[0m\n"
        "a    \x1b[31mfailed\x1b[0m     1\n"
        "b    \x1b[32mcompleted\x1b[0m  2\n");
}

}  // namespace
}  // namespace semel::app
