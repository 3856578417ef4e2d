// What a caller may choose. Field order is part of the API: designated initialisers depend on it.
#pragma once

#include <semel/error.hpp>
#include <semel/log.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace semel {

/// How often a failing step is tried and how long it rests in between: `initial`, then `factor` times as long each
/// time, never more than `max`; with `jitter` between half of that and all of it.
struct Retry {
  int attempts = 4;  ///< in all; 1: no retry; 0 is refused
  Millis initial{1000};
  double factor = 2;
  Millis max{std::chrono::minutes{1}};
  bool jitter = true;
};

enum class StepMode {
  at_least_once,  ///< an attempt lost to a crash is made again, under the same step id
  at_most_once,   ///< one attempt; lost to a crash, `co_await` throws OutcomeUnknownError
};

struct StepOptions {
  Retry retry{};
  std::optional<Millis> timeout{};  ///< of one attempt; `StepContext::heartbeat` starts it anew
  StepMode mode = StepMode::at_least_once;
};

/// What a start does about an unfinished run that holds its key.
enum class OnRunning {
  attach,     ///< hand it back, `created` = false
  reject,     ///< RUN_ACTIVE
  supersede,  ///< cancel it and take its place, in one transaction
};

/// What a start does about a finished run whose key is still remembered.
enum class AfterDone {
  return_result,        ///< hand it back, `created` = false
  start_new,            ///< take over the key
  start_new_if_failed,  ///< take over the key from a failed or cancelled run, hand back a completed one
  reject,               ///< RUN_FINISHED
};

/// Whether a start under a known key must bring the same input; the workflow must be the same in either case.
enum class Fingerprint { on, off };

struct StartOptions {
  std::optional<std::string> key{};     ///< 1 to 255 bytes; one run per key in a workspace
  std::optional<Millis> key_ttl{};      ///< how long the key is held after the run's end; 30 days
  std::optional<std::string> run_id{};  ///< [A-Za-z0-9._:-]{1,255}; treated like a key
  std::optional<std::string> token{};   ///< a hook registered in the same transaction
  std::optional<Millis> delay{};        ///< begin this much later
  OnRunning on_running = OnRunning::attach;
  AfterDone after_done = AfterDone::return_result;
  Fingerprint fingerprint = Fingerprint::on;
  std::optional<Millis>
      deadline{};  ///< from the start, `delay` included; past it the run fails, DEADLINE_EXCEEDED
  std::map<std::string, std::string> attributes{};
};

struct ResumeOptions {
  std::optional<std::string> resume_id{};  ///< 1 to 255 bytes; dedupes retries for 24 hours
  std::optional<std::uint64_t>
      expected_version{};  ///< of the run that has the token; ConcurrencyError if it has moved on
};

struct RunOptions {
  std::optional<std::uint64_t> expected_version{};  ///< ConcurrencyError if the run has moved on
};

struct CancelOptions {
  std::optional<Millis>
      grace{};  ///< absent: at once; else CancelledError is thrown into the run, which has this long
  std::optional<std::uint64_t> expected_version{};
};

struct Limits {
  std::size_t payload_bytes_max = 1U << 20U;  ///< of an input, a step's result, an output
  std::uint64_t journal_entries_max = 1'000'000;
};

struct EngineOptions {
  Limits limits{};
  unsigned step_threads = 256;                            ///< blocking step bodies at the same time
  std::size_t frame_bytes_max = std::size_t{256} << 20U;  ///< of idle coroutines kept in memory
  Millis retention{std::chrono::hours{24 * 7}};           ///< how long a finished run is kept
  int crashes_max = 5;  ///< without progress in between; then a run is `dead`
  std::string node{};   ///< this process's name among those that share a store; empty: the host's
  /// On a store that is shared: a node that is not heard of for so long loses its runs to others.
  Millis lease{std::chrono::seconds{15}};
  Log log{};  ///< who is told what happens; nobody given: spdlog's default logger, as text
  LogLevel log_level = LogLevel::info;  ///< what is below it is not told, and costs nothing
};

}  // namespace semel
