// The server below routes and contracts: connections, framing, limits and time. Whoever answers requests is a Handler.
#pragma once

#include "base/clock.hpp"
#include "http/head_parser.hpp"
#include "http/request_meter.hpp"

#include <semel/detail/http_message.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace semel::http {

struct ListenerLimits {
  HeadLimits head{};
  std::size_t body_bytes_max = std::size_t{1} << 20U;
  std::chrono::nanoseconds header_timeout = std::chrono::seconds{10};  ///< from first byte to last
  std::chrono::nanoseconds idle_timeout = std::chrono::seconds{60};    ///< without any byte
  std::chrono::nanoseconds linger = std::chrono::seconds{2};  ///< for a refused client to read why
};

struct ListenerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;  ///< 0: one that is free
  unsigned threads = 1;    ///< each with its own connections
  ListenerLimits limits{};
  std::chrono::nanoseconds stop_grace = std::chrono::seconds{10};
  std::string certificate_file{};  ///< PEM, with its chain; with `key_file`: TLS and nothing else
  std::string key_file{};
};

/// A part of a body that is read as it arrives.
struct BodyPart {
  enum class State {
    more,  ///< ask for the next
    last,  ///< that was all
    lost,  ///< the rest does not come: the client is gone, too slow, or sends what is no body
  };

  State state = State::more;
  std::string bytes{};
};

/// What a Responder is a handle of. Calls may come from any thread.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual bool post(std::function<void()> work) = 0;
  virtual void read_body(std::function<void(BodyPart)> then) = 0;
  virtual void answer(Response response) = 0;
  virtual void begin_stream(Response head, std::optional<std::uint64_t> length) = 0;
  virtual void write(std::string part, std::function<void(bool)> done) = 0;
  virtual void end_stream(bool is_whole) = 0;
};

/// The body of a request that was admitted as a stream. What is not asked for is not read, so a client goes no faster than
/// whoever reads.
class BodyStream {
 public:
  explicit BodyStream(std::shared_ptr<AnswerSink> sink) : sink_(std::move(sink)) {}

  /// `then` gets the next part, on the connection's thread. One at a time.
  void read(std::function<void(BodyPart)> then) { sink_->read_body(std::move(then)); }

 private:
  std::shared_ptr<AnswerSink> sink_;
};

/// An answer whose length is not known when it begins. Destroyed without `finish`, the connection is cut, so that the
/// client does not take a part for the whole.
class AnswerStream {
 public:
  explicit AnswerStream(std::shared_ptr<AnswerSink> sink) : sink_(std::move(sink)) {}

  AnswerStream(AnswerStream&&) noexcept = default;
  AnswerStream& operator=(AnswerStream&&) = delete;

  ~AnswerStream() {
    if (sink_) sink_->end_stream(false);
  }

  /// `done` is told, on the connection's thread, once the part has left; false where the client is gone. Whoever
  /// produces much waits for it.
  void write(std::string part, std::function<void(bool)> done) {
    sink_->write(std::move(part), std::move(done));
  }

  void finish() { std::exchange(sink_, nullptr)->end_stream(true); }

 private:
  std::shared_ptr<AnswerSink> sink_;
};

/// The one chance to answer a request, from any thread. Destroyed without an answer: 500.
class Responder {
 public:
  explicit Responder(std::shared_ptr<AnswerSink> sink) : sink_(std::move(sink)) {}

  Responder(Responder&&) noexcept = default;
  Responder& operator=(Responder&&) = delete;
  ~Responder();

  /// Of a request that was admitted as a stream. An answer that comes before its end ends the connection.
  BodyStream body() const { return BodyStream{sink_}; }

  /// Has `work` done on the connection's thread; false where that has ended, and nothing is done.
  bool post(std::function<void()> work) const { return sink_->post(std::move(work)); }

  /// From here on the request is one of `meter`'s; it came at `since`.
  void measure(std::shared_ptr<RequestMeter> meter, std::chrono::nanoseconds since) {
    meter_ = std::move(meter);
    since_ = since;
  }

  void answer(Response response) {
    count(response.status);
    std::exchange(sink_, nullptr)->answer(std::move(response));
  }

  /// Sends the head; the body of `head` is its first part. `length`: of all parts together, where that is known.
  AnswerStream stream(Response head, std::optional<std::uint64_t> length = {}) {
    count(head.status);
    auto sink = std::exchange(sink_, nullptr);
    sink->begin_stream(std::move(head), length);
    return AnswerStream{std::move(sink)};
  }

 private:
  void count(int status) {
    if (meter_) meter_->answered(status, base::monotonic_now() - since_);
  }

  std::shared_ptr<AnswerSink> sink_;
  std::shared_ptr<RequestMeter> meter_;
  std::chrono::nanoseconds since_{0};
};

/// What a request may bring along.
struct Admission {
  std::size_t body_bytes_max = 0;
  std::optional<std::chrono::nanoseconds> body_time{};  ///< for all of it
  bool is_streamed = false;           ///< `handle` is called at once and reads the body by itself
  std::optional<Response> refusal{};  ///< sent instead of reading the body; the connection ends
};

class Handler {
 public:
  virtual ~Handler() = default;

  /// Asked before the body of a request is read, `request.body` being empty. Must not block.
  virtual Admission admit(const Request& request, const ListenerLimits& limits) {
    static_cast<void>(request);
    return {.body_bytes_max = limits.body_bytes_max};
  }

  /// Called on the connection's thread, so it must not block. `request` stays as it is until it is answered, also where
  /// the client has gone away.
  virtual void handle(const Request& request, Responder responder) = 0;

  /// Told of an answer that was given without asking: to what could not be understood, was too large or took too long.
  virtual void on_refused(int status) { static_cast<void>(status); }
};

class EventLoops;

/// Listens as soon as it is made. Threads call `handler`, which must outlive it.
class Listener {
 public:
  /// Throws Error, LISTEN_FAILED, where the address is not to be had.
  static std::unique_ptr<Listener> open(const ListenerOptions& options, Handler& handler,
                                        const base::Clock& clock);

  /// The same on threads that others use too; `options.threads` does not matter. `loops` outlives it.
  static std::unique_ptr<Listener> open(const ListenerOptions& options, Handler& handler,
                                        const base::Clock& clock, EventLoops& loops);

  virtual ~Listener() = default;

  virtual std::uint16_t port() const = 0;

  /// That are open; from any thread.
  virtual std::size_t connections() const = 0;

  /// Accepts nobody any more, lets the requests under way finish, cuts off what is not done after `stop_grace`.
  /// Idempotent.
  virtual void stop() = 0;
};

}  // namespace semel::http
