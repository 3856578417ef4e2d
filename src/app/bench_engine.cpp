#include "app/bench_engine.hpp"

#include "app/engine_core.hpp"
#include "base/assert.hpp"
#include "idempotency/fingerprint.hpp"
#include "store/postgres/postgres_hints.hpp"

#include <semel/semel.hpp>

#include <fmt/format.h>

#include <future>

namespace semel::app::bench {

namespace {

using engine::Loop;
using engine::Refusal;

constexpr std::size_t result_chars = 98;  // with its quotes 100 bytes of JSON
constexpr const char* task_workflow = "tasks";
constexpr const char* blocking_workflow = "blocking";
constexpr Seconds ramp{0.1};
constexpr std::size_t journal_page = 1000;

std::uint64_t commits_of(const store::SqliteStore& store) { return store.commits(); }

std::uint64_t commits_of(const store::PostgresStore& store) { return store.counters().commits; }

template <class Inner>
class MeteredStore final : public store::Store {
 public:
  MeteredStore(std::unique_ptr<Inner> inner, std::shared_ptr<StoreMeter> meter)
      : inner_(std::move(inner)), meter_(std::move(meter)) {}

  base::Result<std::vector<store::Answer>> execute(std::span<const store::Command> batch) override {
    auto answers = inner_->execute(batch);
    std::uint64_t starts = 0;
    std::uint64_t advances = 0;
    for (const store::Command& command : batch) {
      starts += std::holds_alternative<store::StartRun>(command) ? 1 : 0;
      advances += std::holds_alternative<store::AdvanceRun>(command) ? 1 : 0;
    }
    meter_->started += starts;
    meter_->entries += starts + advances;
    meter_->commits = commits_of(*inner_);
    if (answers) note_sweeps(*answers);
    return answers;
  }

  std::optional<std::chrono::nanoseconds> flush_time() const override {
    return inner_->flush_time();
  }

  std::chrono::nanoseconds clock_lead() const override { return inner_->clock_lead(); }

 private:
  void note_sweeps(const std::vector<store::Answer>& answers) {
    for (const store::Answer& answer : answers) {
      const auto* swept = std::get_if<store::Swept>(&answer);
      if (swept == nullptr) continue;
      meter_->swept += static_cast<std::uint64_t>(swept->runs);
      meter_->swept_entries += static_cast<std::uint64_t>(swept->entries);
    }
  }

  std::unique_ptr<Inner> inner_;
  std::shared_ptr<StoreMeter> meter_;
};

template <class Inner, class Options>
engine::StoreFactory metered(Options options, std::shared_ptr<StoreMeter> meter) {
  return [options = std::move(options),
          meter = std::move(meter)]() -> base::Result<engine::OpenedStore> {
    auto opened = Inner::open(options);
    if (!opened) return opened.error();
    auto reader = (*opened)->reader();
    if (!reader) return reader.error();
    return engine::OpenedStore{std::make_unique<MeteredStore<Inner>>(std::move(*opened), meter),
                               std::move(*reader)};
  };
}

std::unique_ptr<detail::EngineCore> make_core(const engine::StoreFactory& stores,
                                              const BenchEngineOptions& options,
                                              detail::Surroundings surroundings) {
  return std::make_unique<detail::EngineCore>(
      EngineOptions{},
      [&](const engine::Registry& registry, engine::StepClientFactory clients) {
        engine::ThreadedDriverOptions driver;
        driver.loop.frame_bytes_max = options.frame_bytes_max;
        driver.loop.sweep_every = options.sweep_every;
        auto opened =
            engine::ThreadedDriver::open(registry, stores, std::move(clients), std::move(driver));
        if (!opened) throw Error("STORE_UNAVAILABLE", opened.error().message);
        return std::unique_ptr<engine::Driver>(std::move(*opened));
      },
      surroundings);
}

std::unique_ptr<detail::EngineCore> sqlite_core(const std::filesystem::path& file,
                                                const BenchEngineOptions& options,
                                                std::shared_ptr<StoreMeter> meter) {
  return make_core(metered<store::SqliteStore>(
                       store::SqliteOptions{.path = file.string(), .cache_kib = options.cache_kib},
                       std::move(meter)),
                   options, {});
}

std::unique_ptr<detail::EngineCore> postgres_core(
    const PostgresNode& node, const BenchEngineOptions& options, std::shared_ptr<StoreMeter> meter,
    const std::shared_ptr<store::postgres::NodeIdentity>& identity) {
  auto core = make_core(
      metered<store::PostgresStore>(store::PostgresOptions{.url = node.url, .identity = identity},
                                    std::move(meter)),
      options, {.has_timers = true, .is_shared = true});
  core->allow_adoption(store::postgres::make_hints(node.url, identity), true);
  return core;
}

std::shared_ptr<store::postgres::NodeIdentity> identity_of(const PostgresNode& node) {
  auto identity = std::make_shared<store::postgres::NodeIdentity>();
  identity->name = node.name;
  identity->lease = node.lease;
  return identity;
}

/// Never given before, in this process or another.
std::string new_key() {
  static const std::uint64_t process = [] {
    base::SystemRandom random;
    return random.next();
  }();
  static std::atomic<std::uint64_t> count{0};
  // An odd factor: every number once, and neighbours far from each other.
  return fmt::format("{:016x}{:016x}", ++count * 0x9E3779B97F4A7C15U, process);
}

/// Keeps a number of runs under way. The loop's thread starts the next one when one is over, as a busy server would;
/// no thread waits for a single run.
class Crowd : public std::enable_shared_from_this<Crowd> {
 public:
  struct Manner {
    bool until_over =
        true;            ///< a run counts until it is over; otherwise until its start is durable
    bool keyed = false;  ///< each under a key of its own
  };

