// The idempotency kernel: what HTTP, `run_idempotently` and the proxy share on top of a store's reservations. It answers hot
// replays from memory, lets duplicates wait for the first, renews leases and counts. Nothing in it decides who owns a
// key: that is the store's, and all that is here may be lost at any time.
#pragma once

#include "idempotency/answer_cache.hpp"
#include "idempotency/port.hpp"
#include "idempotency/timers.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <variant>

namespace semel::idempotency {

/// What `reserve` found. Exactly one holds.
using Found = std::variant<store::Acquired, FinishedAnswer, store::InProgress, store::KeyReused,
                           store::OutcomeUnknown>;

using FoundReply = std::function<void(base::Result<Found>)>;

/// How long a duplicate waits for the first, and with how many others.
struct Patience {
  std::chrono::nanoseconds wait{0};
  std::size_t waiters_max = 1000;  ///< of one key; more are told at once
};

struct KernelOptions {
  std::size_t cache_bytes_max = std::size_t{64} << 20U;
  std::size_t answer_bytes_max = std::size_t{1}
                                 << 20U;  ///< of `run_idempotently`; larger: a tombstone
  /// Without, nobody waits and no lease is renewed: for engines whose clock moves when told to.
  bool has_timers = true;
  /// Others change the store, too: what was read once is not served from memory, and who waits looks again now and then.
  bool is_shared = false;
};

/// What was answered so far.
struct KernelCounters {
  std::uint64_t hits = 0;         ///< replays
  std::uint64_t cache_hits = 0;   ///< … from memory
  std::uint64_t misses = 0;       ///< acquired, nobody before
  std::uint64_t takeovers = 0;    ///< acquired in somebody's place
  std::uint64_t waits = 0;        ///< duplicates that waited
  std::uint64_t in_progress = 0;  ///< told that somebody is at work
  std::uint64_t conflicts = 0;    ///< other input under the same key
  std::uint64_t unknown = 0;      ///< outcome unknown
  std::uint64_t fences_lost = 0;  ///< completions, releases and renewals that came too late
};

class Kernel : public std::enable_shared_from_this<Kernel> {
 public:
  static std::shared_ptr<Kernel> make(std::shared_ptr<Port> port,
                                      const KernelOptions& options = {});
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  /// Asks for a key. A duplicate of something under way waits as long as it has patience: until the first completes (then
  /// it gets the answer), is released (then one of those that wait takes over and the others wait on) or loses its
  /// lease. `reply` is called once, as that of `Port::execute`.
  void reserve(store::Reserve ask, const Patience& patience, FoundReply reply);

  /// The same, waiting for the store alone: a duplicate of something under way hears so.
  base::Result<Found> reserve(const store::Reserve& ask);

  /// Takes a key for work that ends with this process, without a word to the store. `yes`: nobody has it. Then one of three
  /// has to come. A `Reserve` with what came of the work, `is_claimed`, to the port and then `recorded`: one commit. An
  /// `execute` of the `Reserve`, `is_claimed`, gives the fence to complete it with where it takes longer, and is repeated
  /// where the store fails; `give_up` where nothing came of it. `met`: `reserve` is to be asked with `is_claimed`.
  store::KeyClaims::Claimed claim(const store::Reserve& ask);

  /// A `Reserve` with the outcome went to the port, and this is whether it is stored: others wait to hear so.
  void recorded(const store::ReservationId& id, bool is_stored);

  /// Nothing came of the claim. `then` is called when the key is free, durably, or when the store failed; at once where
  /// nobody has heard of the claim.
  void give_up(const store::Reserve& ask, std::function<void()> then);

  /// Calls `action` on a thread of the kernel's, so long from now, unless the handle goes before. It must be quick.
  std::shared_ptr<void> later(std::chrono::nanoseconds delay, std::function<void()> action);

  /// For whoever reserves and completes in a transaction of its own: a finished answer from memory; a ticket, taken before
  /// the store is asked; and an answer that the store replayed, so that the next one comes from memory.
  std::optional<FinishedAnswer> remembered(const store::ReservationId& id,
                                           std::string_view fingerprint);

  AnswerCache::Ticket ticket(const store::ReservationId& id) const { return cache_.ticket(id); }

  void remember(const store::ReservationId& id, std::string fingerprint, FinishedAnswer answer,
                AnswerCache::Ticket ticket);

  /// Counts what such a one found, but for what it remembered.
  void count(const Found& found);

  /// Completes, releases, renews, forgets or finds: see store/reservation.hpp.
  void execute(store::Command command, Port::Reply reply);
  base::Result<store::Answer> call(store::Command command);

  /// Renews the lease at every third of its time, until the handle goes or the fence is lost.
  std::shared_ptr<void> keep(store::ReservationId id, store::Fence fence,
                             std::chrono::nanoseconds lease);

  /// Whoever waits hears that somebody is at work.
  void dismiss_waiters();

  /// As if the process had just begun.
  void forget_memory();

  KernelCounters counters() const;

  Port& port() { return *port_; }

  const KernelOptions& options() const { return options_; }

 private:
  Kernel(std::shared_ptr<Port> port, const KernelOptions& options);

  struct Waiter;
  struct Renewal;
  using WaiterPtr = std::shared_ptr<Waiter>;
  using Waiters = std::list<WaiterPtr>;

  void ask(const WaiterPtr& waiter);
  void answered(const WaiterPtr& waiter, std::uint64_t finished, AnswerCache::Ticket ticket,
                base::Result<store::Answer> answer);
  bool line_up(const WaiterPtr& waiter, std::uint64_t finished, const store::InProgress& busy);
  void timed_out(const WaiterPtr& waiter);
  enum class Wake : std::uint8_t { one, all };
  void wake(const store::ReservationId& id, Wake how_many);

  Found found(const store::Reserve& ask, store::Answer& answer, AnswerCache::Ticket ticket);
  struct Finishing;
  Finishing before(const store::Command& command);
  void after(const Finishing& finishing, const base::Result<store::Answer>& answer);
  std::uint64_t& finished_of(const store::ReservationId& id);

  std::shared_ptr<Port> port_;
  KernelOptions options_;
  AnswerCache cache_;

  std::mutex mutex_;
  std::unordered_map<store::ReservationId, Waiters, store::ReservationIdHash> waiters_;
  /// How often something was finished, by a few bits of the key's hash: who asked before and lines up after it would not
  /// be woken any more, and asks again.
  std::array<std::uint64_t, 4096> finished_{};

  struct Counts {
    std::atomic<std::uint64_t> hits{0};
    std::atomic<std::uint64_t> cache_hits{0};
    std::atomic<std::uint64_t> misses{0};
    std::atomic<std::uint64_t> takeovers{0};
    std::atomic<std::uint64_t> waits{0};
    std::atomic<std::uint64_t> in_progress{0};
    std::atomic<std::uint64_t> conflicts{0};
    std::atomic<std::uint64_t> unknown{0};
    std::atomic<std::uint64_t> fences_lost{0};
  };

  Counts counts_;
  Timers timers_;
};

}  // namespace semel::idempotency
