// What a server does about keys where systems disagree: one struct, and presets by name.
#pragma once

#include "base/result.hpp"
#include "store/reservation.hpp"

#include <semel/idempotency.hpp>

#include <bitset>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace semel::idempotency {

/// A set of HTTP status codes.
class StatusSet {
 public:
  /// From patterns in order: "2xx" and "404" add, "!4xx" and "!404" take away. What is wrong is named.
  static base::Result<StatusSet> parse(const std::vector<std::string>& patterns);

  bool contains(int status) const {
    return status >= 100 && status < 600 && set_[static_cast<std::size_t>(status)];
  }

  bool operator==(const StatusSet&) const = default;

 private:
  std::bitset<600> set_;
};

/// What a duplicate does while the first is at work.
enum class InFlight : std::uint8_t { wait, reject };

/// How bodies are compared.
enum class BodyComparison : std::uint8_t {
  json,  ///< by value where the media type says JSON and nothing is encoded, else by bytes
  raw,   ///< by bytes
  none,  ///< not at all
};

/// What makes two requests the same.
struct Compared {
  bool method = true;
  bool path = true;
  bool query = true;
  bool media_type = true;
  BodyComparison body = BodyComparison::json;

  /// Everything under a key is the same request.
  static Compared nothing() { return {false, false, false, false, BodyComparison::none}; }

  bool operator==(const Compared&) const = default;
};

struct Policy {
  std::string header = "idempotency-key";
  std::vector<std::string> methods{"POST", "PATCH"};
  bool required = false;
  Scope scope = Scope::actor_tenant;
  /// The key belongs to method and path; otherwise the same key on another endpoint is the same key.
  bool per_endpoint = true;
  Compared compared{};
  int mismatch_status = 409;
  InFlight in_flight = InFlight::wait;
  Millis wait_default{std::chrono::seconds{2}};
  Millis wait_max{std::chrono::seconds{30}};
  std::size_t waiters_max = 1000;  ///< of one key; more are told at once
  StatusSet stored = default_stored();
  std::size_t answer_bytes_max = std::size_t{1} << 20U;  ///< larger: a tombstone
  Millis lifetime{std::chrono::hours{24}};
  Millis lease{std::chrono::seconds{30}};
  store::OnAbandoned on_abandoned = store::OnAbandoned::run;

  /// 2xx, 3xx, and 4xx but for those that may be different the next time.
  static StatusSet default_stored();

  bool applies_to(std::string_view method) const;
};

/// "default", "ietf", "beignet", "codecourier", "stripe"; for a server of ours. None: there is no such preset.
std::optional<Policy> preset(std::string_view name);

/// The same for a proxy, which cannot know what a request that broke off has done: abandoned work is `unknown` but for
/// `beignet` and `codecourier`.
std::optional<Policy> proxy_preset(std::string_view name);

/// What a reservation's namespace is for a request without a name of its own.
std::string endpoint_namespace(const Policy& policy, std::string_view method,
                               std::string_view path);

}  // namespace semel::idempotency