  Crowd(engine::Driver& driver, engine::StartInput input, Manner manner)
      : driver_(driver), input_(std::move(input)), manner_(manner) {}

  /// `starts_max`: how many in all.
  void begin(int at_a_time, std::int64_t starts_max = INT64_MAX) {
    starts_left_ = starts_max;
    under_way_ = at_a_time;
    for (int i = 0; i < at_a_time; ++i) next();
  }

  std::uint64_t over() const { return over_; }

  /// No new ones; returns when the last is over.
  void end() {
    stopping_ = true;
    wait();
  }

  void wait() {
    std::unique_lock lock(mutex_);
    all_over_.wait(lock, [this] { return under_way_ == 0; });
  }

 private:
  void next() {
    if (stopping_ || starts_left_-- <= 0) {
      stopping_ = true;
      const std::lock_guard lock(mutex_);
      if (--under_way_ == 0) all_over_.notify_all();
      return;
    }
    driver_.post([self = shared_from_this()](Loop& loop, TimePoint now) {
      loop.start(
          self->next_input(),
          [self](std::variant<engine::StartReply, Refusal> answer) {
            SEMEL_ASSERT(std::holds_alternative<engine::StartReply>(answer));
            if (self->manner_.until_over) {
              self->watch(std::get<engine::StartReply>(answer));
            } else {
              self->one_over();
            }
          },
          now);
    });
  }

  engine::StartInput next_input() const {
    engine::StartInput input = input_;
    if (manner_.keyed) input.options.key = new_key();
    return input;
  }

  void watch(engine::StartReply started) {
    // Posted, as everything is: a reply must not call the loop.
    driver_.post([self = shared_from_this(), started = std::move(started)](Loop& loop, TimePoint) {
      loop.watch(
          self->input_.workspace, started.id,
          [self](const std::variant<detail::RunEnd, Refusal>&) { self->one_over(); }, started.key);
    });
  }

  void one_over() {
    over_.fetch_add(1, std::memory_order_relaxed);
    next();
  }

  engine::Driver& driver_;
  engine::StartInput input_;
  Manner manner_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> starts_left_{0};
  std::atomic<std::uint64_t> over_{0};
  std::mutex mutex_;
  std::condition_variable all_over_;
  int under_way_ = 0;
};

std::string fingerprint_of(const engine::StartInput& input) {
  return idempotency::start_fingerprint(input.workflow, value::canonical(input.input));
}

engine::StartInput start_input(StepKind kind, int steps) {
  engine::StartInput input;
  input.workflow = kind == StepKind::task ? task_workflow : blocking_workflow;
  input.input = "[" + std::to_string(steps) + "]";
  return input;
}

}  // namespace

// ------------------------------------------------------------------------------------------------ workload

detail::Callback<bool> Gate::pass() {
  return detail::Callback<bool>{[this](std::function<void(bool)> resume) {
    const std::lock_guard lock(mutex_);
    visitor_ = std::move(resume);
    arrived_.notify_all();
  }};
}

void Gate::wait_for_visitor() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return visitor_ != nullptr; });
}

