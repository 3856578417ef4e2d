#include "engine/threaded_driver.hpp"

#include <pthread.h>

#include <algorithm>
#include <ranges>

namespace semel::engine {

namespace {

constexpr std::chrono::milliseconds reopen_after_min{100};
/// A database that fails over is back within seconds, and each try is one connection.
constexpr std::chrono::milliseconds reopen_after_max{1000};
/// The wall clock may be set while the loop rests: it looks again at least this often.
constexpr std::chrono::seconds rest_max{1};
constexpr std::chrono::seconds slow_segment{1};
/// How often the watchdog looks.
constexpr std::chrono::milliseconds watch_every{100};
/// A quick body is back in so long, and so is a caller who has its answer and has more to ask. To be woken up takes about
/// as much again.
constexpr std::chrono::microseconds soon{100};
/// A batch of so few commands is committed by the loop itself, where it has nothing else to do.
constexpr std::size_t few_commands = 4;
/// A batch of so many is worth a commit of its own.
constexpr std::size_t many_commands = 256;
/// So many answers are taken up before the loop looks whether the committer should have something to do.
constexpr std::size_t answers_at_once = 64;

/// The driver whose loop this thread runs.
thread_local const ThreadedDriver* driver_of_this_thread = nullptr;

/// None that runs code of others or goes through many rows.
bool is_quick(const store::Command& command) {
  return std::holds_alternative<store::AdvanceRun>(command) ||
         std::holds_alternative<store::StartRun>(command) ||
         std::holds_alternative<store::Deliver>(command) ||
         std::holds_alternative<store::ResumeOrStart>(command);
}

using Errands = std::vector<idempotency::Errand*>;

/// Their commands go behind those of the loop's batch.
void take_along(const Errands& errands, std::vector<store::Command>& commands, TimePoint now) {
  commands.reserve(commands.size() + errands.size());
  for (idempotency::Errand* errand : errands) {
    idempotency::set_now(errand->command, now);
    commands.push_back(std::move(errand->command));
  }
}

/// Gives their commands back; says what each is to be told. What is the loop's stays.
std::vector<base::Result<store::Answer>> part_from(
    const Errands& errands, std::vector<store::Command>& commands,
    base::Result<std::vector<store::Answer>>& answers) {
  const auto own_count = commands.size() - errands.size();
  for (std::size_t i = 0; i < errands.size(); ++i)
    errands[i]->command = std::move(commands[own_count + i]);
  commands.erase(commands.begin() + static_cast<std::ptrdiff_t>(own_count), commands.end());
  if (!answers) return {errands.size(), answers.error()};
  std::vector<base::Result<store::Answer>> told;
  told.reserve(errands.size());
  for (store::Answer& answer : *answers | std::views::drop(own_count))
    told.emplace_back(std::move(answer));
  answers->resize(own_count);
  return told;
}

void name_thread(const char* name) { pthread_setname_np(pthread_self(), name); }

}  // namespace

base::Result<std::unique_ptr<ThreadedDriver>> ThreadedDriver::open(const Registry& registry,
                                                                   StoreFactory stores,
                                                                   StepClientFactory clients,
                                                                   ThreadedDriverOptions options) {
  auto opened = stores();
  if (!opened) return opened.error();
  return std::unique_ptr<ThreadedDriver>(new ThreadedDriver(
      registry, std::move(stores), std::move(clients), std::move(options), std::move(*opened)));
}

ThreadedDriver::ThreadedDriver(const Registry& registry, StoreFactory stores,
                               StepClientFactory clients, ThreadedDriverOptions options,
                               OpenedStore opened)
    : stores_(std::move(stores)),
      clients_(std::move(clients)),
      options_(std::move(options)),
      store_(std::move(opened)),
      claims_(store_.claims),
      loop_(registry, random_, *this, options_.loop),
      pool_(options_.step_threads),
      committer_([this] { run_committer(); }),
      watchdog_([this] { watch(); }),
      thread_([this] { run(); }) {
  Waiting opening;
  post([&opening](Loop& loop, TimePoint now) {
    loop.open(now);
    opening.finish();
  });
  wait(opening, {});
}

ThreadedDriver::~ThreadedDriver() { stop(); }

bool ThreadedDriver::post(Input input) {
  if (driver_of_this_thread == this) {
    own_inputs_.push_back(std::move(input));
    return true;
  }
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_loop_) return false;
    was_empty = inputs_.empty();
    inputs_.push_back(std::move(input));
    has_inputs_.store(true, std::memory_order_release);
  }
  if (was_empty) wake_loop_.notify_one();
  return true;
}

