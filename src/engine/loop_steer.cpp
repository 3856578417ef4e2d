// An operator's calls: cancel, retry, fork, wake, and waiting for a result.
#include "base/clock.hpp"
#include "engine/loop.hpp"
#include "engine/steering.hpp"

#include <algorithm>

namespace semel::engine {

using journal::Arrival;
using journal::ArrivalKind;
using journal::Operation;
using journal::Record;
using journal::RequestKind;
using store::Answer;
using store::RunKey;
using store::Status;
using store::Timer;
using store::TimerKind;

namespace {

Refusal unavailable(const base::Fault& fault) { return {"STORE_UNAVAILABLE", fault.message, ""}; }

template <class T>
std::function<void(const base::Fault&)> refuse_on_fault(const Reply<T>& reply) {
  return [reply](const base::Fault& fault) { reply(unavailable(fault)); };
}

/// Answers once and for certain: where everything that could have answered is gone, with a refusal.
template <class T>
class SureReply {
 public:
  SureReply(Reply<T> reply, Refusal otherwise)
      : reply_(std::move(reply)), otherwise_(std::move(otherwise)) {}

  SureReply(const SureReply&) = delete;
  SureReply& operator=(const SureReply&) = delete;

  ~SureReply() {
    if (reply_) reply_(std::move(otherwise_));
  }

  void operator()(std::variant<T, Refusal> answer) {
    if (auto reply = std::exchange(reply_, nullptr)) reply(std::move(answer));
  }

