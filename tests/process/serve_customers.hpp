// Clients of one or several servers that are killed: they start, resume and cancel runs with keys and ask, whomever they
// can, until they are answered.
#pragma once

#include "http/raw_client.hpp"
#include "tests/process/process.hpp"

#include <semel/semel.hpp>

#include <boost/json.hpp>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace semel::process {

using namespace std::chrono_literals;
using http::testing::RawAnswer;
using http::testing::RawClient;

/// Nothing: there was no server, or none any more.
inline std::optional<RawAnswer> ask(std::uint16_t port, const std::string& method,
                                    const std::string& path, const std::string& key,
                                    const std::string& body) {
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

  /// Until there are more orders than `count`, or a minute is over.
  void await_orders(std::size_t count) {
    comes_true(
        [&] {
          const std::lock_guard lock(mutex);
          return orders.size() > count;
        },
        60s);
  }
};

class Customer {
 public:
  Customer(int number, std::vector<std::uint16_t> ports, Seen& seen,
           const std::atomic<bool>& stopping)
      : number_(number),
        ports_(std::move(ports)),
        turn_(static_cast<std::size_t>(number)),
        seen_(seen),
        stopping_(stopping) {}

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
      const auto answer = ask(ports_[++turn_ % ports_.size()], "POST", path, key, body);
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
  std::vector<std::uint16_t> ports_;
  std::size_t turn_;
  Seen& seen_;
  const std::atomic<bool>& stopping_;
};

/// "none": there is none within a minute, or no server.
inline std::string result_of(std::uint16_t port, const std::string& run) {
  std::optional<RawAnswer> answer;
  comes_true(
      [&] {
        // Shorter than the client's patience.
        answer = ask(port, "GET", "/api/v1/runs/" + run + "/result?wait=10s", "", "");
        return !answer || answer->status == 200;
      },
      60s);
  if (!answer || answer->status != 200) return "none";
  const Json result = value::from_text(answer->body);
  const Json* output = result.as_object().if_contains("output");
  return std::string((output != nullptr ? *output : result.at("status")).as_string());
}

/// The ids under which each order was charged, one for each time.
inline std::map<std::string, std::multiset<std::string>> charges_in(const Ledger& ledger) {
  std::map<std::string, std::multiset<std::string>> charges;
  for (const std::string& line : ledger.lines()) {
    const auto word = words(line);
    charges[word.at(1)].insert(word.at(2));
  }
  return charges;
}

}  // namespace semel::process
