// What makes a call safe to repeat: its key, when it is repeated, and how long that may take.
#pragma once

#include "base/clock.hpp"
#include "base/random.hpp"
#include "http/client_transport.hpp"

#include <semel/http.hpp>

#include <functional>
#include <memory>
#include <mutex>

namespace semel::http::detail {

/// Time and chance, passed in.
struct ClientSources {
  std::unique_ptr<base::Clock> clock;
  std::unique_ptr<base::Random> random;
  std::function<std::chrono::nanoseconds()> monotonic_now;  ///< measures deadlines
  std::function<void(std::chrono::nanoseconds)> wait;
};

ClientSources system_sources();

/// A key as the header carries it: bare where that is possible, else quoted. Throws Error, IDEMPOTENCY_KEY_INVALID,
/// where there is no form for it.
std::string key_header_value(std::string_view key);

/// How long "Retry-After: 120" or "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT" asks to wait. Nothing where it says
/// neither.
std::optional<std::chrono::nanoseconds> read_retry_after(std::string_view value, TimePoint now);

class ClientCore {
 public:
  ClientCore(const std::string& url, ClientOptions options, ClientSources sources);

  std::string call(const ContractSpec& contract, std::string body, const CallOptions& options);

 private:
  Outgoing outgoing(const ContractSpec& contract, std::string body, const CallOptions& options);
  std::string new_key();
  std::chrono::nanoseconds pause(int attempt, const Response* answer);

  const ClientOptions options_;
  const ClientSources sources_;
  const std::unique_ptr<ClientTransport> transport_;
  std::mutex chance_;  ///< the source of chance serves one thread at a time
};

}  // namespace semel::http::detail
