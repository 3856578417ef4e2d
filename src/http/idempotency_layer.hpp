// Where idempotency plugs into the server: behind authentication, authorisation and parsing, in front of the handler.
#pragma once

#include <semel/http.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace semel::http {

/// A request to a contract that wants idempotency. Whoever needs it beyond `handle` copies it: what it refers to stays
/// until it is answered.
struct KeyedRequest {
  const Request& request;
  const detail::ContractSpec& contract;  ///< `contract.idempotency` is there
  const Call& call;                      ///< whose it is, and what it asks for
  /// The canonical text of what has to be the same under the same key; empty where that is the whole request.
  std::function<std::string()> fingerprint_input;
};

using Done = std::function<void(Response)>;

/// What a keyed request is about: its handler, and the client that waits for the answer.
class KeyedWork {
 public:
  virtual ~KeyedWork() = default;

  /// When a handler that is a Task begins; one that may block does so on a thread of its own.
  enum class Begin : std::uint8_t {
    now,  ///< on this thread, which is the connection's, before `run` returns
    later,  ///< on the connection's thread; from anywhere, also from inside something that a handler may call
  };

  /// Has the handler run, whatever becomes of the client, and passes its whole answer on, exactly once and on any thread.
  /// At most once.
  virtual void run(Begin begin, Done then) = 0;

  /// The client's answer. Exactly once, from any thread.
  virtual void answer(Response answer) = 0;

  /// Has `action` done on the connection's thread; false where that has ended, and nothing is done.
  virtual bool post(std::function<void()> action) = 0;
};

class IdempotencyLayer {
 public:
  virtual ~IdempotencyLayer() = default;

  /// Answers `work`: as it was answered before, with a refusal, or with what its handler says. Must not block: it is called
  /// on the connection's thread.
  virtual void handle(const KeyedRequest& keyed, std::shared_ptr<KeyedWork> work) = 0;
};

}  // namespace semel::http
