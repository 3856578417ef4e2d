// How a connection reads bodies: whole ones, before their request is handled, and streamed ones, while it is.
#include "http/connection.hpp"

#include <algorithm>

namespace semel::http {

namespace {

constexpr std::string_view continue_line = "HTTP/1.1 100 Continue\r\n\r\n";

/// What is read at a time of a streamed body.
constexpr std::size_t part_bytes_max = std::size_t{64} << 10U;

}  // namespace

void Connection::begin_body() {
  const Framing& framing = head_.framing();
  try {
    admission_ = handler_.admit(request_, limits_);
  } catch (...) {
    refuse({500, "INTERNAL", "something went wrong here"});
    return;
  }
  if (admission_.refusal) {
    close_after_ = true;
    state_ = State::handling;
    handler_.on_refused(admission_.refusal->status);
    take_answer(std::move(*admission_.refusal));
    return;
  }
  if (framing.content_length.value_or(0) > admission_.body_bytes_max) {
    refuse({413, "PAYLOAD_TOO_LARGE", "the body is too large"});
    return;
  }
  chunks_ = ChunkedReader{admission_.body_bytes_max, limits_.head.bytes_max};
  body_until_ = admission_.body_time ? loop_.coarse_now() + *admission_.body_time
                                     : std::chrono::nanoseconds::max();
  state_ = State::body;
  if (admission_.is_streamed) begin_streamed_body();
  // Who has sent some of the body does not wait to be asked for it.
  if (framing.expects_continue && in_.size() == body_at_) {
    to_write_ = {continue_line};
    state_ = State::continuing;
  }
}

bool Connection::step_body() {
  const Framing& framing = head_.framing();
  if (framing.is_chunked) {
    const auto progress = chunks_.read(in_.data() + body_end_, in_.size() - body_end_);
    body_end_ += progress.body;
    in_.remove(body_end_, progress.consumed - progress.body);
    if (progress.state == Parsed::failed) {
      refuse(chunks_.refused());
      return true;
    }
    if (progress.state == Parsed::complete) {
      request_is_complete();
      return true;
    }
  } else if (in_.size() - body_at_ >= *framing.content_length) {
    body_end_ = body_at_ + static_cast<std::size_t>(*framing.content_length);
    request_is_complete();
    return true;
  }
  deadline_ = std::min(loop_.coarse_now() + limits_.idle_timeout, body_until_);
  return read_more();
}

// ------------------------------------------------------------------------------------------------ streamed

/// The handler sees the request while its body is read. So that what it sees stays where it is, there has to be room for
/// all that is ever buffered: a part, or the trailers.
void Connection::begin_streamed_body() {
  in_.reserve(limits_.head.bytes_max + part_bytes_max);
  head_.show(in_.view(), request_);
  body_is_open_ = true;
  body_left_ = head_.framing().content_length.value_or(0);
  deadline_ = {};
  state_ = State::handling;
  is_dispatched_ = false;
}

void Connection::read_body(std::function<void(BodyPart)> then) {
  if (loop_.is_here()) {
    take_read(std::move(then));
    return;
  }
  loop_.hand_over([self = shared_from_this(), then = std::move(then)]() mutable {
    self->take_read(std::move(then));
  });
}

void Connection::take_read(std::function<void(BodyPart)> then) {
  if (!body_is_open_) {
    then({body_is_lost_ ? BodyPart::State::lost : BodyPart::State::last});
    return;
  }
  body_wanted_ = std::move(then);
  give_part();
}

/// Hands out what has arrived, or waits for more.
void Connection::give_part() {
  if (!body_wanted_) return;
  char* const at = in_.data() + body_at_;
  BodyPart part;
  if (head_.framing().is_chunked) {
    const auto progress = chunks_.read(at, in_.size() - body_at_);
    if (progress.state == Parsed::failed) {
      lose_body();
      return;
    }
    part.bytes.assign(at, progress.body);
    in_.remove(body_at_, progress.consumed);
    if (progress.state == Parsed::complete) part.state = BodyPart::State::last;
  } else {
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(in_.size() - body_at_, body_left_));
    part.bytes.assign(at, size);
    in_.remove(body_at_, size);
    body_left_ -= size;
    if (body_left_ == 0) part.state = BodyPart::State::last;
  }
  if (part.bytes.empty() && part.state == BodyPart::State::more) {
    body_deadline_ = std::min(loop_.coarse_now() + limits_.idle_timeout, body_until_);
    read_more();
    return;
  }
  body_deadline_ = {};
  if (part.state == BodyPart::State::last) body_is_open_ = false;
  std::exchange(body_wanted_, nullptr)(std::move(part));
}

/// The rest does not come. Where the next request would begin is unknown, so the answer is the connection's last.
void Connection::lose_body() {
  if (!body_is_open_) return;
  body_is_open_ = false;
  body_is_lost_ = true;
  body_deadline_ = {};
  close_after_ = true;
  if (body_wanted_) std::exchange(body_wanted_, nullptr)({BodyPart::State::lost});
}

}  // namespace semel::http
