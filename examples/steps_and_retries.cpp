// Steps: what they may return, how they are tried again, when they are not, and what a workflow sees of it.
#include <semel/semel.hpp>

#include <atomic>
#include <condition_variable>
#include <iostream>
#include <mutex>

using namespace std::chrono_literals;

struct Report {
  std::string page;
  int doubled = 0;
  std::string refused;
  std::string slow;
};
BOOST_DESCRIBE_STRUCT(Report, (), (page, doubled, refused, slow))

// Anything thrown means "try again by the step's policy".
std::string fetch(const semel::StepContext& step, std::string url) {
  std::cout << "fetch    attempt " << step.attempt << " of " << url << '\n';
  if (step.attempt == 1) throw std::runtime_error("connection reset");
  if (step.attempt == 2)
    throw semel::RetryableError("429: too many requests", 5ms);  // not before 5 ms have passed
  return "<html>";
}

// A Task runs on the engine's loop: thousands of them need no threads, but they must not block.
semel::Task<int> doubled(int number) { co_return 2 * number; }

// Some failures are final.
void withdraw(int cents) {
  std::cout << "withdraw once\n";
  throw semel::FatalError("insufficient funds", {{"balance", 100}, {"asked", cents}});
}

// An attempt that takes too long is asked to stop; a body that listens goes at once.
std::string dawdle(const semel::StepContext& step) {
  std::cout << "dawdle   attempt " << step.attempt << '\n';
  if (step.attempt > 1) return "quick this time";
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait(lock, step.stop, [] { return false; });
  throw std::runtime_error("told to stop");
}

semel::Workflow<Report> report(std::string url) {
  const semel::Retry quickly{.attempts = 5, .initial = 1ms, .factor = 2, .max = 10ms};
  Report result;
  result.page = co_await semel::step("fetch", {.retry = quickly}, fetch, url);
  result.doubled = co_await semel::step("double", doubled, 21);

  // A step that failed for good throws out of co_await. Nothing may be awaited inside a catch, hence `settled`, which
  // gives the outcome as a value.
  const auto withdrawn =
      co_await semel::settled(semel::step("withdraw", {.retry = quickly}, withdraw, 500));
  result.refused = withdrawn.message();
  result.slow = co_await semel::step("dawdle", {.retry = quickly, .timeout = 50ms}, dawdle);

  // Never twice, not even after a crash in the middle: then co_await throws OutcomeUnknownError.
  co_await semel::step("tweet", {.retry = {.attempts = 1}, .mode = semel::StepMode::at_most_once},
                       [] { std::cout << "tweet    at most once\n"; });
  co_return result;
}

int main() {
  semel::Engine engine{"memory:"};
  engine.add("report", report);
  engine.start_workers();

  const auto result = engine.start(report, "https://example.org").run.result<Report>();
  std::cout << result.page << ", " << result.doubled << ", " << result.refused << ", "
            << result.slow << '\n';
  const bool as_told = result.page == "<html>" && result.doubled == 42 &&
                       result.slow == "quick this time" &&
                       result.refused.find("insufficient funds") != std::string::npos;
  return as_told ? 0 : 1;
}
