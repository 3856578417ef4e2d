#include "idempotency/kernel.hpp"

#include "base/assert.hpp"
#include "base/clock.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace semel::idempotency {

using std::chrono::nanoseconds;
using store::Answer;
using store::Command;

namespace {

/// An ask at the end of a lease may be a little early by the store's clock.
constexpr std::chrono::milliseconds ask_again_after_min{5};
/// Where the one that is waited for may be another process's, which nobody here hears of.
constexpr std::chrono::milliseconds ask_again_after_shared{50};

}  // namespace

void set_now(Command& command, TimePoint now) {
  std::visit(
      [now](auto& each) {
        if constexpr (requires { each.now; }) each.now = now;
      },
      command);
}

/// Somebody who asks, while it is not answered. Its place in the line and its timer are the kernel's mutex's.
struct Kernel::Waiter {
  store::Reserve ask;
  FoundReply reply;
  nanoseconds deadline{0};
  std::size_t waiters_max = 0;
  bool has_waited = false;
  bool is_alone = false;  ///< woken by a release, the others not
  store::InProgress busy{};
  Timers::Id timer = 0;
};

/// Goes with its handle; the timer and the command under way know it weakly.
struct Kernel::Renewal : std::enable_shared_from_this<Renewal> {
  std::weak_ptr<Kernel> kernel;
  store::ReservationId id;
  store::Fence fence = 0;
  nanoseconds lease{0};
  std::atomic<Timers::Id> timer{0};

  Renewal() = default;
  Renewal(const Renewal&) = delete;
  Renewal& operator=(const Renewal&) = delete;

  /// Most are over long before they are due.
  ~Renewal() {
    if (const auto alive = kernel.lock()) alive->timers_.cancel(timer);
  }

  void schedule() {
    const auto alive = kernel.lock();
    if (!alive) return;
    timer = alive->timers_.after(lease / 3, [self = weak_from_this()] {
      if (const auto renewal = self.lock()) renewal->renew();
    });
  }

  void renew() {
    const auto alive = kernel.lock();
    if (!alive) return;
    alive->execute(store::Renew{.id = id, .fence = fence, .lease = lease},
                   [self = weak_from_this()](const base::Result<Answer>& answer) {
                     const auto renewal = self.lock();
                     // A store that is not available now may be before the lease ends.
                     const bool is_lost =
                         answer && std::holds_alternative<store::FenceLost>(*answer);
                     if (renewal && !is_lost) renewal->schedule();
                   });
  }
};

std::shared_ptr<Kernel> Kernel::make(std::shared_ptr<Port> port, const KernelOptions& options) {
  return std::shared_ptr<Kernel>(new Kernel(std::move(port), options));
}

Kernel::Kernel(std::shared_ptr<Port> port, const KernelOptions& options)
    : port_(std::move(port)),
      options_(options),
      cache_(options.is_shared ? 0 : options.cache_bytes_max) {}

std::uint64_t& Kernel::finished_of(const store::ReservationId& id) {
  return finished_[store::ReservationIdHash{}(id) % finished_.size()];
}

// ------------------------------------------------------------------------------------------------ asking

void Kernel::reserve(store::Reserve ask, const Patience& patience, FoundReply reply) {
  const auto waiter = std::make_shared<Waiter>();
  waiter->ask = std::move(ask);
  waiter->reply = std::move(reply);
  waiter->waiters_max = patience.waiters_max;
  if (options_.has_timers && patience.wait > nanoseconds{0})
    waiter->deadline = base::monotonic_now() + patience.wait;
  this->ask(waiter);
}

store::KeyClaims::Claimed Kernel::claim(const store::Reserve& ask) {
  using Claimed = store::KeyClaims::Claimed;
  store::KeyClaims* claims = port_->claims();
  if (claims == nullptr || !options_.has_timers) return Claimed::no;
  const Claimed claimed = claims->claim(ask);
  if (claimed == Claimed::yes) ++counts_.misses;
  return claimed;
}

