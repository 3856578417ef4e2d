// The loop: decides what happens next. It has no threads and reads no clock; whoever drives it passes time in, executes
// its batches and runs its steps. Production and simulation drive the same object.
//
// The protocol: feed inputs; take a batch; execute it; hand back the answers (`committed`); repeat. At most one batch
// is out at a time; inputs that arrive meanwhile make up the next one. Answers may be handed back in parts, and the next
// batch taken between two of them: then the loop goes through the rest while the store is at work again. Everything with
// an effect — a step to run, an answer to a caller — leaves through `Host` or a reply, and only after the commit it
// depends on.
#pragma once

#include "base/random.hpp"
#include "base/result.hpp"
#include "base/shape.hpp"
#include "engine/bodies.hpp"
#include "engine/frame.hpp"
#include "engine/live_run.hpp"
#include "engine/registry.hpp"
#include "engine/replay.hpp"
#include "store/answer.hpp"
#include "store/command.hpp"

#include <semel/engine.hpp>

#include <deque>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

namespace semel::engine {

/// Why a call was refused: an error code, for people, and the run it is about.
struct Refusal {
  std::string code;
  std::string message;
  std::string run_id;
  std::string path{};  ///< of what does not fit
};

template <class T>
using Reply = std::function<void(std::variant<T, Refusal>)>;

struct StartReply {
  std::string id;
  bool created = false;
  store::RunKey key =
      0;  ///< of a run that was created: finds it without a look-up while it is live
};

struct StartInput {
  std::string workspace = "default";
  std::string workflow;
  std::string input;        ///< JSON array of the arguments, checked
  std::string fingerprint;  ///< where a key or an id is given
  StartOptions options;
};

/// Who got a payload.
struct DeliverReply {
  std::string run_id;
  std::string hook_id;
  bool started = false;
};

/// What a transaction gave, or threw.
struct TransactReply {
  std::string value;  ///< JSON
  std::exception_ptr error;
};

Refusal refusal_of(const store::StartRefused& refused);

/// Why a payload for `token` was not taken in.
Refusal delivery_refusal(const std::string& token, const store::Answer& answer);

/// A run to be started: with these ids, at this time.
store::NewRun new_run(StartInput input, const Registry& registry, store::RunKey key,
                      std::string instance, TimePoint now, std::chrono::nanoseconds retention);

/// What those who wait for the run are told; none: it goes on.
std::optional<detail::RunEnd> end_of(const store::RunRecord& run);

/// The tokens a run has, to be taken by a copy of it.
std::vector<store::HookClaim> claims_of(const journal::RunState& state);

/// What `entry`, which `state` has in it already, asks of the store about hooks.
std::vector<store::HookChange> hook_changes(const journal::Entry& entry,
                                            const journal::RunState& state);

/// True where the run cannot go on before the store has answered.
bool asks_store(const store::Changes& changes);

/// What the log calls a run.
struct RunNames {
  std::string id;
  std::string workspace;
  std::string workflow;
};

RunNames names_of(const LiveRun& run);
RunNames names_of(const store::RunRecord& run);

/// What the loop asks of its surroundings. Calls come from inside the loop's own calls and must not call back into it.
class Host {
 public:
  virtual ~Host() = default;
  virtual void run_step(StepJob job) = 0;
  virtual void log(const LogEvent& event) = 0;
};

struct LoopOptions {
  Limits limits{};
  std::size_t frame_bytes_max = std::size_t{256} << 20U;
  std::chrono::nanoseconds retention{std::chrono::hours{24 * 7}};
  int crashes_max = 5;
  std::chrono::nanoseconds sweep_every{std::chrono::minutes{1}};
  LogLevel log_level = LogLevel::warning;  ///< what is below it is not told
  bool check_replay = false;               ///< replay every run after every suspension and compare
};

/// What happened so far; for metrics, tests and benchmarks.
struct LoopCounters {
  std::uint64_t batches = 0;
  std::uint64_t commands = 0;
  std::uint64_t late_results = 0;
  std::uint64_t stale = 0;
  std::uint64_t replays = 0;
  std::uint64_t evictions = 0;
  std::uint64_t recovered = 0;
  std::uint64_t steps_done = 0;    ///< attempts that gave a result
  std::uint64_t steps_failed = 0;  ///< attempts that did not
  std::uint64_t runs_completed = 0;
  std::uint64_t runs_failed = 0;
  std::uint64_t runs_cancelled = 0;
  std::uint64_t partitions_gained = 0;
  std::uint64_t partitions_left = 0;  ///< to others, in order
  std::uint64_t runs_moved = 0;       ///< to nodes that can drive them
  std::uint64_t hints = 0;            ///< runs that others said to look at
};

struct Batch {
  std::vector<store::Command> commands;

