#include "http/connection.hpp"

#include "http/answer_head.hpp"
#include "http/problem.hpp"

#include <array>
#include <charconv>

namespace semel::http {

namespace {

constexpr std::string_view last_chunk = "0\r\n\r\n";
constexpr std::string_view line_end = "\r\n";

Response unanswered() {
  return problem(500, "INTERNAL", "something went wrong here; the request may have had effects");
}

/// The size of a chunk and the end of its line.
void append_chunk_size(std::string& out, std::size_t size) {
  std::array<char, 16> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), size, 16);
  static_cast<void>(error);
  out.append(digits.data(), end).append(line_end);
}

}  // namespace

Responder::~Responder() {
  if (sink_) answer(unanswered());
}

Connection::Connection(ConnectionLoop& loop, Handler& handler, const ListenerLimits& limits,
                       std::string peer)
    : loop_(loop),
      handler_(handler),
      limits_(limits),
      deadline_(loop.coarse_now() + limits.header_timeout),
      head_(limits.head),
      peer_(std::move(peer)),
      chunks_(0, 0) {
  request_.peer = peer_;
}

void Connection::begin() { advance(); }

// ------------------------------------------------------------------------------------------------ the steps

void Connection::advance() {
  // A step may call somebody who answers at once; the loop below goes on with that.
  if (advancing_) return;
  advancing_ = true;
  const auto self = shared_from_this();
  while (step()) {
  }
  advancing_ = false;
}

/// One step forward; false where there is something to wait for.
bool Connection::step() {
  switch (state_) {
    case State::head:
      return step_head();
    case State::continuing:
      if (!wrote_all()) return false;
      state_ = body_is_open_ ? State::handling : State::body;
      return true;
    case State::body:
      return step_body();
    case State::handling:
      return step_handling();
    case State::writing:
      if (!wrote_all()) return false;
      after_writing();
      return true;
    case State::streaming:
      return step_streaming();
    default:
      return false;
  }
}

bool Connection::step_head() {
  switch (head_.parse(in_.view())) {
    case Parsed::failed:
      refuse(head_.refused());
      return true;
    case Parsed::complete:
      break;
    case Parsed::incomplete:
      if (!head_.has_begun()) {
        if (loop_.is_stopping()) {
          close();
          return false;
        }
        deadline_ = loop_.coarse_now() + limits_.idle_timeout;
      } else if (!head_is_timed_) {
        head_is_timed_ = true;
        deadline_ = loop_.coarse_now() + limits_.header_timeout;
      }
      return read_more();
  }
  head_.show(in_.view(), request_);
  is_head_request_ = request_.method == "HEAD";
  body_at_ = body_end_ = head_.length();
  if (head_.framing().has_body()) {
    begin_body();
  } else {
    request_is_complete();
  }
  return true;
}

void Connection::request_is_complete() {
  // The input may have moved while the body grew.
  if (head_.framing().has_body()) head_.show(in_.view(), request_);
  request_.body = in_.view().substr(body_at_, body_end_ - body_at_);
  deadline_ = {};
  state_ = State::handling;
  is_dispatched_ = false;
}

bool Connection::step_handling() {
  if (is_dispatched_) return false;
  is_dispatched_ = true;
  try {
    handler_.handle(request_, Responder{shared_from_this()});
  } catch (...) {
    // Unwinding destroyed the responder, and that has answered.
    return state_ != State::handling;
  }
  return state_ != State::handling;
}

bool Connection::read_more() {
  if (!reading_) {
    reading_ = true;
    char* room = in_.room();
    start_read(room, in_.room_size());
  }
  return false;
}

// ------------------------------------------------------------------------------------------------ answers

bool Connection::post(std::function<void()> work) { return loop_.hand_over(std::move(work)); }

void Connection::answer(Response response) {
  if (loop_.is_here()) {
    take_answer(std::move(response));
    return;
  }
  loop_.hand_over([self = shared_from_this(), response = std::move(response)]() mutable {
    self->take_answer(std::move(response));
  });
}