void Kernel::recorded(const store::ReservationId& id, bool is_stored) {
  if (!is_stored) return;  // whoever executes it keeps the claim until the key is reserved
  port_->claims()->settle(id);
  wake(id, Wake::all);
}

void Kernel::give_up(const store::Reserve& ask, std::function<void()> then) {
  if (port_->claims()->leave(ask.id)) return then();
  // Others were told that somebody is at work, and that is stored.
  store::Reserve made = ask;
  made.is_claimed = true;
  made.outcome.reset();
  execute(std::move(made), [self = shared_from_this(), id = ask.id,
                            then = std::move(then)](const base::Result<Answer>& answer) {
    if (!answer) self->port_->claims()->settle(id);
    const auto* acquired = answer ? std::get_if<store::Acquired>(&*answer) : nullptr;
    if (acquired == nullptr) return then();
    self->execute(store::Release{.id = id, .fence = acquired->fence},
                  [then](const base::Result<Answer>&) { then(); });
  });
}

std::optional<FinishedAnswer> Kernel::remembered(const store::ReservationId& id,
                                                 std::string_view fingerprint) {
  auto cached = cache_.find(id, fingerprint, port_->now());
  if (cached) {
    ++counts_.cache_hits;
    ++counts_.hits;
  }
  return cached;
}

void Kernel::remember(const store::ReservationId& id, std::string fingerprint,
                      FinishedAnswer answer, AnswerCache::Ticket ticket) {
  ++counts_.hits;
  cache_.put(id, std::move(fingerprint), std::move(answer), ticket);
}

base::Result<Found> Kernel::reserve(const store::Reserve& ask) {
  if (auto cached = cache_.find(ask.id, ask.fingerprint, port_->now())) {
    ++counts_.cache_hits;
    ++counts_.hits;
    return Found{*std::move(cached)};
  }
  const auto ticket = cache_.ticket(ask.id);
  auto answer = port_->call(ask);
  if (!answer) return answer.error();
  Found result = found(ask, *answer, ticket);
  count(result);
  return result;
}

void Kernel::ask(const WaiterPtr& waiter) {
  const store::Reserve& asked = waiter->ask;
  if (auto cached = cache_.find(asked.id, asked.fingerprint, port_->now())) {
    ++counts_.cache_hits;
    ++counts_.hits;
    waiter->reply(Found{*std::move(cached)});
    return;
  }
  std::uint64_t finished = 0;
  {
    const std::lock_guard lock(mutex_);
    finished = finished_of(asked.id);
  }
  const auto ticket = cache_.ticket(asked.id);
  port_->execute(
      asked, [self = shared_from_this(), waiter, finished, ticket](base::Result<Answer> answer) {
        self->answered(waiter, finished, ticket, std::move(answer));
      });
}

void Kernel::answered(const WaiterPtr& waiter, std::uint64_t finished, AnswerCache::Ticket ticket,
                      base::Result<Answer> answer) {
  const bool was_alone = std::exchange(waiter->is_alone, false);
  if (std::exchange(waiter->ask.is_claimed, false)) {
    port_->claims()->settle(waiter->ask.id);
    if (answer && std::holds_alternative<store::FenceLost>(*answer)) return ask(waiter);
  }
  if (!answer) {
    // Those behind it in line would wait for nobody.
    if (was_alone) wake(waiter->ask.id, Wake::all);
    waiter->reply(answer.error());
    return;
  }
  Found result = found(waiter->ask, *answer, ticket);
  const auto* busy = std::get_if<store::InProgress>(&result);
  if (busy != nullptr && line_up(waiter, finished, *busy)) return;
  if (was_alone && busy == nullptr && !std::holds_alternative<store::Acquired>(result))
    wake(waiter->ask.id, Wake::all);
  count(result);
  waiter->reply(std::move(result));
}

