// The server behind a proxy: requests go out and answers come back in parts, thousands at a time without a thread each.
#pragma once

#include "http/answer_reader.hpp"
#include "http/head_parser.hpp"
#include "http/listener.hpp"
#include "http/origin.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace semel::http {

struct UpstreamRequest {
  enum class Body : std::uint8_t {
    whole,    ///< `body`, or none; its framing is in the head
    parts,    ///< `UpstreamListener::next_body_part` has it; its length is in the head
    chunked,  ///< the same without a length: each part becomes a chunk
  };

  std::string head;  ///< request line and headers, with the empty line
  std::string body{};
  Body body_kind = Body::whole;
  bool is_head = false;     ///< its answer has no body, whatever its head says
  bool may_repeat = false;  ///< it only reads and has no body: a kept connection may be tried first
  std::chrono::nanoseconds timeout{};  ///< without any byte
};

/// Why there is no answer, or no more of it.
enum class UpstreamFault : std::uint8_t {
  not_sent,   ///< the server has not seen a byte of the request
  broken,     ///< the connection ended too early, or what came was no answer
  timed_out,  ///< nothing came for too long
  body_lost,  ///< the request's own body did not come
};

/// Hears what becomes of a request: a head, parts, the end; or a fault at any point. Called on the upstream's thread, one call
/// at a time; must neither block nor throw. After `heard_head` and `heard_part` nothing more is read until `go_on` is called,
/// from any thread and also before they return; where it is dropped instead, the request is given up. An answer that came
/// all at once, body included, is told by `heard_whole` alone.
class UpstreamListener {
 public:
  virtual ~UpstreamListener() = default;

  using GoOn = std::function<void()>;

  virtual void next_body_part(std::function<void(BodyPart)> then) = 0;
  virtual void heard_whole(AnswerHead head, std::string body) = 0;
  virtual void heard_head(AnswerHead head, GoOn go_on) = 0;
  virtual void heard_part(std::string bytes, GoOn go_on) = 0;
  virtual void heard_end() = 0;
  virtual void failed(UpstreamFault fault) = 0;
};

struct UpstreamOptions {
  /// Of each thread. As many as there may well be requests at a time: opening one anew costs more than all the rest of a
  /// request.
  std::size_t idle_connections_max = 1024;
  std::chrono::nanoseconds idle_timeout = std::chrono::seconds{30};  ///< of a kept connection
  HeadLimits head{.bytes_max = std::size_t{64} << 10U, .headers_max = 200};
};

class EventLoops;

class Upstream {
 public:
  /// Speaks plain HTTP/1.1 to `origin`, on the threads of `loops`, which outlive its last request.
  static std::shared_ptr<Upstream> open(Origin origin, EventLoops& loops,
                                        const UpstreamOptions& options = {});

  /// Stops.
  virtual ~Upstream() = default;

  virtual const Origin& origin() const = 0;

  /// Sends the request once, except for those that may be repeated: on the caller's thread if that is one of the loops'.
  /// `listener` lives until its last call. It may hear of a failure before this returns, and does so once this has stopped.
  virtual void send(UpstreamRequest request, const std::shared_ptr<UpstreamListener>& listener) = 0;

  /// Gives up what is under way; nobody hears of it. Idempotent.
  virtual void stop() = 0;
};

}  // namespace semel::http