 private:
  friend class Loop;

  /// Whom the answer is for, unless it is just an entry of a live run; by far the most are.
  struct Handlers {
    std::function<void(bool)> written;
    std::function<void(store::Answer&)> answered;
    std::function<void(const base::Fault&)> failed;
  };

  struct Continuation {
    std::shared_ptr<LiveRun> run;
    journal::Entry entry;
    std::unique_ptr<Handlers> handlers;
  };

  std::vector<Continuation> continuations_;
};

/// A batch that was executed, with its answers, or with why there are none.
struct ExecutedBatch {
  Batch batch;
  base::Result<std::vector<store::Answer>> answers;
  std::size_t taken_up = 0;  ///< so many of them
};

/// What goes with an entry besides itself.
struct EntryExtra {
  std::vector<std::int64_t> consumed{};  ///< inbox items it takes
  std::vector<std::int64_t> payloads{};  ///< payloads it takes
  std::function<void(bool)> written{};   ///< told whether it is durable
};

class Loop {
 public:
  Loop(const Registry& registry, base::Random& random, Host& host, LoopOptions options);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();

  // ---------------------------------------------------------------------------------------------- life

  /// First of all, and again after the store was lost and opened anew.
  void open(TimePoint now);
  /// Until this, starts are accepted and nothing runs.
  void start_workers(TimePoint now);
  /// No new attempts from here on; `is_drained` when those under way have come back and been written.
  void begin_stop();
  bool is_drained() const;
  /// The last command of an orderly end.
  void close();
  /// Whoever still waits for a run is told that the engine has stopped.
  void dismiss_watchers();

  /// Whose runs it drives.
  std::size_t partitions() const { return owned_.size(); }

  /// Of them, so many are being left to others.
  std::size_t draining() const { return draining_.size(); }

  /// Nodes of the store, as they were when this one was last heard of.
  std::int64_t nodes() const { return nodes_; }

  // ---------------------------------------------------------------------------------------------- calls

  void start(StartInput input, Reply<StartReply> reply, TimePoint now);
  /// Workspace, token, payload, resume id and expected version are given.
  void deliver(store::Deliver deliver, const Reply<DeliverReply>& reply, TimePoint now);
  void resume_or_start(store::Deliver deliver, StartInput input, const Reply<DeliverReply>& reply,
                       TimePoint now);
  /// What others did to runs of ours, past the loop.
  void hinted(const store::Effects& effects, TimePoint now);
  /// Some of it may have been told and not have arrived.
  void hints_lost(TimePoint now);
  /// See `store::Transact`.
  void transact(std::shared_ptr<store::Work> work, const Reply<TransactReply>& reply,
                TimePoint now);
  void cancel(std::string workspace, const std::string& id, CancelOptions options,
              const Reply<std::monostate>& reply, TimePoint now);
  void retry(std::string workspace, const std::string& id, RunOptions options,
             const Reply<std::monostate>& reply, TimePoint now);
  void fork(std::string workspace, const std::string& id, std::uint64_t seq, RunOptions options,
            const Reply<std::string>& reply, TimePoint now);
  void wake(std::string workspace, const std::string& id, RunOptions options, Reply<int> reply,
            TimePoint now);
  /// A command about a reservation, at this time, in the same batch as everything else. `reply` is called from inside the
  /// loop.
  void reservation(store::Command command,
                   const std::function<void(base::Result<store::Answer>)>& reply, TimePoint now);
  /// Answers once the run is over, dead or diverged. `key` is a hint. Where `caller` is given and gone, nobody waits for
  /// the answer any more.
  void watch(std::string workspace, const std::string& id, const Reply<detail::RunEnd>& reply,
             store::RunKey key = 0,
             const std::optional<std::weak_ptr<const void>>& caller = std::nullopt);

  // ---------------------------------------------------------------------------------------------- events