/// False where it has waited for long enough, or too many wait.
bool Kernel::line_up(const WaiterPtr& waiter, std::uint64_t finished,
                     const store::InProgress& busy) {
  const nanoseconds left = waiter->deadline - base::monotonic_now();
  if (left <= nanoseconds{0}) return false;
  nanoseconds until_free =
      std::max<nanoseconds>(busy.lease_until - port_->now(), ask_again_after_min);
  if (options_.is_shared) until_free = std::min<nanoseconds>(until_free, ask_again_after_shared);
  {
    const std::lock_guard lock(mutex_);
    if (finished == finished_of(waiter->ask.id)) {
      Waiters& line = waiters_[waiter->ask.id];
      if (line.size() >= waiter->waiters_max) {
        if (line.empty()) waiters_.erase(waiter->ask.id);
        return false;
      }
      if (!std::exchange(waiter->has_waited, true)) ++counts_.waits;
      waiter->busy = busy;
      waiter->timer =
          timers_.after(std::min(left, until_free),
                        [self = weak_from_this(), waiting = std::weak_ptr<Waiter>(waiter)] {
                          const auto kernel = self.lock();
                          const auto late = waiting.lock();
                          if (kernel && late) kernel->timed_out(late);
                        });
      line.push_back(waiter);
      return true;
    }
  }
  // It was finished while the answer was under way.
  ask(waiter);
  return true;
}

void Kernel::timed_out(const WaiterPtr& waiter) {
  {
    const std::lock_guard lock(mutex_);
    const auto line = waiters_.find(waiter->ask.id);
    if (line == waiters_.end() || line->second.remove(waiter) == 0) return;
    if (line->second.empty()) waiters_.erase(line);
  }
  if (base::monotonic_now() < waiter->deadline) {
    ask(waiter);
    return;
  }
  const Found result = waiter->busy;
  count(result);
  waiter->reply(result);
}

void Kernel::wake(const store::ReservationId& id, Wake how_many) {
  Waiters woken;
  {
    const std::lock_guard lock(mutex_);
    ++finished_of(id);
    const auto line = waiters_.find(id);
    if (line == waiters_.end()) return;
    if (how_many == Wake::all) {
      woken.swap(line->second);
    } else {
      woken.splice(woken.end(), line->second, line->second.begin());
      woken.front()->is_alone = true;
    }
    if (line->second.empty()) waiters_.erase(line);
    for (const WaiterPtr& waiter : woken) timers_.cancel(waiter->timer);
  }
  for (const WaiterPtr& waiter : woken) ask(waiter);
}

void Kernel::dismiss_waiters() {
  decltype(waiters_) dismissed;
  {
    const std::lock_guard lock(mutex_);
    dismissed.swap(waiters_);
    for (const auto& [id, line] : dismissed) {
      for (const WaiterPtr& waiter : line) timers_.cancel(waiter->timer);
    }
  }
  for (const auto& [id, line] : dismissed) {
    for (const WaiterPtr& waiter : line) {
      const Found result = waiter->busy;
      count(result);
      waiter->reply(result);
    }
  }
}

// ------------------------------------------------------------------------------------------------ what was found

Found Kernel::found(const store::Reserve& ask, Answer& answer, AnswerCache::Ticket ticket) {
  if (const auto* acquired = std::get_if<store::Acquired>(&answer)) {
    // By the store's clock what was kept here is over.
    cache_.remove(ask.id);
    return *acquired;
  }
  if (auto* replay = std::get_if<store::Replay>(&answer)) {
    FinishedAnswer finished{replay->state,
                            std::make_shared<const std::string>(std::move(replay->answer)),
                            replay->expires_at};
    cache_.put(ask.id, ask.fingerprint, finished, ticket);
    return finished;
  }
  if (const auto* busy = std::get_if<store::InProgress>(&answer)) return *busy;
  if (const auto* unknown = std::get_if<store::OutcomeUnknown>(&answer)) return *unknown;
  SEMEL_ASSERT(std::holds_alternative<store::KeyReused>(answer));
  return store::KeyReused{};
}

