#include "store/postgres/hinting.hpp"

namespace semel::store::postgres {

namespace {

class Hinting {
 public:
  explicit Hinting(Held& held) : held_(held) {}

  /// True if the run is somebody else's, who gets a hint.
  bool hint(RunKey run, HintKind kind) {
    const RunRow* row = held_.runs.find(run);
    // What is not there any more is nobody's.
    if (row == nullptr || held_.known.owned.has(row->partition)) return false;
    held_.hints.push_back({run, row->partition, kind});
    return true;
  }

  void take_out(std::vector<RunKey>& runs, HintKind kind) {
    std::erase_if(runs, [&](RunKey run) { return hint(run, kind); });
  }

  void split(Effects& effects) {
    take_out(effects.wake, HintKind::got_something);
    take_out(effects.created, HintKind::is_new);
    take_out(effects.opened, HintKind::goes_on_again);
    take_out(effects.moved, HintKind::got_entry);
    // Whoever waits for their end may be here.
    for (const RunKey run : effects.ended) hint(run, HintKind::is_over);
  }

 private:
  Held& held_;
};

}  // namespace

void leave_hints(Held& held, const Command& command, Answer& answer) {
  if (held.known.owned.is_all) return;
  Hinting hinting{held};
  if (auto* started = std::get_if<RunStarted>(&answer)) {
    hinting.split(started->effects);
    hinting.hint(std::get<StartRun>(command).run.key, HintKind::is_new);
  } else if (auto* advanced = std::get_if<Advanced>(&answer)) {
    hinting.split(advanced->effects);
    if (const auto* reopened = std::get_if<ReopenRun>(&command))
      hinting.hint(reopened->run, HintKind::goes_on_again);
  } else if (auto* cancelled = std::get_if<Cancelled>(&answer)) {
    hinting.split(cancelled->effects);
    if (is_end(cancelled->run.status)) hinting.hint(cancelled->run.key, HintKind::is_over);
  } else if (auto* delivered = std::get_if<Delivered>(&answer)) {
    hinting.split(delivered->effects);
  } else if (auto* transacted = std::get_if<Transacted>(&answer)) {
    hinting.split(transacted->effects);
  }
}

void hint_later_start(Held& held, const Command& command, const Answer& answer) {
  const auto* start = std::get_if<StartRun>(&command);
  if (held.known.owned.is_all || start == nullptr || !start->run.start_at) return;
  if (std::holds_alternative<RunStarted>(answer))
    Hinting{held}.hint(start->run.key, HintKind::is_new);
}

}  // namespace semel::store::postgres
