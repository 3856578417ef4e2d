#include "app/bench_measure.hpp"

#include "base/assert.hpp"
#include "base/clock.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <ctime>
#include <fstream>
#include <mutex>
#include <thread>

namespace semel::app::bench {

namespace {

constexpr int hand_overs = 4000;

/// Two threads take turns; `turn` says whose it is.
class PingPong {
 public:
  void take(int mine) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == mine; });
    turn_ = 1 - mine;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int turn_ = 0;
};

}  // namespace

double seconds_now() { return Seconds(base::monotonic_now()).count(); }

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

ThreadSeconds seconds_by_thread() {
  constexpr double nanoseconds = 1e9;
  const std::map<std::string, std::string> names{{"semel-loop", "loop"},
                                                 {"semel-commit", "committer"}};
  ThreadSeconds seconds;
  const std::string own = std::to_string(::gettid());
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    double used = 0;
    std::ifstream{task.path() / "comm"} >> name;
    std::ifstream{task.path() / "schedstat"} >> used;
    const auto known = names.find(name);
    const bool is_own = task.path().filename() == own;
    seconds[is_own                 ? "this"
            : known != names.end() ? known->second
                                   : "others"] += used / nanoseconds;
  }
  return seconds;
}

Busyness busyness() {
  Busyness found;
  std::ifstream("/proc/loadavg") >> found.load;
  found.processors = std::max(1U, std::thread::hardware_concurrency());
  return found;
}

void pause_for(Seconds duration) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, duration, [] { return false; });
}

Figure figure_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::size_t>(p * static_cast<double>(values.size()));
  const auto place =
      values.begin() + static_cast<std::ptrdiff_t>(std::min(rank, values.size() - 1));
  std::ranges::nth_element(values, place);
  return *place;
}

std::vector<double> gaps(const std::vector<double>& times) {
  std::vector<double> found;
  for (std::size_t i = 1; i < times.size(); ++i) found.push_back(times[i] - times[i - 1]);
  return found;
}

double flushes_per_second(const std::filesystem::path& directory, Seconds duration) {
  const std::filesystem::path path = directory / "flush-control";
  const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
  SEMEL_ASSERT(file >= 0);
  std::array<char, 4096> page{};
  page.fill('x');
  int flushes = 0;
  const double began = seconds_now();
  double now = began;
  while (now - began < duration.count()) {
    const bool written = ::write(file, page.data(), page.size()) == std::ssize(page);
    SEMEL_ASSERT(written && ::fdatasync(file) == 0);
    ++flushes;
    now = seconds_now();
  }
  ::close(file);
  std::filesystem::remove(path);
  return flushes / (now - began);
}

double hand_over_seconds() {
  PingPong game;
  std::jthread other([&] {
    for (int i = 0; i < hand_overs; ++i) game.take(1);
  });
  std::vector<double> times;
  for (int i = 0; i < hand_overs; ++i) {
    game.take(0);
    times.push_back(seconds_now());
  }
  // From one of our turns to the next the word was handed over twice.
  return percentile(gaps(times), 0.5) / 2;
}

Memory memory_now() {
  malloc_trim(0);
  Memory memory;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) memory.resident_bytes = std::stod(line.substr(6)) * 1024;
  }
  const struct mallinfo2 heap = mallinfo2();
  memory.heap_bytes = static_cast<double>(heap.uordblks + heap.hblkhd);
  return memory;
}

}  // namespace semel::app::bench