bool ThreadedDriver::execute(idempotency::Errand& errand) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    if (stop_committer_) return false;
    is_first = errands_.empty();
    errands_.push_back(&errand);
  }
  if (is_first) wake_committer_.notify_one();
  return true;
}

bool ThreadedDriver::wait(Waiting& waiting, const Patience& patience) {
  if (driver_of_this_thread == this) return wait_on_loop(waiting, patience);
  const ThreadPool::Blocked blocked;
  std::unique_lock lock(waiting.mutex);
  if (patience.limit)
    return waiting.answered.wait_for(lock, base::bounded(*patience.limit),
                                     [&] { return waiting.done; });
  waiting.answered.wait(lock, [&] { return waiting.done; });
  return true;
}

/// A Task step calls the engine: its thread is the one that has to do what it waits for. A commit is made on the spot,
/// without beginning other bodies; a run's end may need them.
bool ThreadedDriver::wait_on_loop(Waiting& waiting, const Patience& patience) {
  if (patience.run_steps || inside_loop()) {
    throw Error("CALL_ON_LOOP",
                "a Task step shares its thread with the engine and must not wait for a run there: "
                "co_await its result_async, or use a blocking step");
  }
  while (!waiting.done) {
    feed_answers();
    feed_inputs();
    reopen_if_lost();
    hand_over_if_due();
    std::unique_lock lock(mutex_);
    if (waiting.done || !inputs_.empty() || !own_inputs_.empty() || !answering_.empty()) continue;
    wake_loop_.wait_for(lock, reopen_after_, [this] { return !inputs_.empty() || executed_; });
  }
  return true;
}

bool ThreadedDriver::is_loop_thread() const { return driver_of_this_thread == this; }

void ThreadedDriver::start_workers() {
  post([](Loop& loop, TimePoint now) { loop.start_workers(now); });
}

std::shared_ptr<store::Reader> ThreadedDriver::reader() {
  const std::lock_guard lock(store_mutex_);
  return store_.reader;
}

bool ThreadedDriver::is_store_lost() {
  const std::lock_guard lock(mutex_);
  return lost_.has_value();
}

LoopCounters ThreadedDriver::counters() {
  LoopCounters counters;
  Waiting waiting;
  const bool posted = post([&](Loop& loop, TimePoint) {
    counters = loop.counters();
    waiting.finish();
  });
  if (posted) wait(waiting, {});
  return counters;
}

/// Bodies under way are waited for and their results written; then the store is left in order.
void ThreadedDriver::stop() {
  std::call_once(stopped_, [this] {
    post([](Loop& loop, TimePoint) { loop.begin_stop(); });
    {
      const std::lock_guard lock(mutex_);
      stop_loop_ = true;
    }
    wake_loop_.notify_one();
    if (thread_.joinable()) thread_.join();
    if (watchdog_.joinable()) watchdog_.join();
    if (claims_) claims_->close();
    {
      const std::lock_guard lock(mutex_);
      stop_committer_ = true;
    }
    wake_committer_.notify_one();
    if (committer_.joinable()) committer_.join();
    store_.store.reset();
  });
}

void ThreadedDriver::run() {
  name_thread("semel-loop");
  driver_of_this_thread = this;
  bool closing = false;
  for (;;) {
    rest();
    hand_over_if_large();
    busy_since_ = base::monotonic_now().count();
    feed_answers();
    run_tasks();
    feed_inputs();
    busy_since_ = 0;
    if (loop_.next_tick().value_or(TimePoint::max()) <= now()) loop_.tick(now());
    reopen_if_lost();
    hand_over_if_due();
    if (!loop_.is_drained() || is_committing() || !own_inputs_.empty()) {
      if (!(loop_.is_store_lost() && loop_.bodies_in_flight() == 0)) continue;
      if (leave()) return;
      continue;
    }
    if (closing) {
      if (leave()) return;
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      if (!stop_loop_ || !inputs_.empty()) continue;
    }
    closing = true;
    loop_.close();
    hand_over_batch();
  }
}