void Connection::begin_stream(Response head, std::optional<std::uint64_t> length) {
  if (loop_.is_here()) {
    take_stream(std::move(head), length);
    return;
  }
  loop_.hand_over([self = shared_from_this(), head = std::move(head), length]() mutable {
    self->take_stream(std::move(head), length);
  });
}

void Connection::write(std::string part, std::function<void(bool)> done) {
  if (loop_.is_here()) {
    take_part({std::move(part), std::move(done)});
    return;
  }
  loop_.hand_over(
      [self = shared_from_this(), part = Part{std::move(part), std::move(done)}]() mutable {
        self->take_part(std::move(part));
      });
}

void Connection::end_stream(bool is_whole) {
  if (loop_.is_here()) {
    take_end(is_whole);
    return;
  }
  loop_.hand_over([self = shared_from_this(), is_whole] { self->take_end(is_whole); });
}

void Connection::take_answer(Response response) {
  if (state_ != State::handling) return;  // cut off meanwhile
  response_ = is_sendable(response) ? std::move(response) : unanswered();
  put_head(false);
  to_write_ = {
      out_, is_head_request_ || !has_body(response_.status) ? std::string_view{} : response_.body};
  state_ = State::writing;
  advance();
}

void Connection::take_stream(Response head, std::optional<std::uint64_t> length) {
  if (state_ != State::handling) return;
  if (!is_sendable(head) || !has_body(head.status)) {
    take_answer(std::move(head));
    return;
  }
  response_ = std::move(head);
  put_head(true, length);
  to_write_ = {out_};
  stream_ended_ = last_is_out_ = part_is_out_ = false;
  if (!response_.body.empty()) parts_.push_back({std::move(response_.body), {}});
  state_ = State::streaming;
  advance();
}

void Connection::take_part(Part part) {
  if (state_ != State::streaming) {
    if (part.done) part.done(false);
    return;
  }
  parts_.push_back(std::move(part));
  advance();
}

void Connection::take_end(bool is_whole) {
  if (state_ != State::streaming) return;
  stream_ended_ = true;
  stream_is_whole_ = is_whole;
  advance();
}

void Connection::put_head(bool is_stream, std::optional<std::uint64_t> length) {
  const Framing& framing = head_.framing();
  is_framed_ = is_stream && !length && !framing.is_1_0;
  const bool ends_by_close = is_stream && !length && framing.is_1_0;
  close_after_ =
      close_after_ || body_is_open_ || ends_by_close || !framing.keep_alive || loop_.is_stopping();
  out_.clear();
  append_head(out_, response_,
              {.date = loop_.date(),
               .length = length,
               .is_chunked = is_framed_,
               .ends_by_close = ends_by_close,
               .closes = close_after_,
               .says_keep_alive = framing.is_1_0});
}

/// The parts of a stream leave one at a time, each with its frame in one go.
bool Connection::step_streaming() {
  if (!wrote_all()) return false;
  if (part_is_out_) {
    part_is_out_ = false;
    const auto done = std::move(parts_.front().done);
    parts_.pop_front();
    if (done) done(true);
    return true;
  }
  if (!parts_.empty()) {
    const std::string& bytes = parts_.front().bytes;
    part_is_out_ = true;
    if (bytes.empty() || is_head_request_) return true;  // an empty chunk would be the last
    out_.clear();
    if (is_framed_) append_chunk_size(out_, bytes.size());
    to_write_ = {out_, bytes, is_framed_ ? line_end : std::string_view{}};
    return true;
  }
  if (!stream_ended_) {
    deadline_ = {};
    return false;
  }
  if (!stream_is_whole_) {
    close();
    return false;
  }
  if (is_framed_ && !is_head_request_ && !last_is_out_) {
    last_is_out_ = true;
    to_write_ = {last_chunk};
    return true;
  }
  after_writing();
  return true;
}

