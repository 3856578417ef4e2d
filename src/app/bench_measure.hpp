// How the benchmarks measure: clocks, medians with their spread, and the limits of the machine itself.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace semel::app::bench {

using Seconds = std::chrono::duration<double>;

/// Since some fixed moment; only differences mean anything.
double seconds_now();

/// Processor time this process has used, all threads together.
double cpu_seconds();

/// Processor time the calling thread has used: for what neither waits nor writes, whoever else is busy.
double thread_seconds();

/// Processor time of this process, by what its threads are there for: "loop", "committer", "this" (the one that asks) and
/// "others".
using ThreadSeconds = std::map<std::string, double>;
ThreadSeconds seconds_by_thread();

/// How many processes wanted a processor over the last minute, and how many processors there are.
struct Busyness {
  double load = 0;
  unsigned processors = 1;
};

Busyness busyness();

/// Lets other threads go on for this long.
void pause_for(Seconds duration);

/// The median of several rounds, and their extremes: on a shared machine one number says little.
struct Figure {
  double median = 0;
  double low = 0;
  double high = 0;
};

/// All zero without values.
Figure figure_of(std::vector<double> values);

/// The value below which a share `p` (0 to 1) of them lies; 0 without values.
double percentile(std::vector<double> values, double p);

/// The differences of neighbours.
std::vector<double> gaps(const std::vector<double>& times);

/// Appends 4 KiB and flushes, over and over: what the disk does at best.
double flushes_per_second(const std::filesystem::path& directory, Seconds duration);

/// One thread waking another through a mutex and a condition variable; the median of many.
double hand_over_seconds();

struct Memory {
  double resident_bytes = 0;  ///< after what is free was given back
  double heap_bytes = 0;      ///< allocated and not freed
};

Memory memory_now();

}  // namespace semel::app::bench
