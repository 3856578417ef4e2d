// A server that is killed at random moments while clients send the same request until it is answered: an answer that was
// given never changes, and nothing is done twice but what was cut off in the middle.
#include "http/raw_client.hpp"
#include "tests/process/process.hpp"
#include "tests/process/store_of_test.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

namespace semel::process {
namespace {

using namespace std::chrono_literals;
using http::testing::RawAnswer;
using http::testing::RawClient;

constexpr int clients = 64;

/// Nothing: there was no server, or none any more.
std::optional<RawAnswer> post(std::uint16_t port, const std::string& path, const std::string& key,
                              std::int64_t cents) {
  try {
    RawClient client(port);
    const std::string body = "{\"cents\":" + std::to_string(cents) + "}";
    auto answer = client
                      .send("POST " + path + " HTTP/1.1\r\nHost: test\r\nIdempotency-Key: " + key +
                            "\r\nContent-Type: application/json\r\nContent-Length: " +
                            std::to_string(body.size()) + "\r\n\r\n" + body)
                      .receive();
    // Cut off in the middle of the body it is no answer.
    const bool is_whole = answer && !answer->body.empty() && answer->body.back() == '}';
    return is_whole ? answer : std::nullopt;
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

/// What all clients saw.
struct Seen {
  std::mutex mutex;
  std::map<std::string, std::string> answers;  ///< by path and key
  std::vector<std::string> problems;
};

class Customer {
 public:
  Customer(int number, std::uint16_t port, Seen& seen, const std::atomic<bool>& stopping)
      : number_(number), port_(port), seen_(seen), stopping_(stopping) {}

  void run() {
    for (int n = 1; !stopping_; ++n) {
      for (const char* path : {"/layer", "/unit"}) {
        const std::string key = std::to_string(number_) + "-" + std::to_string(n);
        const auto first = insist(path, key, n);
        const auto again = insist(path, key, n);
        if (first && again && *first != *again) report(path + key + ": the answer has changed");
      }
    }
  }

 private:
  /// Until it is answered for good. Nothing: the test is over.
  std::optional<std::string> insist(const std::string& path, const std::string& key, int n) {
    while (!stopping_) {
      const auto answer = post(port_, path, key, n);
      if (!answer) {
        pause(25ms);
        continue;
      }
      if (answer->status == 201) {
        const std::lock_guard lock(seen_.mutex);
        const auto [known, is_new] = seen_.answers.emplace(path + " " + key, answer->body);
        if (known->second != answer->body)
          seen_.problems.push_back(path + key + ": another answer");
        return answer->body;
      }
      const std::string code = answer->code();
      if (code != "IDEMPOTENCY_IN_PROGRESS" && code != "STORE_UNAVAILABLE")
        report(path + " " + key + ": " + std::to_string(answer->status) + " " + code);
      pause(25ms);
    }
    return std::nullopt;
  }

  void report(std::string problem) {
    const std::lock_guard lock(seen_.mutex);
    seen_.problems.push_back(std::move(problem));
  }

  int number_;
  std::uint16_t port_;
  Seen& seen_;
  const std::atomic<bool>& stopping_;
};

}  // namespace

TEST_CASE("a server is killed again and again, and no answer changes and nothing is done twice") {
  const int kills = setting("SEMEL_KILLS", 10);
  std::mt19937 chance(static_cast<unsigned>(setting("SEMEL_SEED", 1)));
  std::uniform_int_distribution<int> delay_us(1'000, 200'000);
  TemporaryDirectory directory;
  const auto log = directory.path() / "log";
  const std::uint16_t port = port_to_return_to();
  const std::string store = store_of_test(directory.path());
  const std::vector<std::string> command{SEMEL_HTTP_WORKER, directory.path(), std::to_string(port),
                                         store};
  Seen seen;
  std::atomic<bool> stopping = false;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < clients; ++i) {
      threads.emplace_back([&, i] { Customer(i, port, seen, stopping).run(); });
    }
    const StopsAtEnd stops(stopping);
    for (int i = 0; i < kills; ++i) {
      Child server(command, log);
      REQUIRE_MESSAGE(server.is_ready_within(60s), text_of(log));
      const auto ended = server.ends_within(std::chrono::microseconds{delay_us(chance)});
      REQUIRE_MESSAGE(!ended, text_of(log));
      server.kill();
    }
    // One that lives, so that whatever was cut off is answered.
    Child server(command, log);
    REQUIRE_MESSAGE(server.is_ready_within(60s), text_of(log));
    static_cast<void>(server.ends_within(3s));
    comes_true(
        [&] {
          const std::lock_guard lock(seen.mutex);
          return seen.answers.size() > static_cast<std::size_t>(clients);
        },
        60s);
    stopping = true;
  }