  void step_finished(store::RunKey run, const std::string& op, std::uint32_t attempt,
                     StepOutcome outcome, TimePoint now);
  void heartbeat(store::RunKey run, const std::string& op, std::uint32_t attempt,
                 std::string progress, TimePoint now);
  /// A workflow was registered: runs that waited for it go on.
  void workflow_added(const std::string& name);
  /// Time has passed.
  void tick(TimePoint now);
  /// When `tick` has something to do next; absent: not before something else happens.
  std::optional<TimePoint> next_tick() const;

  // ---------------------------------------------------------------------------------------------- batches

  bool has_batch() const { return !outgoing_.commands.empty(); }

  /// The next one, as far as it is.
  const Batch& batch() const { return outgoing_; }

  Batch take_batch();
  /// Takes up the answers, all or the next `limit` of them; true once all are. Why there are none: then everything in
  /// memory is in doubt and dropped, callers are told STORE_UNAVAILABLE, and nothing goes on before `open`. Batches are
  /// handed back in the order they were taken.
  bool committed(ExecutedBatch& executed, TimePoint now,
                 std::size_t limit = std::numeric_limits<std::size_t>::max());

  /// All of them at once.
  void committed(Batch batch, base::Result<std::vector<store::Answer>> answers, TimePoint now) {
    ExecutedBatch executed{std::move(batch), std::move(answers)};
    committed(executed, now);
  }

  /// Somebody else's commit failed on the same store: as if it had been one of ours. Not while a batch is away.
  void store_failed(const base::Fault& fault);

  bool is_store_lost() const { return lost_; }

  const LoopCounters& counters() const { return counters_; }

  std::size_t live_runs() const { return live_.size(); }

  std::size_t watchers() const;

  std::size_t bodies_in_flight() const { return bodies_.size(); }

  std::size_t deadlines() const { return deadlines_.size(); }

  std::size_t frame_bytes() const { return frame_bytes_; }

 private:
  using RunPtr = std::shared_ptr<LiveRun>;

  struct Watcher {
    Reply<detail::RunEnd> reply;
    std::optional<std::weak_ptr<const void>> caller;

    bool is_gone() const { return caller && caller->expired(); }
  };

  void add_watcher(store::RunKey key, Watcher watcher);

  struct HeldResult {
    store::RunKey run = 0;
    std::string op;
    std::uint32_t attempt = 0;
    StepOutcome outcome;
  };

  struct Deadline {
    TimePoint at;
    store::RunKey run;
    std::string op;
    std::uint32_t attempt;

    bool operator>(const Deadline& other) const { return at > other.at; }
  };

  // loop.cpp
  void go_on(Batch::Continuation& continuation, store::Answer& answer);
  void fail(Batch& batch, const base::Fault& fault);
  void submit_entry(store::AdvanceRun command, const RunPtr& run, journal::Entry entry,
                    std::function<void(bool)> written);
  void submit(store::Command command, std::function<void(store::Answer&)> answered,
              std::function<void(const base::Fault&)> failed = {});
  void lose_store(const base::Fault& fault);
  void drop(const RunPtr& run);
  void over(store::RunKey key, const detail::RunEnd& end);
  void notify_watchers(store::RunKey key, const detail::RunEnd& end);
  store::RunKey new_key();
  void top_up_keys();
  RunPtr live(store::RunKey key) const;
  void settle_memory(const RunPtr& run);
  void evict_over_budget();
  std::unique_ptr<Frame> new_frame() const;
  void check_by_replay(const RunPtr& run);

  // loop_log.cpp: what the log is told
  bool tells(LogLevel level) const { return level >= options_.log_level; }

  void tell(LogLevel level, std::string_view name, const RunNames& run, std::string message,
            std::vector<LogField> more = {});
  void tell_end(const LiveRun& run, const detail::RunEnd& end);
  void tell_failed_attempt(const LiveRun& run, const journal::Arrival& arrival,
                           std::optional<TimePoint> again_at);

  // loop_partitions.cpp: which runs are this node's
  void own(const std::vector<store::Gained>& gained);
  void tell_share(const char* change, std::size_t count);
  void disown_all();
  void keep();
  bool owns(std::int32_t partition) const;
  std::int32_t home(store::RunKey key) const;
  void add_live(const RunPtr& run);
  void give_up_surplus(std::int64_t count);

  bool is_draining(const LiveRun& run) const { return draining_.contains(run.partition); }

