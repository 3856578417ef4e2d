// Where idempotency plugs into the server: behind authentication, authorisation and parsing, in front of the handler.
#pragma once

#include <semel/http.hpp>

#include <functional>
#include <string>

namespace semel::http {

/// A request to a contract that wants idempotency. Whoever needs it beyond `handle` copies it: what it refers to stays
/// until `done` is called.
struct KeyedRequest {
  const Request& request;
  const detail::ContractSpec& contract;  ///< `contract.idempotency` is there
  const Call& call;                      ///< whose it is, and what it asks for
  /// The canonical text of what has to be the same under the same key; empty where that is the whole request.
  std::function<std::string()> fingerprint_input;
};

using Done = std::function<void(Response)>;

class IdempotencyLayer {
 public:
  virtual ~IdempotencyLayer() = default;

  /// Calls `done` exactly once, on any thread: with a stored answer, with a refusal, or with the answer of the handler.
  /// `run` has the handler run, whatever becomes of the client, and passes its whole answer on, exactly once and on any
  /// thread; it is called at most once, from wherever, and does nothing of the handler before it returns. Must not block: it is called on a connection's thread.
  virtual void handle(const KeyedRequest& keyed, std::function<void(Done)> run, Done done) = 0;
};

}  // namespace semel::http
