// A served engine that is killed at random moments while clients start, resume and cancel runs with keys and ask until they
// are answered: what was acknowledged happened, exactly once, and its answer never changes.
#include "http/raw_client.hpp"
#include "tests/process/process.hpp"
#include "tests/process/store_of_test.hpp"

#include <semel/semel.hpp>

#include <boost/json.hpp>
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
std::optional<RawAnswer> ask(std::uint16_t port, const std::string& method, const std::string& path,
                             const std::string& key, const std::string& body) {
  try {
    RawClient client(port);
    std::string text = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n";
    if (!key.empty()) text += "Idempotency-Key: " + key + "\r\n";
    if (method == "POST") {
      text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n";
    }
    auto answer = client.send(text + "\r\n" + body).receive();
    // Cut off in the middle of the body it is no answer.
    const bool is_whole = answer && !answer->body.empty() && answer->body.back() == '}';
    return is_whole ? answer : std::nullopt;
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

/// What became of an order, as its client was told.
struct Order {
  std::string run;
  bool is_cancelled = false;
};

/// What all clients saw.
struct Seen {
  std::mutex mutex;
  std::map<std::string, std::string> answers;  ///< by key
  std::map<std::string, Order> orders;
  std::vector<std::string> problems;
};

class Customer {
 public:
  Customer(int number, std::uint16_t port, Seen& seen, const std::atomic<bool>& stopping)
      : number_(number), port_(port), seen_(seen), stopping_(stopping) {}

  void run() {
    for (int n = 1; !stopping_; ++n) {
      const std::string order = std::to_string(number_) + "-" + std::to_string(n);
      const std::string start = R"({"workflow":"process-order","input":")" + order +
                                R"(","token":"order:)" + order + "\"}";
      const auto started = insist("/api/v1/runs", "start-" + order, start);
      if (!started) return;
      const std::string id(value::from_text(*started).at("run").at("id").as_string());
      const bool is_cancelled = n % 3 == 0;
      const auto done = is_cancelled
                            ? insist("/api/v1/runs/" + id + "/cancel", "cancel-" + order, "{}")
                            : insist("/api/v1/hooks/order:" + order + "/resume", "resume-" + order,
                                     R"({"granted":true})");
      const auto again = insist("/api/v1/runs", "start-" + order, start);
      if (again && *again != *started) report(order + ": the answer has changed");
      if (!done) return;
      const std::lock_guard lock(seen_.mutex);
      seen_.orders[order] = {id, is_cancelled};
    }
  }

 private:
  /// Until it is answered for good. Nothing: the test is over.
  std::optional<std::string> insist(const std::string& path, const std::string& key,
                                    const std::string& body) {
    while (!stopping_) {
      const auto answer = ask(port_, "POST", path, key, body);
      if (answer && answer->status / 100 == 2) {
        const std::lock_guard lock(seen_.mutex);
        const auto [known, is_new] = seen_.answers.emplace(key, answer->body);
        if (known->second != answer->body) seen_.problems.push_back(key + ": another answer");
        return answer->body;
      }
      // No key is ever in progress here, whatever was cut off.
      if (answer && answer->code() != "STORE_UNAVAILABLE")
        report(key + ": " + std::to_string(answer->status) + " " + answer->code());
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

std::string result_of(std::uint16_t port, const std::string& run) {
  const auto answer = ask(port, "GET", "/api/v1/runs/" + run + "/result?wait=60s", "", "");
  if (!answer || answer->status != 200) return "none";
  const Json result = value::from_text(answer->body);
  const Json* output = result.as_object().if_contains("output");
  return std::string((output != nullptr ? *output : result.at("status")).as_string());
}

}  // namespace

TEST_CASE("a served engine is killed again and again, and what it acknowledged happened once") {
  const int kills = setting("SEMEL_KILLS", 10);
  std::mt19937 chance(static_cast<unsigned>(setting("SEMEL_SEED", 1)));
  std::uniform_int_distribution<int> delay_us(1'000, 300'000);
  TemporaryDirectory directory;
  const auto log = directory.path() / "log";
  const std::uint16_t port = port_to_return_to();
  const std::string store = store_of_test(directory.path());
  const std::vector<std::string> command{SEMEL_SERVE_WORKER, directory.path(), std::to_string(port),
                                         store};
  Seen seen;
  std::atomic<bool> stopping = false;
  std::map<std::string, std::string> results;
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
    // One that lives, so that whatever was cut off is answered and every run comes to its end.
    Child server(command, log);
    REQUIRE_MESSAGE(server.is_ready_within(60s), text_of(log));
    static_cast<void>(server.ends_within(3s));
    stopping = true;
    threads.clear();
    for (const auto& [order, known] : seen.orders) results[order] = result_of(port, known.run);
  }

  for (const std::string& problem : seen.problems) MESSAGE(problem);
  CHECK(seen.problems.empty());
  CHECK(seen.orders.size() > static_cast<std::size_t>(clients));

  // A step may be run again after a kill, but under the same id: whoever dedupes sees one charge.
  std::map<std::string, std::set<std::string>> charges;
  const Ledger ledger(directory.path() / "ledger");
  for (const std::string& line : ledger.lines()) {
    const auto word = words(line);
    charges[word.at(1)].insert(word.at(2));
  }
  for (const auto& [order, known] : seen.orders) {
    CAPTURE(order);
    CHECK(results[order] == (known.is_cancelled ? "cancelled" : "charged"));
    CHECK(charges[order].size() == (known.is_cancelled ? 0 : 1));
  }
  // One run per order, whoever asked how often.
  Engine engine{store};
  std::map<std::string, int> runs;
  for (const Run& run : engine.runs({.limit = 1'000'000})) ++runs[value::to_text(run.input())];
  for (const auto& [input, count] : runs) CHECK_MESSAGE(count == 1, input);
  const auto in_progress = engine.transaction([](sql::Transaction& tx) {
    return tx.query<std::int64_t>(is_on_postgres()
                                      ? "SELECT count(*) FROM semel.reservation WHERE state = 0"
                                      : "SELECT count(*) FROM semel_reservation WHERE state = 0");
  });
  CHECK(in_progress == std::vector<std::int64_t>{0});
  MESSAGE(kills << " kills, " << seen.answers.size() << " requests answered, " << seen.orders.size()
                << " orders");
}

}  // namespace semel::process
