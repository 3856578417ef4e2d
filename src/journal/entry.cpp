// The bytes of an entry, format 1:
//
//   entry   := 0x01 arrival count:varint request*count
//   arrival := kind:byte mask:varint field*      op name attempt value failure at ops counted at_seq
//   request := kind:byte mask:varint field*      op name attempt hash value at failure at_most_once
//   failure := mask:varint field*                code message details name op attempts
//
// A mask has a bit for each field that is not empty, lowest bit first in the order above; absent fields take no room,
// flags are their bit alone. Strings are length:varint bytes; numbers are LEB128 varints, times zigzag varints of
// nanoseconds since 1970; a hash is eight bytes, lowest first, because its bits are evenly spread. Lists are
// count:varint elements. Nothing may follow the last request.
#include "journal/entry.hpp"

#include <array>
#include <cstring>
#include <limits>

namespace semel::journal {

namespace {

constexpr char format_version = 1;

constexpr std::array<std::string_view, 19> arrival_names{
    "continued",      "started",          "step_completed", "step_failed",    "attempt_failed",
    "retry_due",      "timer_fired",      "begun",          "recovered",      "outcome",
    "result_arrived", "cancel_requested", "woken",          "reopened",       "forked",
    "cancelled",      "timed_out",        "limit_reached",  "payload_arrived"};

/// From 1: no request has the number 0.
constexpr std::array<std::string_view, 22> request_names{
    "step",      "sleep",      "drop",         "abandon",        "now",   "uuid",
    "random",    "version",    "attribute",    "emit",           "child", "spawn",
    "result_of", "completed",  "failed",       "cancelled",      "hook",  "hook_next",
    "hook_try",  "hook_close", "hook_release", "continue_as_new"};

enum ArrivalField : std::uint32_t {
  arrival_op = 1 << 0,
  arrival_name = 1 << 1,
  arrival_attempt = 1 << 2,
  arrival_value = 1 << 3,
  arrival_failure = 1 << 4,
  arrival_at = 1 << 5,
  arrival_ops = 1 << 6,
  arrival_counted = 1 << 7,
  arrival_at_seq = 1 << 8,
  arrival_all = (1 << 9) - 1,
};

enum RequestField : std::uint32_t {
  request_op = 1 << 0,
  request_name = 1 << 1,
  request_attempt = 1 << 2,
  request_hash = 1 << 3,
  request_value = 1 << 4,
  request_at = 1 << 5,
  request_failure = 1 << 6,
  request_at_most_once = 1 << 7,
  request_all = (1 << 8) - 1,
};

enum FailureField : std::uint32_t {
  failure_code = 1 << 0,
  failure_message = 1 << 1,
  failure_details = 1 << 2,
  failure_name = 1 << 3,
  failure_op = 1 << 4,
  failure_attempts = 1 << 5,
  failure_all = (1 << 6) - 1,
};

std::int64_t nanoseconds(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::uint32_t bit_if(bool present, std::uint32_t bit) { return present ? bit : 0; }

// ------------------------------------------------------------------------------------------------ writing

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void put_time(std::string& out, TimePoint time) {
  const auto ns = static_cast<std::uint64_t>(nanoseconds(time));
  const std::uint64_t sign = (ns >> 63) != 0 ? ~std::uint64_t{0} : 0;
  put_varint(out, (ns << 1) ^ sign);
}

void put_string(std::string& out, std::string_view text) {
  put_varint(out, text.size());
  out.append(text);
}

void put_hash(std::string& out, std::uint64_t hash) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<char>(hash >> shift));
}

void put_failure(std::string& out, const Failure& failure) {
  const std::uint32_t mask = bit_if(!failure.code.empty(), failure_code) |
                             bit_if(!failure.message.empty(), failure_message) |
                             bit_if(!failure.details.empty(), failure_details) |
                             bit_if(!failure.name.empty(), failure_name) |
                             bit_if(!failure.op.empty(), failure_op) |
                             bit_if(failure.attempts != 0, failure_attempts);
  put_varint(out, mask);
  if (mask & failure_code) put_string(out, failure.code);
  if (mask & failure_message) put_string(out, failure.message);
  if (mask & failure_details) put_string(out, failure.details);
  if (mask & failure_name) put_string(out, failure.name);
  if (mask & failure_op) put_string(out, failure.op);
  if (mask & failure_attempts) put_varint(out, failure.attempts);
}

void put_arrival(std::string& out, const Arrival& arrival) {
  const std::uint32_t mask =
      bit_if(!arrival.op.empty(), arrival_op) | bit_if(!arrival.name.empty(), arrival_name) |
      bit_if(arrival.attempt != 0, arrival_attempt) |
      bit_if(!arrival.value.empty(), arrival_value) |
      bit_if(arrival.failure.has_value(), arrival_failure) |
      bit_if(arrival.at != TimePoint{}, arrival_at) | bit_if(!arrival.ops.empty(), arrival_ops) |
      bit_if(arrival.counted, arrival_counted) | bit_if(arrival.at_seq != 0, arrival_at_seq);
  out.push_back(static_cast<char>(arrival.kind));
  put_varint(out, mask);
  if (mask & arrival_op) put_string(out, arrival.op);
  if (mask & arrival_name) put_string(out, arrival.name);
  if (mask & arrival_attempt) put_varint(out, arrival.attempt);
  if (mask & arrival_value) put_string(out, arrival.value);
  if (mask & arrival_failure) put_failure(out, *arrival.failure);
  if (mask & arrival_at) put_time(out, arrival.at);
  if (mask & arrival_ops) {
    put_varint(out, arrival.ops.size());
    for (const Lost& lost : arrival.ops) {
      put_string(out, lost.op);
      put_varint(out, lost.attempt);
    }
  }
  if (mask & arrival_at_seq) put_varint(out, arrival.at_seq);
}

void put_request(std::string& out, const Request& request) {
  const std::uint32_t mask =
      bit_if(!request.op.empty(), request_op) | bit_if(!request.name.empty(), request_name) |
      bit_if(request.attempt != 0, request_attempt) | bit_if(request.hash != 0, request_hash) |
      bit_if(!request.value.empty(), request_value) |
      bit_if(request.at != TimePoint{}, request_at) |
      bit_if(request.failure.has_value(), request_failure) |
      bit_if(request.at_most_once, request_at_most_once);
  out.push_back(static_cast<char>(request.kind));
  put_varint(out, mask);
  if (mask & request_op) put_string(out, request.op);
  if (mask & request_name) put_string(out, request.name);
  if (mask & request_attempt) put_varint(out, request.attempt);
  if (mask & request_hash) put_hash(out, request.hash);
  if (mask & request_value) put_string(out, request.value);
  if (mask & request_at) put_time(out, request.at);
  if (mask & request_failure) put_failure(out, *request.failure);
}

// ------------------------------------------------------------------------------------------------ reading

/// Reads from the front of `bytes`. What is wrong first is kept; after it everything reads as empty.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes)
      : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool failed() const { return wrong_ != nullptr; }