  for (const std::string& problem : seen.problems) MESSAGE(problem);
  CHECK(seen.problems.empty());
  CHECK(seen.answers.size() > static_cast<std::size_t>(clients));

  // By the layer: again only in another process, the one before having been killed in the middle of it.
  std::map<std::string, std::set<std::string>> processes;
  std::size_t executions = 0;
  const Ledger ledger(directory.path() / "ledger");
  for (const std::string& line : ledger.lines()) {
    const auto word = words(line);
    ++executions;
    CHECK_MESSAGE(processes[word.at(1)].insert(word.at(2)).second, line);
  }
  // By the unit of work: exactly once, always.
  Engine engine{store};
  const auto twice = engine.transaction([](sql::Transaction& tx) {
    return tx.query<std::string>("SELECT key FROM payment GROUP BY key HAVING count(*) > 1");
  });
  CHECK(twice.empty());
  const auto paid = engine.transaction(
      [](sql::Transaction& tx) { return tx.query<std::string>("SELECT key FROM payment"); });
  const std::set<std::string> rows(paid.begin(), paid.end());
  for (const auto& [request, answer] : seen.answers) {
    const auto word = words(request);
    const bool is_there =
        word.at(0) == "/unit" ? rows.contains(word.at(1)) : processes.contains(word.at(1));
    CHECK_MESSAGE(is_there, request);
  }
  MESSAGE(kills << " kills, " << seen.answers.size() << " requests answered, " << executions
                << " executions of " << processes.size() << " keys, " << rows.size() << " rows");
}

TEST_CASE(
    "a server is killed in the middle of a handler, and its key is not free for another request") {
  TemporaryDirectory directory;
  const auto log = directory.path() / "log";
  const std::uint16_t port = port_to_return_to();
  const std::vector<std::string> command{SEMEL_HTTP_WORKER, directory.path(), std::to_string(port),
                                         store_of_test(directory.path())};
  const auto conflicts = [&] {
    const auto answer = post(port, "/slow", "k", 2);
    return answer && answer->code() == "IDEMPOTENCY_CONFLICT";
  };
  std::optional<RawAnswer> cut_off;
  {
    Child server(command, log);
    REQUIRE_MESSAGE(server.is_ready_within(60s), text_of(log));
    std::jthread client([&] { cut_off = post(port, "/slow", "k", 1); });
    const Ledger ledger(directory.path() / "ledger");
    while (ledger.lines().empty()) pause(1ms);
    // Who hears of the conflict relies on it: the reservation is durable by now.
    CHECK(conflicts());
    server.kill();
  }
  CHECK_FALSE(cut_off);

  Child server(command, log);
  REQUIRE_MESSAGE(server.is_ready_within(60s), text_of(log));

  CHECK(conflicts());
  auto again = post(port, "/slow", "k", 1);
  while (again && again->code() == "IDEMPOTENCY_IN_PROGRESS") again = post(port, "/slow", "k", 1);
  REQUIRE(again);
  CHECK(again->status == 201);
  CHECK(conflicts());
  CHECK(Ledger(directory.path() / "ledger").lines().size() == 2);
}

}  // namespace semel::process
