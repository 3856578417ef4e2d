// The header's semantics in front of a server that has none. What has no key passes through as it comes; what has one is sent
// once, and its answer is held back until it is stored.
#pragma once

#include "base/clock.hpp"
#include "http/listener.hpp"
#include "http/proxy_config.hpp"

#include <semel/idempotency.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace semel::http {

/// One request, as a log may have it: nothing of its query, headers and body.
struct AccessLine {
  std::string method;
  std::string path;
  int status = 0;
  /// What was done with it: "passed", "executed", "replayed" or "refused"; "failed" where the upstream did not answer.
  std::string_view outcome;
  std::chrono::nanoseconds took{};
};

using AccessLogger = std::function<void(const AccessLine&)>;

struct ProxyOptions {
  std::string upstream;  ///< http://host[:port][/base]
  ProxyConfig config{};
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: one that is free
  unsigned threads = 1;
  std::chrono::nanoseconds stop_grace = std::chrono::seconds{30};
  AccessLogger log{};  ///< called on any thread, when the answer begins
};

/// Listens as soon as it is made.
class Proxy {
 public:
  /// `store` and `clock` outlive it. Throws Error: VALIDATION_ERROR for an upstream that is none, LISTEN_FAILED.
  static std::unique_ptr<Proxy> open(const ProxyOptions& options, IdempotencyStore& store,
                                     const base::Clock& clock);

  virtual ~Proxy() = default;

  virtual std::uint16_t port() const = 0;

  /// Accepts nobody any more and lets what is under way finish, up to `stop_grace`. What then is not done is given up: its
  /// keys stay in progress until their leases end. Idempotent.
  virtual void stop() = 0;
};

}  // namespace semel::http