/// True if there is nothing left to do: from then on nothing is accepted.
bool ThreadedDriver::leave() {
  {
    const std::lock_guard lock(mutex_);
    if (!stop_loop_ || !inputs_.empty()) return false;
    stopped_loop_ = true;
  }
  wake_watchdog_.notify_all();
  loop_.dismiss_watchers();
  return true;
}

/// For what comes of the body that was begun just now, or of the answer. Gives way to whoever wants the processor, the
/// body not least.
void ThreadedDriver::look_out() {
  if (committing_ || !std::exchange(expects_input_, false)) return;
  const auto until = base::monotonic_now() + soon;
  while (!has_inputs_.load(std::memory_order_acquire) && base::monotonic_now() < until)
    std::this_thread::yield();
}

void ThreadedDriver::rest() {
  if (!tasks_.empty() || !own_inputs_.empty() || !answering_.empty()) return;
  look_out();
  std::unique_lock lock(mutex_);
  const auto has_something = [this] {
    return !inputs_.empty() || executed_ || (lost_ && !loop_.is_store_lost()) ||
           (stop_loop_ && loop_.is_drained() && !committing_);
  };
  if (has_something()) return;
  auto until = loop_.next_tick();
  if (reopen_at_) until = reopen_at_;
  std::chrono::nanoseconds patience = rest_max;
  if (until) patience = std::min<std::chrono::nanoseconds>(patience, *until - now());
  if (patience > std::chrono::nanoseconds{0}) wake_loop_.wait_for(lock, patience, has_something);
}

void ThreadedDriver::feed_inputs() {
  std::vector<Input> inputs;
  {
    const std::lock_guard lock(mutex_);
    inputs.swap(inputs_);
    has_inputs_.store(false, std::memory_order_release);
  }
  feed_all(std::move(inputs));
  // Once: what they let go on may post again, and again while the store is lost.
  feed_all(std::exchange(own_inputs_, {}));
}

/// What is fed may be a Task that goes on and calls the engine, which feeds.
void ThreadedDriver::feed_all(std::vector<Input> inputs) {
  if (inputs.empty()) return;
  const TimePoint started = now();
  for (Input& input : inputs) feed(loop_, input, started);
}

void ThreadedDriver::take_executed() {
  const std::lock_guard lock(mutex_);
  if (!executed_) return;
  answering_.push_back(*std::exchange(executed_, std::nullopt));
  committing_ = false;
  if (answering_.back().answers) reopen_after_ = reopen_after_min;
  if (store_.store) clock_lead_ = store_.store->clock_lead().count();
  flush_ += (waited_for_disk_ - flush_) / 8;
}

void ThreadedDriver::feed_answers() {
  take_executed();
  if (answering_.empty()) return;
  if (loop_.committed(answering_.front(), now(), answers_at_once)) answering_.pop_front();
}

void ThreadedDriver::run_tasks() {
  for (StepJob& job : std::exchange(tasks_, {})) {
    engine::run_task(std::move(job), *this, clients_);
  }
}

/// Workflow code and Task steps share one thread with everything else: whoever holds it up is told of.
void ThreadedDriver::watch() {
  std::unique_lock lock(mutex_);
  std::int64_t reported = 0;
  while (!stopped_loop_) {
    wake_watchdog_.wait_for(lock, watch_every, [this] { return stopped_loop_; });
    const std::int64_t since = busy_since_;
    if (since == 0 || since == reported) continue;
    if (base::monotonic_now().count() - since < std::chrono::nanoseconds(slow_segment).count())
      continue;
    reported = since;
    lock.unlock();
    tell(LogLevel::warning, "loop.held_up",
         "the loop has been held up for more than a second: a workflow's own code and Task steps "
         "must not block");
    lock.lock();
  }
}