  const char* wrong() const { return wrong_; }

  std::size_t left() const { return static_cast<std::size_t>(end_ - next_); }

  void fail(const char* what) {
    if (wrong_ == nullptr) wrong_ = what;
    next_ = end_;
  }

  std::uint8_t byte() {
    if (next_ == end_) {
      fail("it ends too early");
      return 0;
    }
    return static_cast<std::uint8_t>(*next_++);
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint64_t low = byte();
      value |= (low & 0x7F) << shift;
      if ((low & 0x80) == 0) {
        if (shift == 63 && low > 1) break;
        return value;
      }
    }
    fail("a number is too large");
    return 0;
  }

  std::uint32_t number32() {
    const std::uint64_t value = varint();
    if (value > std::numeric_limits<std::uint32_t>::max()) fail("a number is too large");
    return static_cast<std::uint32_t>(value);
  }

  std::uint32_t mask(std::uint32_t known) {
    const std::uint32_t value = number32();
    if ((value & ~known) != 0) fail("it has fields this version does not know");
    return value;
  }

  TimePoint time() {
    const std::uint64_t zigzag = varint();
    const std::uint64_t ns = (zigzag >> 1) ^ (~(zigzag & 1) + 1);
    return TimePoint{std::chrono::duration_cast<TimePoint::duration>(
        std::chrono::nanoseconds{static_cast<std::int64_t>(ns)})};
  }

  void string(std::string& out) {
    const std::uint64_t size = varint();
    if (size > left()) return fail("a string is longer than the entry");
    out.assign(next_, static_cast<std::size_t>(size));
    next_ += size;
  }

  std::uint64_t hash() {
    std::uint64_t value = 0;
    if (left() < 8) {
      fail("it ends too early");
      return 0;
    }
    for (int shift = 0; shift < 64; shift += 8)
      value |= std::uint64_t{static_cast<std::uint8_t>(*next_++)} << shift;
    return value;
  }

  /// The length of a list whose elements take at least `bytes_min` each, so that a lie is found at once.
  std::size_t count(std::size_t bytes_min) {
    const std::uint64_t value = varint();
    if (value > left() / bytes_min) {
      fail("a list is longer than the entry");
      return 0;
    }
    return static_cast<std::size_t>(value);
  }

 private:
  const char* next_;
  const char* end_;
  const char* wrong_ = nullptr;
};

void read_failure(Decoder& in, Failure& failure) {
  const std::uint32_t mask = in.mask(failure_all);
  if (mask & failure_code) in.string(failure.code);
  if (mask & failure_message) in.string(failure.message);
  if (mask & failure_details) in.string(failure.details);
  if (mask & failure_name) in.string(failure.name);
  if (mask & failure_op) in.string(failure.op);
  if (mask & failure_attempts) failure.attempts = in.number32();
}