void Gate::open() {
  std::function<void(bool)> visitor;
  {
    const std::lock_guard lock(mutex_);
    visitor = std::exchange(visitor_, nullptr);
  }
  visitor(true);
}

Workload::Workload() : result_(result_chars, 'r') {}

std::vector<double> Workload::take_times() {
  return std::exchange(times_, std::nullopt).value_or(std::vector<double>{});
}

std::string Workload::body() {
  steps_done_.fetch_add(1, std::memory_order_relaxed);
  if (times_) times_->push_back(seconds_now());
  return result_;
}

Task<std::string> Workload::task_body() { co_return body(); }

Task<std::string> Workload::gated_body(bool waits) {
  if (waits) co_await gate.pass();
  co_return body();
}

// Looking at `stopping_` is what a workflow must not do: it is not in the journal. These runs are never replayed.

Workflow<std::uint32_t> Workload::tasks(std::uint32_t steps) {
  for (std::uint32_t i = 0; i < steps && !stopping_; ++i) {
    co_await step("work", [this] { return task_body(); });
  }
  co_return steps;
}

Workflow<std::uint32_t> Workload::blocking(std::uint32_t steps) {
  for (std::uint32_t i = 0; i < steps && !stopping_; ++i) {
    co_await step("work", [this] { return body(); });
  }
  co_return steps;
}

Workflow<std::uint32_t> Workload::gated(std::uint32_t steps) {
  for (std::uint32_t i = 0; i < steps; ++i) {
    const bool waits = i >= gated_from && i % gate_every == 0;
    co_await step("work", [this, waits] { return gated_body(waits); });
  }
  co_await sleep(std::chrono::hours{1});
  co_return steps;
}

Workflow<std::uint32_t> Workload::park(std::string order, TimePoint wake_at) {
  co_await sleep_until(wake_at);
  co_await step("work", [this] { return task_body(); });
  co_return static_cast<std::uint32_t>(order.size());
}

// ------------------------------------------------------------------------------------------------ engine

BenchEngine::BenchEngine(const std::filesystem::path& file, BenchEngineOptions options)
    : BenchEngine(file, options, std::make_shared<StoreMeter>()) {}

BenchEngine::BenchEngine(const PostgresNode& node, BenchEngineOptions options)
    : BenchEngine(node, options, std::make_shared<StoreMeter>(), identity_of(node)) {}

BenchEngine::BenchEngine(const std::filesystem::path& file, BenchEngineOptions options,
                         std::shared_ptr<StoreMeter> meter)
    : Engine(sqlite_core(file, options, meter)),
      meter_(std::move(meter)),
      workload_(std::make_unique<Workload>()) {
  add_workflows();
}

BenchEngine::BenchEngine(const PostgresNode& node, BenchEngineOptions options,
                         std::shared_ptr<StoreMeter> meter, Identity identity)
    : Engine(postgres_core(node, options, meter, identity)),
      meter_(std::move(meter)),
      identity_(std::move(identity)),
      workload_(std::make_unique<Workload>()) {
  add_workflows();
}

void BenchEngine::add_workflows() {
  add(task_workflow, &Workload::tasks, workload_.get());
  add(blocking_workflow, &Workload::blocking, workload_.get());
  add("gated", &Workload::gated, workload_.get());
  add("park", &Workload::park, workload_.get());
}

// The workload goes before the engine does: nothing may run by then.
BenchEngine::~BenchEngine() { stop(); }

engine::LoopCounters BenchEngine::loop_counters() {
  return static_cast<engine::ThreadedDriver&>(core().driver()).counters();
}

Rate BenchEngine::load(const Load& load, Seconds duration) {
  return load_until(load, [duration] { pause_for(duration); });
}

