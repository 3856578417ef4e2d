// One connection: what was read becomes requests, one at a time and in order, and their answers are written. Knows
// nothing of sockets; those are below, in listener.cpp.
//
//     head ──▶ body ──▶ handling ──▶ writing ──▶ head …            one after the other, also when requests are pipelined
//       ╲        ╲          ╲           ╲
//        ╰────────┴──────────┴───────────┴──▶ lingering ──▶ closed
//
// All of it happens on the thread of the connection's loop. Answers given elsewhere are handed over through the loop.
#pragma once

#include "http/chunked.hpp"
#include "http/head_parser.hpp"
#include "http/input_buffer.hpp"
#include "http/listener.hpp"

#include <array>
#include <deque>
#include <functional>
#include <memory>

namespace semel::http {

class Connection;

/// The loop a connection lives on.
class ConnectionLoop {
 public:
  virtual ~ConnectionLoop() = default;

  /// Some milliseconds behind at most; never read per request.
  virtual std::chrono::nanoseconds coarse_now() const = 0;

  /// "Sun, 06 Nov 1994 08:49:37 GMT", as of now.
  virtual std::string_view date() = 0;

  virtual bool is_here() const = 0;

  virtual bool is_stopping() const = 0;

  /// Has `work` done on the loop's thread; false where the loop is over.
  virtual bool hand_over(std::function<void()> work) = 0;
};

class Connection : public AnswerSink, public std::enable_shared_from_this<Connection> {
 public:
  /// `peer`: the client's address.
  Connection(ConnectionLoop& loop, Handler& handler, const ListenerLimits& limits,
             std::string peer);

  /// The socket is connected.
  void begin();

  /// What the transport reports. `bytes` 0: the other side has closed or failed.
  void on_read(std::size_t bytes);
  void on_written(std::size_t bytes);
  void on_shut_down();

  /// When this is past, `on_deadline` is due; 0 for never.
  std::chrono::nanoseconds deadline() const {
    const bool is_bodys =
        deadline_.count() == 0 || (body_deadline_.count() != 0 && body_deadline_ < deadline_);
    return is_bodys ? body_deadline_ : deadline_;
  }

  void on_deadline();

  /// Nothing under way: closes. A request under way: closes behind its answer.
  void on_stop();

  /// Whatever is under way.
  void cut();

  bool post(std::function<void()> work) override;
  void read_body(std::function<void(BodyPart)> then) override;
  void answer(Response response) override;
  void begin_stream(Response head, std::optional<std::uint64_t> length) override;
  void write(std::string part, std::function<void(bool)> done) override;
  void end_stream(bool is_whole) override;

 protected:
  using Parts = std::array<std::string_view, 3>;

  static constexpr std::ptrdiff_t pending = -1;

  /// The transport. Reading ends in `on_read`. Writing says how many bytes went at once, 0 if it failed, or `pending` and
  /// ends in `on_written`; the parts stay as they are until then. Shutting down ends in `on_shut_down`.
  virtual void start_read(char* into, std::size_t size) = 0;
  virtual std::ptrdiff_t start_write(const Parts& parts) = 0;
  virtual void start_shut_down() = 0;
  virtual void close_transport() = 0;

 private:
  enum class State {
    head,
    continuing,
    body,
    handling,
    writing,
    streaming,
    shutting_down,
    lingering,
    closed,
  };

  struct Part {
    std::string bytes;
    std::function<void(bool)> done;
  };

  void advance();
  bool step();
  bool step_head();
  bool step_body();
  bool step_handling();
  bool step_streaming();
  void begin_body();
  void begin_streamed_body();
  void take_read(std::function<void(BodyPart)> then);
  void give_part();
  void lose_body();
  bool read_more();
  void request_is_complete();
  void take_answer(Response response);
  void take_stream(Response head, std::optional<std::uint64_t> length);
  void take_part(Part part);
  void take_end(bool is_whole);
  void put_head(bool is_stream, std::optional<std::uint64_t> length = {});
  bool wrote_all();
  void has_left(std::size_t bytes);
  void after_writing();
  void refuse(const Refused& refused);
  void shut_down();
  void close();

  ConnectionLoop& loop_;
  Handler& handler_;
  const ListenerLimits& limits_;

  State state_ = State::head;
  bool advancing_ = false;
  bool reading_ = false;
  bool write_is_pending_ = false;
  bool close_after_ = false;  ///< this answer is the last
  std::chrono::nanoseconds deadline_;

  InputBuffer in_;  ///< begins with the request under way
  HeadParser head_;
  const std::string peer_;
  bool head_is_timed_ = false;
  ChunkedReader chunks_;
  Request request_;  ///< views of `in_`: not to be looked at while a body makes that grow
  bool is_head_request_ = false;
  std::size_t body_at_ = 0;
  std::size_t body_end_ =
      0;  ///< of what is decoded; when all of it is, the next request begins here
  Admission admission_;
  std::chrono::nanoseconds body_until_{};
  bool body_is_open_ = false;  ///< a streamed one, of which more is to come
  bool body_is_lost_ = false;
  std::uint64_t body_left_ = 0;  ///< of it, where the length is known
  std::function<void(BodyPart)> body_wanted_;
  std::chrono::nanoseconds body_deadline_{};

  bool is_dispatched_ = false;
  Response response_;
  std::string out_;  ///< the head of an answer, or the frame of a part
  Parts to_write_{};
  std::deque<Part> parts_;    ///< of a stream, not yet written
  bool part_is_out_ = false;  ///< the first of them is on its way
  bool is_framed_ = false;
  bool stream_ended_ = false;
  bool stream_is_whole_ = false;
  bool last_is_out_ = false;
};

}  // namespace semel::http