/// While the loop still has answers to go through, the next batch is held back for as long as one more commit would cost
/// and no longer. So runs that wait for the disk share their commits, and where it is the loop that takes time, it and
/// the committer work side by side.
void ThreadedDriver::hand_over_if_due() {
  if (!loop_.has_batch()) return;
  const auto now = base::monotonic_now();
  if (!batch_since_) batch_since_ = now;
  if (!answering_.empty()) {
    // Nothing goes to a store that may be lost before the loop has heard of it.
    if (!answering_.back().answers || now - *batch_since_ < flush_) return;
  }
  hand_over_batch();
}

/// What has come together while the last batch was committed does not wait for its answers: the committer, and a database
/// behind it, would do nothing meanwhile.
void ThreadedDriver::hand_over_if_large() {
  take_executed();
  const bool is_lost = !answering_.empty() && !answering_.back().answers;
  if (loop_.batch().commands.size() >= many_commands && !is_lost) hand_over_batch();
}

/// To hand a commit over and to be woken up behind it costs a third of the commit. Where nothing can happen before it is
/// made, the loop makes it itself: no body is at work, nobody has asked for anything else.
bool ThreadedDriver::is_idle_but_for_batch() const {
  const auto& commands = loop_.batch().commands;
  return commands.size() <= few_commands && std::ranges::all_of(commands, is_quick) &&
         loop_.bodies_in_flight() == 0 && tasks_.empty() && own_inputs_.empty() &&
         answering_.empty() && !has_inputs_.load(std::memory_order_acquire);
}

void ThreadedDriver::hand_over_batch() {
  if (committing_ || !loop_.has_batch()) return;
  committing_ = true;
  const bool is_idle = is_idle_but_for_batch();
  bool has_more = true;
  {
    std::unique_lock lock(mutex_);
    to_commit_.emplace(loop_.take_batch());
    to_commit_since_ = batch_since_.value_or(base::monotonic_now());
    batch_since_.reset();
    if (is_idle && !is_executing_ && errands_.empty()) {
      execute_round(lock);
      expects_input_ = true;
      has_more = !errands_.empty();
    }
  }
  // To wake it for nothing would take the processor from the database.
  if (has_more) wake_committer_.notify_one();
}

/// Nobody gets a key before those have it whose work is done or under way.
std::optional<base::Fault> ThreadedDriver::put_back() {
  if (owed_.empty()) return std::nullopt;
  for (store::Command& each : owed_) idempotency::set_now(each, now());
  const auto done = store_.store->execute(owed_);
  if (!done) return done.error();
  for (const store::Command& each : owed_) claims_->settle(std::get<store::Reserve>(each).id);
  owed_.clear();
  return std::nullopt;
}

base::Result<std::vector<store::Answer>> ThreadedDriver::execute_all(
    const std::vector<store::Command>& commands) {
  if (!store_.store) return base::Fault{base::Errc::unavailable, "the store is closed"};
  const auto began = base::monotonic_now();
  if (const auto fault = put_back()) {
    ++own_meter().store_errors;
    return *fault;
  }
  auto answers = store_.store->execute(commands);
  // Both when it is over: whoever reads them meanwhile sees as many of the one as of the other.
  own_meter().commands.add(commands.size());
  own_meter().commit_time.add(base::monotonic_now() - began);
  if (!answers) {
    ++own_meter().store_errors;
    own_meter().leases_lost = store_.store->leases_lost();
  }
  return answers;
}

/// The work is done, and nobody knows what is stored of it: at least the reservation shall be.
void ThreadedDriver::owe_claimed(const std::vector<store::Command>& commands) {
  if (!claims_) return;
  claims_->close();  // or more would be done that could not be stored
  for (const store::Command& command : commands) {
    const auto* reserve = std::get_if<store::Reserve>(&command);
    if (reserve == nullptr || !reserve->is_claimed || !reserve->outcome) continue;
    owed_.emplace_back(*reserve);
    std::get<store::Reserve>(owed_.back()).outcome.reset();
  }
}

