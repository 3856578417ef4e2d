// Hooks with many threads at once: one owner per token, every payload once. SEMEL_PART=n does the n-th part of it, where
// a commit takes long.
#include "tests/support/fresh_store.hpp"

#include <semel/semel.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

namespace semel {
namespace {

using namespace std::chrono_literals;

constexpr int threads = 16;

int part_of(int all) {
  const char* part = std::getenv("SEMEL_PART");
  return part == nullptr ? all : all / std::stoi(part);
}

/// Runs `work(thread)` on all of them at once. What one throws is a failure of the test.
template <class F>
void on_all_threads(const F& work) {
  std::vector<std::string> errors(threads);
  {
    std::vector<std::jthread> running;
    for (int thread = 0; thread < threads; ++thread) {
      running.emplace_back([&work, &error = errors[static_cast<std::size_t>(thread)], thread] {
        try {
          work(thread);
        } catch (const std::exception& thrown) {
          error = thrown.what();
        }
      });
    }
  }
  for (const std::string& error : errors) REQUIRE(error == "");
}

// ------------------------------------------------------------------------------------------------ one owner

/// The owner waits to be let go; others say who it is.
Workflow<std::string> claim(std::string token) {
  auto mine = hook<bool>(token);
  if (const auto conflict = co_await mine.conflict()) co_return conflict->run_id;
  co_await mine;
  co_return "owner";
}

TEST_CASE("rounds of 16 threads that claim one token: one owner each, and every loser names it") {
  const auto rounds = static_cast<std::size_t>(part_of(1000));
  Engine engine{testing::fresh_store()};
  engine.add("claim", claim);
  engine.start_workers();
  std::vector<std::vector<Run>> runs(rounds);
  for (auto& round : runs) round.resize(threads);
  std::barrier together{threads};

  on_all_threads([&](int thread) {
    for (std::size_t round = 0; round < rounds; ++round) {
      together.arrive_and_wait();
      runs[round][static_cast<std::size_t>(thread)] =
          engine.start(claim, "round-" + std::to_string(round)).run;
    }
  });

  for (std::size_t round = 0; round < rounds; ++round) {
    CAPTURE(round);
    const std::string owner = engine.resume("round-" + std::to_string(round), true).run_id;
    int owners = 0;
    for (Run& run : runs[round]) {
      const auto said = run.result<std::string>();
      if (said == "owner") {
        ++owners;
        CHECK(run.id() == owner);
      } else {
        CHECK(said == owner);
      }
    }
    CHECK(owners == 1);
  }
}

// ------------------------------------------------------------------------------------------------ resume or start

/// Reads what is there and leaves.
Workflow<std::vector<std::string>> session(std::string token) {
  auto messages = hook<std::string>(token);
  std::vector<std::string> heard;
  while (const auto message = co_await messages.try_next()) heard.push_back(*message);
  co_return heard;
}

/// Of each sender the numbers ascend by one, from 0.
class Senders {
 public:
  void hear(const std::string& message) {
    const std::size_t dash = message.find('-');
    int& next = next_[message.substr(0, dash)];
    CHECK(std::stoi(message.substr(dash + 1)) == next);
    ++next;
    ++heard_;
  }

  int heard() const { return heard_; }

