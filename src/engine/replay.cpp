#include "engine/replay.hpp"

#include <algorithm>

namespace semel::engine {

using journal::ArrivalKind;
using journal::Record;

namespace {

/// Carries requests of its own that follow from its own arrival. Not a `woken` without any: that may have been written
/// without the code having gone on, and is then followed by what it asked for, as a note is.
bool is_transition(const Record& record) {
  const ArrivalKind kind = record.entry.arrival.kind;
  if (kind == ArrivalKind::woken && record.entry.requests.empty()) return false;
  return !record.requests_void && !journal::is_note(kind) && kind != ArrivalKind::continued;
}

bool is_continuation(const Record& record) {
  return !record.requests_void && record.entry.arrival.kind == ArrivalKind::continued;
}

class Replay {
 public:
  Replay(Frame& frame, std::span<const Record> records, TimePoint now)
      : frame_(frame), records_(records), now_(now) {}

  void run() {
    for (position_ = 0; position_ < records_.size() && !frame_.divergence(); ++position_)
      step(records_[position_]);
  }

  journal::RunState take_state() { return std::move(state_); }

 private:
  void step(const Record& record) {
    if (is_transition(record)) {
      frame_.expect(record.entry.requests);
      deliver(record);
      frame_.expect_no_more();
    } else if (is_continuation(record)) {
      if (!expecting_continuation_) frame_.expect(record.entry.requests);
      frame_.expect_no_more();
      expecting_continuation_ = false;
    } else {
      deliver_note(record);
    }
    if (record.arrival_void || record.requests_void) {
      state_.apply(visible(record));
    } else {
      state_.apply(record.entry);
    }
  }

  /// What the code asks for behind a note was recorded in the `continued` entry that follows, if it asked for anything
  /// and got to write it; where a transition follows instead, it asked for nothing.
  void deliver_note(const Record& record) {
    if (expecting_continuation_) {
      deliver(record);
      return;
    }
    const auto later = records_.subspan(position_ + 1);
    const auto next = std::ranges::find_if(later, [](const Record& candidate) {
      return is_transition(candidate) || is_continuation(candidate);
    });
    if (next == later.end()) {
      deliver(record);
    } else if (is_continuation(*next)) {
      expecting_continuation_ = true;
      frame_.expect(next->entry.requests);
      deliver(record);
    } else {
      frame_.expect({});
      deliver(record);
      frame_.expect_no_more();
    }
  }

  void deliver(const Record& record) {
    if (!record.arrival_void) frame_.deliver(record.entry.arrival, state_, now_);
  }

  static journal::Entry visible(const Record& record) {
    return {record.arrival_void ? journal::Arrival{} : record.entry.arrival,
            record.requests_void ? std::vector<journal::Request>{} : record.entry.requests};
  }

  Frame& frame_;
  std::span<const Record> records_;
  TimePoint now_;
  journal::RunState state_;
  std::size_t position_ = 0;
  bool expecting_continuation_ = false;
};

}  // namespace

std::variant<Replayed, Divergence> replay(std::unique_ptr<Frame> frame,
                                          const detail::WorkflowType& type, std::string_view input,
                                          std::span<const Record> records, TimePoint now) {
  try {
    frame->create(type, input);
  } catch (...) {
    return Divergence{"the arguments the run was started with",
                      detail::describe(std::current_exception()).message};
  }
  for (const Record& record : records) {
    if (record.requests_void) continue;
    for (const journal::Request& request : record.entry.requests) {
      if (request.kind == journal::RequestKind::version) {
        frame->recall_version(request.name, static_cast<int>(request.attempt));
      } else if (request.kind == journal::RequestKind::hook_release) {
        frame->recall_release(request.op);
      }
    }
  }
  Replay replay(*frame, records, now);
  replay.run();
  if (frame->divergence()) return *frame->divergence();
  Replayed done{std::move(frame), replay.take_state(), {}};
  done.fresh = done.frame->take_asked();
  return done;
}

}  // namespace semel::engine