/// Whether all of `to_write_` has left; else it is on its way.
bool Connection::wrote_all() {
  if (write_is_pending_) return false;
  while (!(to_write_[0].empty() && to_write_[1].empty() && to_write_[2].empty())) {
    const std::ptrdiff_t written = start_write(to_write_);
    if (written == pending) {
      write_is_pending_ = true;
      deadline_ = loop_.coarse_now() + limits_.idle_timeout;
      return false;
    }
    if (written == 0) {
      close();
      return false;
    }
    has_left(static_cast<std::size_t>(written));
  }
  return true;
}

void Connection::has_left(std::size_t bytes) {
  for (std::string_view& part : to_write_) {
    const std::size_t here = std::min(bytes, part.size());
    part.remove_prefix(here);
    bytes -= here;
  }
}

void Connection::after_writing() {
  if (close_after_) {
    shut_down();
    return;
  }
  response_ = {};
  is_head_request_ = false;
  in_.remove(0, body_end_);
  in_.shrink();
  head_.reset();
  head_is_timed_ = false;
  state_ = State::head;
}

/// Answers what cannot be understood or is not allowed. Where the next request begins is anybody's guess, so this is
/// the connection's last answer.
void Connection::refuse(const Refused& refused) {
  close_after_ = true;
  deadline_ = {};
  state_ = State::handling;
  is_dispatched_ = true;
  handler_.on_refused(refused.status);
  take_answer(problem(refused.status, refused.code, refused.detail));
}

// ------------------------------------------------------------------------------------------------ the transport

void Connection::on_read(std::size_t bytes) {
  reading_ = false;
  switch (state_) {
    case State::head:
    case State::body:
      if (bytes == 0) {
        close();
        return;
      }
      in_.add(bytes);
      advance();
      return;
    case State::lingering:
      if (bytes == 0) {
        close();
      } else {
        read_more();  // over what is there: nobody looks at it
      }
      return;
    case State::handling:
    case State::writing:
    case State::streaming:
      if (!body_is_open_) return;
      if (bytes == 0) {
        lose_body();
      } else {
        in_.add(bytes);
        give_part();
      }
      return;
    default:
      return;  // late, and nobody waits for it
  }
}

void Connection::on_written(std::size_t bytes) {
  write_is_pending_ = false;
  if (state_ == State::closed) return;
  if (bytes == 0) {
    close();
    return;
  }
  deadline_ = {};
  has_left(bytes);
  advance();
}

/// Closing at once could destroy an answer that is on its way: a reset overtakes it where bytes of the client are unread.
void Connection::shut_down() {
  state_ = State::shutting_down;
  lose_body();
  deadline_ = loop_.coarse_now() + limits_.linger;
  start_shut_down();
}

void Connection::on_shut_down() {
  if (state_ != State::shutting_down) return;
  state_ = State::lingering;
  read_more();
}

void Connection::on_deadline() {
  if (body_deadline_.count() != 0 && deadline() == body_deadline_) {
    lose_body();
    return;
  }
  deadline_ = {};
  switch (state_) {
    case State::head:
      if (head_.has_begun()) {
        refuse({408, "TIMEOUT", "the headers took too long"});
      } else {
        close();
      }
      return;
    case State::body:
      refuse({408, "TIMEOUT", "the body took too long"});
      return;
    default:
      close();
  }
}

void Connection::on_stop() {
  if (state_ == State::head && !head_.has_begun()) close();
}

void Connection::cut() { close(); }

void Connection::close() {
  if (state_ == State::closed) return;
  const auto self = shared_from_this();
  state_ = State::closed;
  deadline_ = {};
  close_transport();
  lose_body();
  for (const Part& part : std::exchange(parts_, {})) {
    if (part.done) part.done(false);
  }
}

}  // namespace semel::http