void read_arrival(Decoder& in, Arrival& arrival) {
  const std::uint8_t kind = in.byte();
  if (kind >= arrival_names.size()) return in.fail("its kind is unknown");
  arrival.kind = static_cast<ArrivalKind>(kind);
  const std::uint32_t mask = in.mask(arrival_all);
  if (mask & arrival_op) in.string(arrival.op);
  if (mask & arrival_name) in.string(arrival.name);
  if (mask & arrival_attempt) arrival.attempt = in.number32();
  if (mask & arrival_value) in.string(arrival.value);
  if (mask & arrival_failure) read_failure(in, arrival.failure.emplace());
  if (mask & arrival_at) arrival.at = in.time();
  if (mask & arrival_ops) {
    const std::size_t count = in.count(2);
    for (std::size_t i = 0; i < count && !in.failed(); ++i) {
      Lost& lost = arrival.ops.emplace_back();
      in.string(lost.op);
      lost.attempt = in.number32();
    }
  }
  arrival.counted = (mask & arrival_counted) != 0;
  if (mask & arrival_at_seq) arrival.at_seq = in.varint();
}

void read_request(Decoder& in, Request& request) {
  const std::uint8_t kind = in.byte();
  if (kind == 0 || kind > request_names.size()) return in.fail("the kind of a request is unknown");
  request.kind = static_cast<RequestKind>(kind);
  const std::uint32_t mask = in.mask(request_all);
  if (mask & request_op) in.string(request.op);
  if (mask & request_name) in.string(request.name);
  if (mask & request_attempt) request.attempt = in.number32();
  if (mask & request_hash) request.hash = in.hash();
  if (mask & request_value) in.string(request.value);
  if (mask & request_at) request.at = in.time();
  if (mask & request_failure) read_failure(in, request.failure.emplace());
  request.at_most_once = (mask & request_at_most_once) != 0;
}

}  // namespace

bool is_note(ArrivalKind kind) {
  switch (kind) {
    case ArrivalKind::attempt_failed:
    case ArrivalKind::retry_due:
    case ArrivalKind::begun:
    case ArrivalKind::recovered:
    case ArrivalKind::outcome:
    case ArrivalKind::reopened:
    case ArrivalKind::forked:
      return true;
    default:
      return false;
  }
}

bool ends_run(const Entry& entry) {
  switch (entry.arrival.kind) {
    case ArrivalKind::cancelled:
    case ArrivalKind::timed_out:
    case ArrivalKind::limit_reached:
      return true;
    default:
      break;
  }
  if (entry.requests.empty()) return false;
  const RequestKind last = entry.requests.back().kind;
  return last == RequestKind::completed || last == RequestKind::failed ||
         last == RequestKind::cancelled;
}

bool ends_generation(const Entry& entry) {
  return !entry.requests.empty() && entry.requests.back().kind == RequestKind::continue_as_new;
}

std::string_view to_string(ArrivalKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < arrival_names.size() ? arrival_names[index] : "unknown";
}

std::string_view to_string(RequestKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index - 1 < request_names.size() ? request_names[index - 1] : "unknown";
}

void encode_to(std::string& out, const Entry& entry) {
  out.push_back(format_version);
  put_arrival(out, entry.arrival);
  put_varint(out, entry.requests.size());
  for (const Request& request : entry.requests) put_request(out, request);
}

std::string encode(const Entry& entry) {
  constexpr std::size_t usual_bytes =
      96;  // besides the value: most entries are a result and the next step
  std::string out;
  out.reserve(usual_bytes + entry.arrival.value.size());
  encode_to(out, entry);
  return out;
}

base::Result<Entry> decode(std::string_view bytes) {
  Decoder in{bytes};
  base::Result<Entry> result{Entry{}};
  Entry& entry = *result;
  const std::uint8_t version = in.byte();
  if (!in.failed() && version != format_version) in.fail("its format is unknown");
  read_arrival(in, entry.arrival);
  const std::size_t count = in.count(2);
  for (std::size_t i = 0; i < count && !in.failed(); ++i)
    read_request(in, entry.requests.emplace_back());
  if (!in.failed() && in.left() != 0) in.fail("something follows its end");
  if (in.failed()) {
    return base::Fault{base::Errc::corrupt,
                       std::string{"these bytes are not a journal entry: "} + in.wrong()};
  }
  return result;
}

std::string encode(const Failure& failure) {
  std::string out;
  put_failure(out, failure);
  return out;
}

base::Result<Failure> decode_failure(std::string_view bytes) {
  Decoder in{bytes};
  Failure failure;
  read_failure(in, failure);
  if (!in.failed() && in.left() != 0) in.fail("something follows its end");
  if (in.failed()) {
    return base::Fault{base::Errc::corrupt,
                       std::string{"these bytes are not a failure: "} + in.wrong()};
  }
  return failure;
}

}  // namespace semel::journal
