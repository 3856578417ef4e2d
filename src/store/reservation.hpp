// Reservations: who may do the work of an idempotency key, and what came of it. Commands and answers of the store.
//
// A reservation is found by workspace, namespace, scope and key. Whoever acquires it gets a fence, a number nobody ever
// gets again; completing, releasing and renewing carry it, so that an owner that lost its lease cannot write. It counts
// for nothing from `expires_at` on, whether it was swept or not; all time comes in the commands.
#pragma once

#include <semel/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace semel::store {

/// Grows with every acquisition, over releases, expiry and reopening.
using Fence = std::int64_t;

/// What a reservation is found by.
struct ReservationId {
  std::string workspace = "default";
  std::string ns;
  std::string scope;  ///< canonical text: equal scopes have equal texts
  std::string key;

  auto operator<=>(const ReservationId&) const = default;
};

struct ReservationIdHash {
  std::size_t operator()(const ReservationId& id) const;
};

/// Stored as these numbers: never reuse one.
enum class ReservationState : std::uint8_t {
  in_progress = 0,
  completed = 1,
  not_retained =
      2,        ///< done, but its answer was not kept; what is stored in its place may say more
  unknown = 3,  ///< nobody knows whether it was done
};

/// What becomes of a reservation whose lease ran out. Stored as these numbers.
enum class OnAbandoned : std::uint8_t {
  run = 0,  ///< the next to ask takes it over
  unknown =
      1,  ///< whoever asks is told that the outcome is unknown, until it expires or is forgotten
};

/// Asks to do the work of a key. The fingerprint is compared before anything else is looked at. Answers `Acquired`,
/// `Replay`, `InProgress`, `KeyReused` or `OutcomeUnknown`; where the key `is_claimed` and was forgotten since, `FenceLost`.
struct Reserve {
  ReservationId id;
  std::string fingerprint;  ///< compared byte by byte; empty is a fingerprint like any other
  /// Whose it is, where that survives a crash (a step's id): asking again for its own unfinished reservation it gets it,
  /// with a new fence. Empty: nobody's in particular.
  std::string owner;
  std::chrono::nanoseconds lease{std::chrono::seconds{30}};
  std::chrono::nanoseconds ttl{
      std::chrono::hours{24}};  ///< from completion, or from the end of an abandoned lease
  OnAbandoned on_abandoned = OnAbandoned::run;

  /// What came of the work.
  struct Outcome {
    ReservationState state = ReservationState::completed;  ///< completed or not_retained
    std::string answer;
  };

  /// Of work that is done already. Where the asker acquires the key it is finished in the same step: reserved and completed.
  std::optional<Outcome> outcome{};
  /// The asker has claimed the key in memory, which keeps all others from it: see key_claims.hpp.
  bool is_claimed = false;
  TimePoint now{};
};

/// The work is done: `answer` is what is replayed from here on. Also where the lease is over, if nobody took it. Answers
/// `Done`, or `FenceLost`: then nothing changed. The same again is `Done`.
struct Complete {
  ReservationId id;
  Fence fence = 0;
  ReservationState state = ReservationState::completed;  ///< any but in_progress
  std::string answer;
  TimePoint now{};
};

/// The work was not done: the key is free. Answers `Done`, or `FenceLost`: then nothing changed.
struct Release {
  ReservationId id;
  Fence fence = 0;
  TimePoint now{};
};

/// The work goes on: the lease ends no earlier than `lease` from now. Answers `Done` or `FenceLost`.
struct Renew {
  ReservationId id;
  Fence fence = 0;
  std::chrono::nanoseconds lease{std::chrono::seconds{30}};
  TimePoint now{};
};

/// The key is as if never used. One somebody is at work on only with `force`, which fences that owner. Answers `Done`,
/// `InProgress` (nothing changed) or `ReservationMissing`.
struct Forget {
  ReservationId id;
  bool force = false;
  TimePoint now{};
};

/// Looks without touching: answers `ReservationFound` or `ReservationMissing`.
struct FindReservation {
  ReservationId id;
  TimePoint now{};
};

// ------------------------------------------------------------------------------------------------ answers

/// The asker is to do the work.
struct Acquired {
  Fence fence = 0;
  bool taken_over =
      false;  ///< from an owner whose lease ran out, or from the asker's own earlier try
  TimePoint lease_until{};
};

/// The work was done.
struct Replay {
  ReservationState state = ReservationState::completed;  ///< or not_retained
  std::string answer;
  TimePoint expires_at{};
};

/// Somebody is at work.
struct InProgress {
  TimePoint lease_until{};
};

/// The key was used with another fingerprint. The reservation is untouched.
struct KeyReused {};

/// The work was begun, and nobody knows what came of it.
struct OutcomeUnknown {
  TimePoint expires_at{};
};

/// The fence is not that of an unfinished reservation of this id: somebody took over, or it is finished, forgotten or
/// expired.
struct FenceLost {};

/// A reservation as it is now.
struct ReservationRecord {
  ReservationState state =
      ReservationState::in_progress;  ///< unknown also where it was abandoned as such
  std::string fingerprint;
  std::string owner;
  Fence fence = 0;
  TimePoint lease_until{};  ///< while in progress
  TimePoint expires_at{};
  std::string answer;
};

struct ReservationFound {
  ReservationRecord reservation;
};

struct ReservationMissing {};

}  // namespace semel::store