  void go_on_draining();
  void take_back(std::int32_t partition);
  void begin_attempts(const RunPtr& run);
  void watch_afar(store::RunKey key);
  void find_ended();
  void tell_ended(std::vector<store::RunKey> keys, std::function<void()> then);
  void await_worker(const store::RunRecord& run);
  void move_stranded();

  // loop_drive.cpp: entries of live runs
  void transition(const RunPtr& run, journal::Arrival arrival, EntryExtra extra = {});
  std::optional<journal::Entry> go_on_with(const RunPtr& run, journal::Arrival arrival);
  void write(const RunPtr& run, journal::Entry entry, EntryExtra extra = {});
  bool is_full(const LiveRun& run) const;
  store::AdvanceRun prepare(const RunPtr& run, journal::Entry& entry);
  store::Changes apply_entry(LiveRun& run, const journal::Entry& entry,
                             const std::vector<detail::ChildSpec>& children);
  void entry_committed(const RunPtr& run, const journal::Entry& entry, store::Answer& answer);
  void read_anew(const RunPtr& run);
  void after_commit(const RunPtr& run, const journal::Entry& entry, store::Effects& effects);
  void apply_outcomes(const RunPtr& run, const std::vector<std::string>& outcomes);
  void run_effects(const store::Effects& effects);
  void count_end(RunStatus status);
  void settle(const RunPtr& run);
  void release(const RunPtr& run, const journal::Entry& entry);
  void run_deferred(const RunPtr& run);
  void when_ready(const RunPtr& run, std::function<void()> action);
  void continue_with(const RunPtr& run, std::vector<journal::Request> requests);
  store::NewRun new_run(StartInput input);
  store::NewRun child_run(const LiveRun& parent, const detail::ChildSpec& spec);
  void fail_run(const RunPtr& run, journal::ArrivalKind kind, journal::Failure failure);
  void read_inbox(store::RunKey key);
  void take_inbox(const RunPtr& run, const std::vector<store::InboxItem>& items);

  // loop_hooks.cpp
  /// A run that has gone on with a payload before anybody knows whether it is taken in.
  struct Ahead {
    RunPtr run;
    journal::Entry entry;
  };

  std::optional<Ahead> run_ahead(store::Deliver& deliver);
  void delivered(const std::string& token, store::Answer& answer, const Reply<DeliverReply>& reply,
                 const std::optional<Ahead>& ahead);
  void listen(LiveRun& run);
  void stop_listening(LiveRun& run);
  void take_payloads(const RunPtr& run, const std::vector<store::PayloadItem>& items);

  // loop_transact.cpp
  std::string transaction_of(const LiveRun& run, const journal::Entry& entry) const;
  void follow_up(const store::Effects& effects);
  void transact_step(const RunPtr& run, const std::string& op);
  void step_transacted(const RunPtr& run, const std::string& op, std::uint32_t attempt,
                       store::Answer& answer);

  // loop_steps.cpp
  void begin_attempt(const RunPtr& run, const std::string& op);
  void hand_out(const RunPtr& run, const std::string& op);
  void attempt_over(const RunPtr& run, const std::string& op, std::uint32_t attempt,
                    StepOutcome outcome);
  void write_attempt(const RunPtr& run, const std::string& op, std::uint32_t attempt,
                     StepOutcome& outcome);
  void release_left_hooks(const RunPtr& run);
  void add_deadline(Deadline deadline);
  void expire_bodies();
  std::chrono::nanoseconds backoff(const Retry& retry, std::uint32_t failures);

  // loop_recovery.cpp
  struct Loaded;
  void load(store::RunKey key, std::function<void(const RunPtr&)> then = {});
  void activate(store::RunLoaded loaded);
  void recover(const std::shared_ptr<Loaded>& loaded, bool counted);
  void resume(const std::shared_ptr<Loaded>& loaded);
  /// `next`: where the run's next entry would go, as it was judged.
  void mark(store::RunKey key, const RunNames& names, journal::Seq next, store::Status status,
            journal::Failure reason);
  void find_work(store::RunKey after);
  void finish_loading(store::RunKey key, const RunPtr& run);
  void next_suspect();
  void suspect_progress(store::RunKey key, bool over);
  void note_rest(const RunPtr& run);
  std::vector<journal::Lost> lost_here(const LiveRun& run) const;

