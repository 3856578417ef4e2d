// The store as plain maps: the executable specification. Real stores are compared with it, command by command. Written to
// be read, not to be fast; it never fails and nothing in it is durable.
#pragma once

#include "store/store.hpp"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace semel::store {

/// What a store remembers. Shared by the stores opened over it one after the other, and by their readers.
struct Model {
  struct Run {
    NewRun made;
    Status status = Status::pending;
    bool holds_key = false;
    std::string output;
    base::Rare<journal::Failure> failure;
    std::optional<TimePoint> ended_at;
    std::optional<TimePoint> key_until;   ///< finished, with a key: then it is free
    std::optional<TimePoint> keep_until;  ///< finished: then it is swept
    std::vector<std::pair<TimePoint, std::string>> entries;
    std::map<std::string, std::string> attributes;
    std::string input;  ///< of this generation
    std::uint32_t generation = 0;
    Seq first_seq = 0;
  };

  struct Hook {
    RunKey run = 0;
    HookClaim claim;
    TimePoint since{};
    bool active = true;
    bool at_end = false;  ///< its run failed with it: a retry takes it again
    bool fed = false;     ///< its run was started with payloads waiting and has read none
  };

  struct Payload {
    std::int64_t hook = 0;
    std::string value;
    TimePoint at{};
    bool checked = false;
    bool or_start = false;        ///< of ResumeOrStart
    std::optional<NewRun> start;  ///< the run it would start; none once it did
  };

  struct Receipt {
    std::string fingerprint;
    Delivered answer;
    TimePoint until{};
  };

  struct Reservation {
    Reserve made;
    Fence fence = 0;
    ReservationState state = ReservationState::in_progress;
    TimePoint lease_until{};
    TimePoint expires_at{};
    TimePoint sweep_at{};  ///< when the sweep takes it; not before it has expired
    std::string answer;
  };

  struct Item {
    RunKey run = 0;
    InboxItem item;
  };

  using Operation = std::pair<RunKey, std::string>;

  std::map<RunKey, Run> runs;
  std::map<RunKey, std::int64_t> garbage;  ///< runs that are gone, and how many entries they left
  std::map<std::tuple<RunKey, TimerKind, std::string>, TimePoint> timers;
  std::map<std::int64_t, Item> inbox;
  std::map<Operation, RunKey> waits;  ///< which run an operation waits for
  std::map<Operation, std::string> progress;
  std::map<std::int64_t, Hook> hooks;
  std::map<std::int64_t, Payload> payloads;
  std::map<std::tuple<std::string, std::string, std::string>, Receipt>
      receipts;  ///< by workspace, token and resume id
  std::map<ReservationId, Reservation> reservations;
  Fence next_fence = 1;
  std::int64_t next_hook = 1;
  std::int64_t next_payload = 1;
  RunKey next_key = 1;
  std::int64_t next_item = 1;
  bool open = false;
  bool well = false;
  std::int32_t crashes = 0;
};

/// Executes the commands about reservations.
class ModelReservations {
 public:
  explicit ModelReservations(Model& model) : model_(model) {}

  Answer answer(const Reserve& command);
  Answer answer(const Complete& command);
  Answer answer(const Release& command);
  Answer answer(const Renew& command);
  Answer answer(const Forget& command);
  Answer answer(const FindReservation& command) const;
  std::int64_t sweep(TimePoint now, std::int64_t limit);

 private:
  Model::Reservation* find(const ReservationId& id, TimePoint now) const;
  Model::Reservation* held(const ReservationId& id, Fence fence, TimePoint now) const;
  Acquired acquire(const Reserve& command, bool taken_over);

  Model& model_;
};

/// The row as a store shows it.
RunRecord record_of(const Model::Run& run);

std::unique_ptr<Store> make_model_store(std::shared_ptr<Model> model);
std::unique_ptr<Reader> make_model_reader(std::shared_ptr<Model> model);

}  // namespace semel::store