void Kernel::count(const Found& found) {
  if (const auto* acquired = std::get_if<store::Acquired>(&found)) {
    ++(acquired->taken_over ? counts_.takeovers : counts_.misses);
  } else if (std::holds_alternative<FinishedAnswer>(found)) {
    ++counts_.hits;
  } else if (std::holds_alternative<store::InProgress>(found)) {
    ++counts_.in_progress;
  } else if (std::holds_alternative<store::KeyReused>(found)) {
    ++counts_.conflicts;
  } else {
    ++counts_.unknown;
  }
}

KernelCounters Kernel::counters() const {
  return {.hits = counts_.hits,
          .cache_hits = counts_.cache_hits,
          .misses = counts_.misses,
          .takeovers = counts_.takeovers,
          .waits = counts_.waits,
          .in_progress = counts_.in_progress,
          .conflicts = counts_.conflicts,
          .unknown = counts_.unknown,
          .fences_lost = counts_.fences_lost};
}

// ------------------------------------------------------------------------------------------------ other commands

/// Whom a command may wake. Not the command itself: an answer may have many bytes.
struct Kernel::Finishing {
  store::ReservationId id;
  std::optional<Wake> wakes;
  bool forgets = false;
  bool leaves = false;  ///< a claim, that is a reservation from then on
};

Kernel::Finishing Kernel::before(const Command& command) {
  if (const auto* complete = std::get_if<store::Complete>(&command))
    return {.id = complete->id, .wakes = Wake::all};
  if (const auto* release = std::get_if<store::Release>(&command))
    return {.id = release->id, .wakes = Wake::one};
  if (const auto* reserve = std::get_if<store::Reserve>(&command); reserve && reserve->is_claimed)
    return {.id = reserve->id, .wakes = {}, .leaves = true};
  if (const auto* forget = std::get_if<store::Forget>(&command)) {
    // From the moment on that somebody asks for it to be forgotten, it is not served.
    cache_.remove(forget->id);
    return {.id = forget->id, .wakes = Wake::one, .forgets = true};
  }
  return {};
}

void Kernel::after(const Finishing& finishing, const base::Result<Answer>& answer) {
  if (!answer) return;
  if (finishing.leaves) port_->claims()->settle(finishing.id);
  if (std::holds_alternative<store::FenceLost>(*answer)) ++counts_.fences_lost;
  if (!finishing.wakes || !std::holds_alternative<store::Done>(*answer)) return;
  if (finishing.forgets) cache_.remove(finishing.id);
  wake(finishing.id, *finishing.wakes);
}

void Kernel::execute(Command command, Port::Reply reply) {
  Finishing finishing = before(command);
  port_->execute(std::move(command), [self = shared_from_this(), finishing = std::move(finishing),
                                      reply = std::move(reply)](base::Result<Answer> answer) {
    self->after(finishing, answer);
    reply(std::move(answer));
  });
}

base::Result<Answer> Kernel::call(Command command) {
  const Finishing finishing = before(command);
  auto answer = port_->call(std::move(command));
  after(finishing, answer);
  return answer;
}

std::shared_ptr<void> Kernel::keep(store::ReservationId id, store::Fence fence, nanoseconds lease) {
  if (!options_.has_timers) return nullptr;
  const auto renewal = std::make_shared<Renewal>();
  renewal->kernel = weak_from_this();
  renewal->id = std::move(id);
  renewal->fence = fence;
  renewal->lease = lease;
  renewal->schedule();
  return renewal;
}

std::shared_ptr<void> Kernel::later(nanoseconds delay, std::function<void()> action) {
  struct Handle {
    std::weak_ptr<Kernel> kernel;
    Timers::Id timer = 0;

    Handle(std::weak_ptr<Kernel> its, Timers::Id id) : kernel(std::move(its)), timer(id) {}

    Handle(const Handle&) = delete;
    Handle& operator=(const Handle&) = delete;

    ~Handle() {
      if (const auto alive = kernel.lock()) alive->timers_.cancel(timer);
    }
  };

  return std::make_shared<Handle>(weak_from_this(), timers_.after(delay, std::move(action)));
}

void Kernel::forget_memory() {
  cache_.clear();
  const std::lock_guard lock(mutex_);
  waiters_.clear();
}

}  // namespace semel::idempotency