 private:
  Reply<T> reply_;
  Refusal otherwise_;
};

}  // namespace

std::optional<detail::RunEnd> end_of(const store::RunRecord& run) {
  const bool goes_on =
      !store::is_end(run.status) && run.status != Status::dead && run.status != Status::diverged;
  if (goes_on) return std::nullopt;
  return detail::RunEnd{static_cast<RunStatus>(run.status), run.output,
                        run.failure.value_or(journal::Failure{})};
}

void Loop::with_run(std::string workspace, std::string id,
                    std::function<void(store::RunLoaded*)> found,
                    std::function<void(const base::Fault&)> failed) {
  submit(
      store::FindRun{std::move(workspace), std::move(id)},
      [found = std::move(found)](Answer& answer) { found(std::get_if<store::RunLoaded>(&answer)); },
      std::move(failed));
}

void Loop::cancel(std::string workspace, const std::string& id, CancelOptions options,
                  const Reply<std::monostate>& reply, TimePoint now) {
  now_ = now;
  store::CancelRun command;
  command.workspace = std::move(workspace);
  command.id = id;
  command.expected_version = options.expected_version;
  command.now = now_;
  if (options.grace) command.grace_until = now_ + base::bounded(*options.grace);
  submit(
      std::move(command),
      [this, id, reply](Answer& answer) {
        if (auto* cancelled = std::get_if<store::Cancelled>(&answer)) {
          reply(std::monostate{});
          if (cancelled->run.ended_at == now_) {
            count_end(RunStatus::cancelled);
            if (tells(LogLevel::debug))
              tell(LogLevel::debug, "run.cancelled", names_of(cancelled->run),
                   "a run was cancelled");
          }
          if (const auto end = end_of(cancelled->run)) over(cancelled->run.key, *end);
          run_effects(cancelled->effects);
        } else if (std::holds_alternative<store::RunMissing>(answer)) {
          reply(not_found(id));
        } else if (auto* finished = std::get_if<store::NotActive>(&answer)) {
          reply(not_active(finished->run));
        } else {
          reply(moved_on(id));
        }
      },
      refuse_on_fault(reply));
}

/// Whoever asks again and again, each time for a while, must not be remembered each time.
void Loop::add_watcher(RunKey key, Watcher watcher) {
  auto& watchers = watchers_[key];
  std::erase_if(watchers, [](const Watcher& each) { return each.is_gone(); });
  watchers.push_back(std::move(watcher));
}

std::size_t Loop::watchers() const {
  std::size_t count = 0;
  for (const auto& [key, watchers] : watchers_) count += watchers.size();
  return count;
}

void Loop::watch(std::string workspace, const std::string& id, const Reply<detail::RunEnd>& reply,
                 RunKey key, const std::optional<std::weak_ptr<const void>>& caller) {
  const RunPtr run = live(key);
  if (run && !stopping_ && run->id == id && run->workspace == workspace) {
    add_watcher(key, {reply, caller});
    return;
  }
  with_run(
      std::move(workspace), id,
      [this, id, reply, caller](store::RunLoaded* found) {
        if (found == nullptr) {
          reply(not_found(id));
        } else if (auto end = end_of(found->run)) {
          reply(*std::move(end));
        } else if (stopping_) {
          reply(Refusal{"ENGINE_STOPPED", "the engine is being stopped", id});
        } else {
          add_watcher(found->run.key, {reply, caller});
          if (!owns(found->run.partition)) watch_afar(found->run.key);
        }
      },
      refuse_on_fault(reply));
}

void Loop::wake(std::string workspace, const std::string& id, RunOptions options, Reply<int> reply,
                TimePoint now) {
  now_ = now;
  // The run may be dropped at any point on the way, and whatever was to happen next with it.
  auto answer = std::make_shared<SureReply<int>>(std::move(reply), moved_on(id));
  const auto end_sleeps = [this, answer, expected = options.expected_version](const RunPtr& run) {
    if (!run) {
      (*answer)(0);
      return;
    }
    when_ready(run, [this, run, answer, expected] {
      if (run->state.is_over()) return;
      if (expected && run->state.next != *expected + 1) return;  // it moved on since it was found
      Arrival arrival;
      arrival.kind = ArrivalKind::woken;
      for (const Operation& operation : run->state.pending) {
        if (operation.kind == RequestKind::sleep) arrival.ops.push_back({operation.op, 0});
      }
      const int count = static_cast<int>(arrival.ops.size());
      if (count == 0) {
        (*answer)(0);
        return;
      }
      transition(run, std::move(arrival), {.written = [answer, count](bool durable) {
                   if (durable) (*answer)(count);
                 }});
    });
  };
  with_run(
      std::move(workspace), id,
      [this, id, options, answer, end_sleeps](store::RunLoaded* found) {
        if (found == nullptr) {
          (*answer)(not_found(id));
        } else if (!is_at(found->run, options.expected_version)) {
          (*answer)(moved_on(id));
        } else if (store::is_end(found->run.status)) {
          (*answer)(Refusal{"RUN_NOT_ACTIVE", "run " + id + " is over", id});
        } else if (found->run.status == Status::pending || !workers_) {
          (*answer)(0);  // it does not sleep, it has not begun; or nothing runs yet
        } else {
          load(found->run.key, end_sleeps);
        }
      },
      [answer](const base::Fault& fault) { (*answer)(unavailable(fault)); });
}

void Loop::retry(std::string workspace, const std::string& id, RunOptions options,
                 const Reply<std::monostate>& reply, TimePoint now) {
  now_ = now;
  with_run(
      std::move(workspace), id,
      [this, id, options, reply](store::RunLoaded* found) {
        if (found == nullptr) {
          reply(not_found(id));
          return;
        }
        if (!is_at(found->run, options.expected_version)) {
          reply(moved_on(id));
        } else if (auto refusal = refuse_retry(found->run)) {
          reply(*std::move(refusal));
        } else {
          submit(
              store::LoadRun{found->run.key},
              [this, id, options, reply](Answer& answer) {
                auto* loaded = std::get_if<store::RunLoaded>(&answer);
                if (loaded == nullptr) {
                  reply(not_found(id));
                } else if (!is_at(loaded->run, options.expected_version)) {
                  reply(moved_on(id));
                } else {
                  reopen(*loaded, reply);
                }
              },
              refuse_on_fault(reply));
        }
      },
      refuse_on_fault(reply));
}

void Loop::reopen(const store::RunLoaded& loaded, const Reply<std::monostate>& reply) {
  auto made = reopening(loaded, now_);
  if (auto* refusal = std::get_if<Refusal>(&made)) {
    reply(std::move(*refusal));
    return;
  }
  auto& command = std::get<store::ReopenRun>(made);
  for (const Timer& timer : command.changes.timers_set) note_timer(timer.due);
  submit(
      std::move(command),
      [this, key = loaded.run.key, id = loaded.run.id, reply](Answer& answer) {
        if (auto* advanced = std::get_if<store::Advanced>(&answer)) {
          reply(std::monostate{});
          run_effects(advanced->effects);
          if (!workers_) return;
          just_opened_.insert(key);
          load(key);
        } else if (auto* refused = std::get_if<store::StartRefused>(&answer)) {
          reply(refusal_of(*refused));
        } else {
          reply(moved_on(id));
        }
      },
      refuse_on_fault(reply));
}

void Loop::fork(std::string workspace, const std::string& id, std::uint64_t seq, RunOptions options,
                const Reply<std::string>& reply, TimePoint now) {
  now_ = now;
  with_run(
      std::move(workspace), id,
      [this, id, seq, options, reply](store::RunLoaded* found) {
        if (found == nullptr) {
          reply(not_found(id));
        } else if (!is_at(found->run, options.expected_version)) {
          reply(moved_on(id));
        } else {
          submit(
              store::LoadRun{found->run.key},
              [this, id, seq, options, reply](Answer& answer) {
                auto* loaded = std::get_if<store::RunLoaded>(&answer);
                if (loaded == nullptr) {
                  reply(not_found(id));
                } else if (!is_at(loaded->run, options.expected_version)) {
                  reply(moved_on(id));
                } else {
                  fork_from(*loaded, seq, reply);
                }
              },
              refuse_on_fault(reply));
        }
      },
      refuse_on_fault(reply));
}

void Loop::fork_from(const store::RunLoaded& loaded, std::uint64_t seq,
                     const Reply<std::string>& reply) {
  StartInput input{loaded.run.workspace, loaded.run.workflow, loaded.run.input, {}, {}};
  auto made = forking(loaded, seq, new_run(std::move(input)), now_);
  if (auto* refusal = std::get_if<Refusal>(&made)) {
    reply(std::move(*refusal));
    return;
  }
  auto& [start, rest] = std::get<Forking>(made);
  for (const Timer& timer : rest.changes.timers_set) note_timer(timer.due);
  const RunKey key = start.run.key;
  const std::string id = start.run.id;
  // Two commands of one batch: one transaction.
  auto refused = std::make_shared<std::optional<Refusal>>();
  submit(std::move(start), [refused](Answer& answer) {
    if (const auto* why = std::get_if<store::StartRefused>(&answer)) *refused = refusal_of(*why);
  });
  submit(
      std::move(rest),
      [this, key, id, refused, reply](Answer& answer) {
        if (*refused) {
          reply(**refused);
          return;
        }
        reply(id);
        run_effects(std::get<store::Advanced>(answer).effects);
        if (!workers_) return;
        just_opened_.insert(key);
        load(key);
      },
      refuse_on_fault(reply));
}

}  // namespace semel::engine