 private:
  std::map<std::string, int> next_;
  int heard_ = 0;
};

const int calls = part_of(10'000) / threads * threads;
constexpr std::size_t tokens = 100;

/// All threads, `calls` messages in all, to tokens chosen by chance; says how many runs were started for them.
int send_all(Engine& engine, Workflow<std::vector<std::string>> (*listener)(std::string token)) {
  std::atomic<int> started = 0;
  on_all_threads([&](int thread) {
    std::mt19937 chance{static_cast<unsigned>(thread)};
    std::vector<int> sent(tokens);
    for (int call = 0; call < calls / threads; ++call) {
      const std::size_t number = chance() % tokens;
      const std::string token = "token-" + std::to_string(number);
      const std::string message = std::to_string(thread) + "-" + std::to_string(sent[number]++);
      if (engine.resume_or_start(token, message, listener, token).started) ++started;
    }
  });
  return started;
}

TEST_CASE("16 threads, many times resume_or_start, 100 tokens: every payload read once, in order") {
  Engine engine{testing::fresh_store()};
  engine.add("session", session);
  engine.start_workers();
  const int started = send_all(engine, session);

  // A run that ends with payloads unread starts a successor, which is there before the first one's result is.
  std::vector<Run> runs;
  do {
    runs = engine.runs({.limit = 100'000});
    for (const Run& run : runs) static_cast<void>(run.result<std::vector<std::string>>());
  } while (engine.runs({.limit = 100'000}).size() != runs.size());

  std::map<std::string, Senders> by_token;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
    const auto heard = run->result<std::vector<std::string>>();
    const std::string token(run->input().as_array().at(0).as_string());
    for (const std::string& message : heard) by_token[token].hear(message);
  }
  int heard = 0;
  for (const auto& [token, senders] : by_token) heard += senders.heard();
  CHECK(heard == calls);
  CHECK(started > 0);
  CHECK(static_cast<int>(runs.size()) >= started);
  // All have ended, and nothing is left anywhere.
  for (std::size_t token = 0; token < tokens; ++token)
    CHECK_THROWS_AS(engine.hook("token-" + std::to_string(token)), HookNotFoundError);
}

/// Reads until it is told that this was all.
Workflow<std::vector<std::string>> long_session(std::string token) {
  auto messages = hook<std::string>(token);
  std::vector<std::string> heard;
  while (true) {
    std::string message = co_await messages;
    if (message == "that was all") co_return heard;
    heard.push_back(std::move(message));
  }
}

TEST_CASE("16 threads, many times resume_or_start: as many runs are active as there are tokens") {
  Engine engine{testing::fresh_store()};
  engine.add("long-session", long_session);
  engine.start_workers();
  const int started = send_all(engine, long_session);

  CHECK(started == tokens);
  std::vector<Run> runs = engine.runs({.limit = 100'000});
  CHECK(runs.size() == tokens);
  int heard = 0;
  for (Run& run : runs) {
    CHECK(run.status() != RunStatus::completed);
    const std::string token(run.input().as_array().at(0).as_string());
    CHECK(engine.hook(token).run_id == run.id());
    engine.resume(token, std::string("that was all"));
    Senders senders;
    for (const auto& message : run.result<std::vector<std::string>>()) senders.hear(message);
    heard += senders.heard();
  }
  CHECK(heard == calls);
}

// ------------------------------------------------------------------------------------------------ never too early

TEST_CASE("a start with a token is followed by its resume, many times: all succeed") {
  Engine engine{testing::fresh_store()};
  engine.add("claim", claim);
  engine.start_workers();
  std::atomic<int> resumed = 0;

  on_all_threads([&](int thread) {
    for (int call = 0; call < calls / threads; ++call) {
      const std::string token = std::to_string(thread) + "/" + std::to_string(call);
      const Started started = engine.start({.token = token}, claim, token);
      if (engine.resume(token, true).run_id == started.run.id()) ++resumed;
    }
  });

  CHECK(resumed == calls);
  for (const Run& run : engine.runs({.limit = static_cast<std::size_t>(calls)})) {
    CHECK(run.result<std::string>() == "owner");
  }
}

// ------------------------------------------------------------------------------------------------ raced

Workflow<std::vector<std::string>> listener(std::string token, int count) {
  auto messages = hook<std::string>(token);
  std::vector<std::string> heard;
  while (static_cast<int>(heard.size()) < count) {
    auto first = co_await race(messages, sleep(1ms));
    if (first.index() == 0) heard.push_back(std::get<0>(first));
  }
  co_return heard;
}

TEST_CASE("a hook raced with a timer in a loop hears every payload once, whenever it comes") {
  const int messages = part_of(200);
  Engine engine{testing::fresh_store()};
  engine.add("listener", listener);
  engine.start_workers();
  Run run = engine.start({.token = "t"}, listener, "t", messages * threads).run;

  on_all_threads([&](int thread) {
    std::mt19937 chance{static_cast<unsigned>(thread)};
    for (int i = 0; i < messages; ++i) {
      const auto until =
          std::chrono::steady_clock::now() + std::chrono::microseconds{chance() % 500};
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
      engine.resume("t", std::to_string(thread) + "-" + std::to_string(i));
    }
  });

  Senders senders;
  for (const std::string& message : run.result<std::vector<std::string>>()) senders.hear(message);
  CHECK(senders.heard() == messages * threads);
}

}  // namespace
}  // namespace semel