Rate BenchEngine::load_until(const Load& load, const std::function<void()>& over) {
  workload_->go();
  engine::StartInput input = start_input(load.kind, load.steps);
  if (load.keyed) input.fingerprint = fingerprint_of(input);
  const auto crowd =
      std::make_shared<Crowd>(core().driver(), std::move(input),
                              Crowd::Manner{.until_over = load.steps != 0, .keyed = load.keyed});
  const auto done = [&] { return load.steps != 0 ? workload_->steps_done() : crowd->over(); };
  crowd->begin(load.runs);
  pause_for(ramp);

  const double began = seconds_now();
  const double cpu_began = cpu_seconds();
  const auto done_before = done();
  const std::uint64_t commits_before = meter_->commits;
  const std::uint64_t entries_before = meter_->entries;
  over();
  const auto count = static_cast<double>(done() - done_before);
  const double took = seconds_now() - began;
  const double cpu = cpu_seconds() - cpu_began;
  const auto commits = static_cast<double>(meter_->commits - commits_before);
  const auto entries = static_cast<double>(meter_->entries - entries_before);

  workload_->stop();
  crowd->end();
  return {.steps_per_second = count / took,
          .batch_mean = commits == 0 ? 0 : entries / commits,
          .cpu_per_step = count == 0 ? 0 : cpu / count};
}

std::vector<double> BenchEngine::step_times(StepKind kind, int steps) {
  workload_->go();
  workload_->note_times();
  const char* workflow = kind == StepKind::task ? task_workflow : blocking_workflow;
  start(StartOptions{}, workflow, Json(steps)).run.result<std::uint32_t>();
  return workload_->take_times();
}

double BenchEngine::duplicate_starts(int at_a_time, Seconds duration) {
  engine::StartInput input = start_input(StepKind::task, 1);
  input.options.key = "duplicate";
  input.fingerprint = fingerprint_of(input);
  const auto crowd =
      std::make_shared<Crowd>(core().driver(), input, Crowd::Manner{.until_over = false});
  crowd->begin(at_a_time);
  pause_for(ramp);

  const double began = seconds_now();
  const std::uint64_t before = crowd->over();
  pause_for(duration);
  const double rate = static_cast<double>(crowd->over() - before) / (seconds_now() - began);

  crowd->end();
  return rate;
}

void BenchEngine::park(int count, TimePoint wake_at) {
  engine::StartInput input;
  input.workflow = "park";
  input.input =
      "[" + value::encode(std::string(result_chars, 'o')) + "," + value::encode(wake_at) + "]";
  const auto crowd =
      std::make_shared<Crowd>(core().driver(), input, Crowd::Manner{.until_over = false});
  crowd->begin(std::min(count, 1000), count);
  crowd->wait();
}

store::RunKey BenchEngine::key_of(const std::string& run_id) {
  const auto found = core().driver().reader()->find("default", run_id);
  SEMEL_ASSERT(found.has_value());
  return found->value_or(store::RunRecord{}).key;
}

store::RunKey BenchEngine::reserve_keys(std::int64_t count) {
  std::promise<store::RunKey> first;
  core().driver().execute(store::ReserveKeys{.keys_count = count},
                          [&](base::Result<store::Answer> answer) {
                            SEMEL_ASSERT(answer.has_value());
                            first.set_value(std::get<store::KeysReserved>(*answer).first_key);
                          });
  return first.get_future().get();
}

std::vector<std::string> BenchEngine::entries(const std::string& run_id) {
  const store::RunKey run = key_of(run_id);
  const auto shared = core().driver().reader();
  store::Reader& reader = *shared;
  std::vector<std::string> found;
  for (;;) {
    auto page = reader.journal(run, found.size(), journal_page);
    SEMEL_ASSERT(page.has_value());
    if (page->empty()) return found;
    for (store::StoredEntry& entry : *page) found.push_back(std::move(entry.bytes));
  }
}

EntryBytes entry_bytes(BenchEngine& engine) {
  engine.workload().go();
  const Run run = engine.start(StartOptions{}, task_workflow, Json(10)).run;
  run.result<std::uint32_t>();
  const auto entries = engine.entries(run.id());
  SEMEL_ASSERT(entries.size() == 11);
  return {.first = entries[0].size(), .step = entries[5].size(), .last = entries[10].size()};
}

}  // namespace semel::app::bench