void ThreadedDriver::run_committer() {
  name_thread("semel-commit");
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_committer_.wait(lock, [this] {
      if (is_executing_) return false;
      return to_commit_ || (!errands_.empty() && !is_reopening_) || stop_committer_;
    });
    if (!to_commit_ && errands_.empty()) return;
    execute_round(lock);
  }
}

/// What is there to commit, as one transaction, by whoever is alone at the store.
void ThreadedDriver::execute_round(std::unique_lock<std::mutex>& lock) {
  std::optional<Batch> batch = std::exchange(to_commit_, std::nullopt);
  const Errands errands = std::exchange(errands_, {});
  const std::optional<base::Fault> lost = lost_;
  const std::chrono::nanoseconds since = to_commit_since_;
  is_executing_ = true;
  lock.unlock();
  if (batch) own_meter().commit_wait.add(base::monotonic_now() - since);
  std::vector<store::Command> none;
  std::vector<store::Command>& commands = batch ? batch->commands : none;
  take_along(errands, commands, now());
  const auto began = base::monotonic_now() - base::thread_cpu_time();
  auto answers = lost ? base::Result<std::vector<store::Answer>>(*lost) : execute_all(commands);
  const auto ended = base::monotonic_now() - base::thread_cpu_time();
  const auto flushed = answers ? store_.store->flush_time() : std::nullopt;
  if (!answers) owe_claimed(commands);
  auto told = part_from(errands, commands, answers);
  lock.lock();
  is_executing_ = false;
  if (!answers) lost_ = answers.error();
  if (batch) {
    executed_.emplace(std::move(*batch), std::move(answers));
    waited_for_disk_ = flushed.value_or(ended - began);
  }
  if (batch || lost_) wake_loop_.notify_one();
  left_store_.notify_one();
  lock.unlock();
  // What they hold may go on as it goes.
  idempotency::tell(errands, told);
  lock.lock();
}

void ThreadedDriver::reopen_if_lost() {
  if (is_committing()) return;
  std::optional<base::Fault> fault;
  {
    const std::lock_guard lock(mutex_);
    fault = lost_;
  }
  // It may have been a command past the loop that failed.
  if (fault) loop_.store_failed(*fault);
  if (loop_.is_store_lost()) reopen_store();
}

/// After an error from a commit nothing is known: close, open anew, read again.
void ThreadedDriver::reopen_store() {
  if (!reopen_at_) reopen_at_ = now() + reopen_after_;
  if (*reopen_at_ > now()) return;
  {
    std::unique_lock lock(mutex_);
    is_reopening_ = true;
    left_store_.wait(lock, [this] { return !is_executing_; });
  }
  store_.store.reset();
  auto opened = stores_();
  if (opened) {
    const std::lock_guard lock(store_mutex_);
    store_ = std::move(*opened);
  }
  {
    const std::lock_guard lock(mutex_);
    is_reopening_ = false;
    if (opened) lost_.reset();
  }
  wake_committer_.notify_one();
  // Until something was committed it may be as lost as before: each try waits longer.
  reopen_after_ = std::min(reopen_after_ * 2, reopen_after_max);
  if (!opened) {
    reopen_at_ = now() + reopen_after_;
    tell(LogLevel::warning, "store.unavailable",
         "the store cannot be opened: " + opened.error().message);
    return;
  }
  reopen_at_.reset();
  clock_lead_ = store_.store->clock_lead().count();
  tell(LogLevel::info, "store.opened", "the store is open again");
  loop_.open(now());
}

void ThreadedDriver::run_step(StepJob job) {
  if (job.body->is_task()) {
    tasks_.push_back(std::move(job));
    return;
  }
  expects_input_ = true;
  pool_.submit([this, job = std::move(job), since = base::monotonic_now()]() mutable {
    own_meter().step_wait.add(base::monotonic_now() - since);
    run_blocking(std::move(job), *this, clients_);
  });
}

void ThreadedDriver::log(const LogEvent& event) {
  if (options_.log && event.level >= options_.loop.log_level) options_.log(event);
}

void ThreadedDriver::tell(LogLevel level, std::string_view name, std::string message) {
  log({.level = level, .name = name, .message = std::move(message), .fields = {}});
}

}  // namespace semel::engine
