// What a run remembers. A run is the fold of its journal; an entry is one row of it: what arrived and what the
// workflow then asked for. docs/journal-format.md describes the bytes.
//
// Two sorts of entries:
//  - a *transition* (started, step_completed, timer_fired, …) was written by the run's owner after the workflow's
//    code went on from the arrival; its requests are what the code asked for;
//  - a *note* (attempt_failed, outcome, recovered, …) changes the state and carries no requests. Where a note lets
//    the code go on (an outcome that only the store could decide), the requests follow in a `continued` entry.
#pragma once

#include "base/rare.hpp"
#include "base/result.hpp"

#include <semel/detail/failure.hpp>
#include <semel/error.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace semel::journal {

/// Position in one run's journal; the first entry is 0. A run's version is the position of its last entry.
using Seq = std::uint64_t;

/// Numbers are part of the stored format: never reuse one.
enum class ArrivalKind : std::uint8_t {
  continued = 0,       ///< no arrival of its own: the requests that follow from the notes before it
  started = 1,         ///< the first entry
  step_completed = 2,  ///< op, name, attempt, value
  step_failed = 3,     ///< op, name, attempt, failure: the step failed for good
  attempt_failed = 4,  ///< note: op, name, attempt, failure, at = when the next attempt is due
  retry_due = 5,       ///< note: op, name, attempt = the number of the attempt that begins now
  timer_fired = 6,     ///< op
  begun = 7,      ///< note: op, attempt of an at_most_once step whose body begins behind this entry
  recovered = 8,  ///< note: ops whose attempts were lost; counted = it was a crash
  outcome = 9,    ///< note: op, value or failure: what only the store could decide
  result_arrived = 10,    ///< op, value or failure: another run's end, from the inbox
  cancel_requested = 11,  ///< at = when the grace ends
  woken = 12,             ///< ops: sleeps that an operator ended early
  reopened = 13,  ///< note: an operator's retry; at_seq = the end it voids, ops = failures it voids
  forked =
      14,  ///< note: ops whose attempts begin anew in this copy; value = id of the run it was taken from
  cancelled = 15,      ///< the end, written from outside the workflow's code; failure says why
  timed_out = 16,      ///< the end by its deadline; failure says so
  limit_reached = 17,  ///< the end because the journal is full; failure says so
  payload_arrived =
      18,  ///< op = the await it goes to, value or failure, at_seq = the payload's number
};

enum class RequestKind : std::uint8_t {
  step = 1,         ///< op, name, attempt (1), hash of the arguments, at_most_once
  sleep = 2,        ///< op, at
  drop = 3,         ///< op of a sleep or a wait nobody waits for any more (it lost a race)
  abandon = 4,      ///< op of a step nobody waits for any more: asked to stop, not retried
  now = 5,          ///< op, at
  uuid = 6,         ///< op, value
  random = 7,       ///< op, value
  version = 8,      ///< name, attempt = the version chosen; has no op
  attribute = 9,    ///< op, name, value (a JSON string)
  emit = 10,        ///< op, name = stream, value
  child = 11,       ///< op, name = workflow
  spawn = 12,       ///< op, name = workflow
  result_of = 13,   ///< op, name = run id
  completed = 14,   ///< value: the run's result. The last request of a run.
  failed = 15,      ///< failure. The last request of a run.
  cancelled = 16,   ///< failure. The last request of a run that was cancelled with a grace period.
  hook = 17,        ///< op, name = token, value = shape of its payloads, attempt = HookFlag bits
  hook_next = 18,   ///< op, name = the hook's op: the next payload
  hook_try = 19,    ///< op, name = the hook's op: a payload that waits already
  hook_close = 20,  ///< op, name = the hook's op: free the token if no payload waits
  hook_release = 21,     ///< op of a hook that was disposed or went out of scope; found by its op
  continue_as_new = 22,  ///< value: the arguments. The last request of a generation.
};

/// What a `hook` request says besides its token, in `attempt`.
enum HookFlag : std::uint32_t {
  hook_random = 1,   ///< the token was made up; code that asks for one has no name for it
  hook_implied = 2,  ///< asked for by its first await: nobody waits for the registration itself
  hook_webhook = 4,  ///< reachable by the public form
};

using Failure = detail::Failure;

/// An operation whose attempt was lost, and the number the next one gets; 0: it is not run again.
struct Lost {
  std::string op;
  std::uint32_t attempt = 0;

  bool operator==(const Lost&) const = default;
};

struct Arrival {
  ArrivalKind kind = ArrivalKind::continued;
  std::string op;
  std::string name;
  std::uint32_t attempt = 0;
  std::string value;  ///< JSON
  base::Rare<Failure> failure;
  TimePoint at{};
  std::vector<Lost> ops;
  bool counted = false;  ///< recovered: towards the limit of crashes
  /// reopened: the entry whose requests are void, counted from the first of its generation; a payload: its number
  Seq at_seq = 0;

  bool operator==(const Arrival&) const = default;
};

struct Request {
  RequestKind kind = RequestKind::step;
  std::string op;
  std::string name;
  std::string value;  ///< JSON
  TimePoint at{};
  std::uint32_t attempt = 0;
  std::uint64_t hash =
      0;  ///< of a step's arguments; a difference on replay is reported by `verify`, nothing more
  bool at_most_once = false;
  base::Rare<Failure> failure;

  bool operator==(const Request&) const = default;
};

struct Entry {
  Arrival arrival;
  std::vector<Request> requests;

  bool operator==(const Entry&) const = default;
};

/// True for the kinds that never carry requests.
bool is_note(ArrivalKind kind);

/// True if the entry ends its run: by its arrival or by its last request.
bool ends_run(const Entry& entry);

/// True if its last request is to go on as new: what follows is another generation's.
bool ends_generation(const Entry& entry);

/// The words used in the API, the command line and messages.
std::string_view to_string(ArrivalKind kind);
std::string_view to_string(RequestKind kind);

void encode_to(std::string& out, const Entry& entry);
std::string encode(const Entry& entry);

/// `Errc::corrupt` with what is wrong where the bytes are not an entry.
base::Result<Entry> decode(std::string_view bytes);

/// A failure alone, in the bytes it has inside an entry; for what is stored outside a journal.
std::string encode(const Failure& failure);
base::Result<Failure> decode_failure(std::string_view bytes);

}  // namespace semel::journal
