// Who gets a key or an id that somebody has: the rules, without the store they are decided in.
#pragma once

#include "store/answer.hpp"

#include <optional>
#include <string>
#include <variant>

namespace semel::store {

/// The run that has a key or an id, as far as a newcomer is concerned.
struct Holder {
  RunKey run = 0;
  std::string id;
  Status status = Status::running;
  std::string workflow;
  std::string fingerprint;
  std::optional<TimePoint> until;  ///< of a finished run: from then on its claim counts for nothing
};

/// The newcomer is created once its claims are free: `cancel` (with its children) first, then `remove` (it makes room
/// for the id) or `release` (it keeps its row and loses its key).
struct Create {
  std::optional<RunKey> cancel;
  std::optional<RunKey> remove;
  std::optional<RunKey> release;

  bool operator==(const Create&) const = default;
};

struct HandBack {
  RunKey run = 0;

  bool operator==(const HandBack&) const = default;
};

using StartDecision = std::variant<Create, HandBack, StartRefused>;

/// What becomes of `run` whose key or id (or both) is taken. What is past its time is as good as swept: a key after its
/// `key_ttl`, an id after its run's retention. An id the caller did not choose is never shared, whoever has it.
StartDecision decide_start(const NewRun& run, const std::optional<Holder>& key_holder,
                           const std::optional<Holder>& id_holder);

}  // namespace semel::store