  // loop_timers.cpp
  void find_due();
  void sweep();
  void timers_due(store::TimersDue& due);
  void fire_due(const RunPtr& run);
  void expect_timers(const LiveRun& run);
  void note_timer(TimePoint due);

  // loop_steer.cpp
  void with_run(std::string workspace, std::string id, std::function<void(store::RunLoaded*)> found,
                std::function<void(const base::Fault&)> failed);
  void reopen(const store::RunLoaded& loaded, const Reply<std::monostate>& reply);
  void fork_from(const store::RunLoaded& loaded, std::uint64_t seq,
                 const Reply<std::string>& reply);

  const Registry& registry_;
  base::Random& random_;
  Host& host_;
  LoopOptions options_;
  base::IdSource ids_;
  LoopCounters counters_;
  base::ShapeChecker shapes_;
  TimePoint now_{};

  Batch outgoing_;
  Batch spare_;  ///< empty, with the room of one that has been through
  bool opened_ = false;
  std::vector<std::function<void()>>
      before_open_;  ///< starts that came before there were keys for them
  bool lost_ = false;
  bool workers_ = false;
  bool stopping_ = false;

  store::RunKey next_key_ = 0;
  store::RunKey keys_end_ = 0;
  bool reserving_ = false;
  std::optional<std::pair<store::RunKey, store::RunKey>> spare_keys_;

  std::unordered_map<store::RunKey, RunPtr> live_;
  std::unordered_map<store::RunKey, std::vector<std::function<void(const RunPtr&)>>> loading_;
  Bodies bodies_;
  std::vector<HeldResult> held_;
  /// Of bodies, and for a while of some that have come back.
  std::priority_queue<Deadline, std::vector<Deadline>, std::greater<>> deadlines_;
  std::unordered_map<store::RunKey, std::vector<Watcher>> watchers_;

  /// Runs that this program cannot drive.
  struct Stranded {
    std::unordered_set<store::RunKey> runs;
    bool asked = false;  ///< since the lease was last renewed: no other node can, either
  };

  /// By workflow and version.
  std::map<std::pair<std::string, std::int32_t>, Stranded> without_worker_;
  /// Runs at rest that await a payload, by workspace and token. A hint: the store decides who gets it.
  std::unordered_map<std::uint64_t, store::RunKey> listeners_;

  std::list<LiveRun*> idle_;  ///< least recently used first
  std::size_t frame_bytes_ = 0;

  std::optional<TimePoint> next_due_;
  bool finding_due_ = false;
  std::optional<TimePoint> next_sweep_;
  std::uint64_t commands_at_sweep_ = 0;  ///< how many there had been then
  std::optional<TimePoint>
      well_at_;  ///< when this process has lived long enough to be no part of a crash loop

  /// The partitions whose runs are ours. Where the owner before crashed, attempts that it lost count; where several did in a
  /// row, everything is counted before it runs.
  std::map<std::int32_t, store::Gained> owned_;
  std::set<std::int32_t> owned_before_;  ///< when the store was lost
  std::vector<std::int32_t> homes_;      ///< where new runs go: those of `owned_` that are to stay
  std::map<std::int32_t, std::size_t> live_in_;  ///< live runs, where there are any
  /// No attempt begins there any more, and runs go from memory when they rest; by then, or it is taken back.
  std::map<std::int32_t, TimePoint> draining_;
  std::chrono::nanoseconds lease_{0};  ///< 0: the partitions are for keeps
  std::int64_t nodes_ = 1;
  bool told_workflows_ = false;  ///< to the others: what this node can drive
  bool keeping_ = false;
  std::optional<TimePoint> next_keep_;
  std::chrono::nanoseconds keep_after_{0};
  std::unordered_set<store::RunKey> afar_;  ///< runs of others that somebody here waits for
  bool finding_ended_ = false;
  std::optional<TimePoint> next_look_afar_;

  std::unordered_set<store::RunKey>
      uncounted_;  ///< were live when the store was lost: not the fault of a crash
  std::unordered_set<store::RunKey> counted_;      ///< counted once in this life already
  std::unordered_set<store::RunKey> just_opened_;  ///< retried or forked and not resumed yet
  std::deque<std::function<void()>> suspects_;
  std::optional<store::RunKey> suspect_;
  TimePoint suspect_since_{};
};

}  // namespace semel::engine
