// What a workspace may use: requests per second, runs at a time, bytes.
//
// The rate is one number per workspace, the time at which its bucket would be empty (GCRA): asked by connections of all
// threads, changed by an atomic exchange.
//
// Runs and bytes are decided inside the transaction that would start a run, on the one thread that commits. Runs are counted
// there, and in between, each run that was started is added: so starts over HTTP never go beyond the limit. What a count
// costs bounds how often there is one: runs that have ended are noticed that much later. Bytes are summed up a few
// rows at a time, over and over; what starts bring meanwhile is added.
//
// Where several processes share the store, what was counted and added is a row of it, which a start holds until it is
// committed: so all of them together do not go beyond the limit. The rate and the bytes are each process's own.
#pragma once

#include "engine/driver.hpp"
#include "store/unit_of_work.hpp"

#include <semel/detail/http_message.hpp>
#include <semel/serve.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>

namespace semel::serve {

class Quotas {
 public:
  enum class Store : std::uint8_t { own, shared };

  explicit Quotas(const http::WorkspaceLimits& limits, Store store = Store::own)
      : limits_(limits), is_shared_(store == Store::shared) {}

  Quotas(const Quotas&) = delete;
  Quotas& operator=(const Quotas&) = delete;

  /// One request more; the answer where that is too many. From any thread.
  std::optional<http::Response> take(const std::string& workspace, std::chrono::nanoseconds now);

  // Inside transactions alone:

  /// Why no run may be started now. Times are monotonic.
  std::optional<http::ProblemError> refuse_start(store::UnitOfWork& unit,
                                                 const std::string& workspace,
                                                 std::chrono::nanoseconds now);

  /// What was counted for a run.
  struct Counted {
    std::string workspace;
    std::size_t bytes = 0;
    std::uint64_t count = 0;  ///< the number of the count it was added to
  };

  /// What `refuse_start` has found out is done over with its transaction.
  void count_again(const std::string& workspace);

  /// A run is started, with that much to store.
  Counted started(store::UnitOfWork& unit, const std::string& workspace, std::size_t bytes);

  /// It was not, because its transaction is done over.
  void take_back(const Counted& counted);

  /// The next few rows of what is stored; when the next call should come, after `now`. Nothing where bytes are not limited.
  std::optional<std::chrono::nanoseconds> measure(store::UnitOfWork& unit,
                                                  std::chrono::nanoseconds now);

  /// All rows were looked at, at least once.
  bool is_measured() const { return is_measured_ || limits_.stored_bytes_max == 0; }

 private:
  struct Usage {
    std::uint64_t runs = 0;  ///< as counted, and those started since
    std::chrono::nanoseconds count_at{0};
    std::uint64_t counts = 0;     ///< how many there were
    std::uint64_t bytes = 0;      ///< as measured, and what was brought since
    std::uint64_t measuring = 0;  ///< as far as the measuring under way has come, the same
  };

  struct Bucket {
    std::atomic<std::int64_t> full_until{0};  ///< when all that was taken will have come back
  };

  Bucket& bucket(const std::string& workspace);
  void count_runs(store::UnitOfWork& unit, const std::string& workspace, Usage& usage,
                  std::chrono::nanoseconds now);
  void end_measuring();

  const http::WorkspaceLimits limits_;
  const bool is_shared_;
  std::shared_mutex mutex_;
  std::map<std::string, std::unique_ptr<Bucket>, std::less<>> buckets_;

  // The committing thread's:
  std::map<std::string, Usage> usage_;
  // Measured so far: rows up to that of this run, or entries up to this one of it.
  std::int64_t measured_run_ = 0;
  std::int64_t measured_seq_ = -1;
  bool is_past_runs_ = false;
  bool is_measured_ = false;
};

}  // namespace semel::serve
