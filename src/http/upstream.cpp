// Sockets to the server behind a proxy. Each thread has its own connections; a request stays on one.
#include "http/upstream.hpp"

#include "base/clock.hpp"
#include "http/chunked.hpp"
#include "http/event_loops.hpp"
#include "http/input_buffer.hpp"

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/basic_resolver.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <future>
#include <limits>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace semel::http {

namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using boost::system::error_code;
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<Tcp, Executor>;
using Resolver = asio::ip::basic_resolver<Tcp, Executor>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Executor>;

constexpr std::string_view head_end = "\r\n\r\n";

/// What is read at a time of a large body.
constexpr std::size_t part_bytes_max = std::size_t{64} << 10U;

std::optional<Tcp::endpoint> endpoint_of(const Origin& origin) {
  error_code is_name;
  const auto address = asio::ip::make_address(origin.host, is_name);
  std::uint16_t port = 0;
  const char* const end = origin.port.data() + origin.port.size();
  const auto [read, wrong] = std::from_chars(origin.port.data(), end, port);
  if (is_name || wrong != std::errc{} || read != end) return std::nullopt;
  return Tcp::endpoint{address, port};
}

class Wire;

/// A connection, and what it has brought that is not yet dealt with.
struct Link {
  explicit Link(const Executor& executor) : socket(executor) {}

  void close() {
    error_code ignored;
    socket.close(ignored);
  }

  Socket socket;
  InputBuffer in;
  std::chrono::nanoseconds kept_until{};
};

/// What belongs to one thread. Lives as long as its last request.
class Loop : public std::enable_shared_from_this<Loop> {
 public:
  Loop(std::shared_ptr<asio::io_context> io, Origin origin, const UpstreamOptions& options)
      : io_(std::move(io)),
        origin_(std::move(origin)),
        options_(options),
        endpoint_(endpoint_of(origin_)),
        timer_(io_->get_executor()),
        ended_(end_.get_future()) {}

  bool is_here() const { return io_->get_executor().running_in_this_thread(); }

  /// Has `work` done on the thread. False: that is over, and nobody can.
  bool hand_over(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (!is_over_) asio::post(*io_, std::move(work));
    return !is_over_;
  }

  void stop();

  Executor executor() { return io_->get_executor(); }

  const Origin& origin() const { return origin_; }

  /// Where the server is, if that needs no looking up.
  const std::optional<Tcp::endpoint>& endpoint() const { return endpoint_; }

  const UpstreamOptions& options() const { return options_; }

  /// Its number, by which it is removed.
  std::uint64_t add(const std::shared_ptr<Wire>& wire) {
    wires_.emplace(++last_number_, wire);
    return last_number_;
  }

  void remove(std::uint64_t number) { wires_.erase(number); }

  bool is_stopping() const { return is_stopping_; }

  /// A kept connection that the server has left alone; nothing if there is none.
  std::unique_ptr<Link> take_idle() {
    while (!idle_.empty()) {
      std::unique_ptr<Link> link = std::move(idle_.back());
      idle_.pop_back();
      error_code error;
      char byte = 0;
      link->socket.receive(asio::buffer(&byte, 1), Socket::message_peek, error);
      if (error == asio::error::would_block) return link;
    }
    return nullptr;
  }

  void keep(std::unique_ptr<Link> link) {
    if (is_stopping_ || idle_.size() >= options_.idle_connections_max) return;
    if (link->in.room_size() > InputBuffer::first_capacity) link->in = {};
    link->kept_until = base::monotonic_now() + options_.idle_timeout;
    look_at(link->kept_until);
    idle_.push_back(std::move(link));
  }

  /// Looks then for what is past its deadline. One timer for all: arming one for each costs as much as a system call, and
  /// hardly any is ever due.
  void look_at(std::chrono::nanoseconds time) {
    if (time >= looks_at_) return;
    looks_at_ = time;
    timer_.expires_at(std::chrono::steady_clock::time_point{time});
    timer_.async_wait([self = shared_from_this()](error_code error) {
      if (!error && !self->is_stopping_) self->look();
    });
  }

 private:
  static constexpr auto never = std::chrono::nanoseconds::max();

  void look();

  const std::shared_ptr<asio::io_context> io_;
  const Origin origin_;
  const UpstreamOptions options_;
  const std::optional<Tcp::endpoint> endpoint_;
  Timer timer_;
  std::chrono::nanoseconds looks_at_ = never;
  std::vector<std::unique_ptr<Link>> idle_;                       ///< the one used last at the end
  std::unordered_map<std::uint64_t, std::weak_ptr<Wire>> wires_;  ///< under way
  std::uint64_t last_number_ = 0;
  bool is_stopping_ = false;

  std::mutex mutex_;
  bool is_over_ = false;
  std::promise<void> end_;
  const std::shared_future<void> ended_;
};

/// One request and its answer.
class Wire : public std::enable_shared_from_this<Wire> {
 public:
  Wire(std::shared_ptr<Loop> loop, UpstreamRequest request,
       std::shared_ptr<UpstreamListener> listener)
      : loop_(std::move(loop)), request_(std::move(request)), listener_(std::move(listener)) {}

  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// On any thread: whoever was to go on may have dropped it.
  ~Wire() {  // NOLINT(bugprone-exception-escape)
    if (!is_over_) loop_->hand_over([loop = loop_, number = number_] { loop->remove(number); });
  }

  void begin() {
    number_ = loop_->add(shared_from_this());
    if (request_.may_repeat) link_ = loop_->take_idle();
    is_reused_ = link_ != nullptr;
    if (is_reused_) {
      send();
    } else {
      connect();
    }
  }

  /// The loop stops: nobody hears of it.
  void drop() {
    end();
    link_->close();
  }

  /// When this is past, `on_deadline` is due; 0 for never.
  std::chrono::nanoseconds deadline() const { return deadline_; }

  void on_deadline() {
    if (!is_over_) give_up(UpstreamFault::timed_out);
  }

 private:
  // ---------------------------------------------------------------------------------------------- sending

  void connect() {
    is_connecting_ = true;
    link_ = std::make_unique<Link>(loop_->executor());
    arm();
    if (const auto endpoint = loop_->endpoint()) {
      link_->socket.async_connect(
          *endpoint, [self = shared_from_this()](error_code failed) { self->connected(failed); });
      return;
    }
    const auto resolver = std::make_shared<Resolver>(loop_->executor());
    resolver->async_resolve(loop_->origin().host, loop_->origin().port,
                            [self = shared_from_this(), resolver](
                                error_code error, const Resolver::results_type& found) {
                              if (self->is_over_) return;
                              if (error) return self->fail(UpstreamFault::not_sent);
                              asio::async_connect(self->link_->socket, found,
                                                  [self](error_code failed, const Tcp::endpoint&) {
                                                    self->connected(failed);
                                                  });
                            });
  }

  void connected(error_code error) {
    if (is_over_) return;
    Socket& socket = link_->socket;
    if (!error) socket.set_option(Tcp::no_delay(true), error);
    if (!error) socket.set_option(Socket::keep_alive(true), error);
    if (!error) socket.non_blocking(true, error);
    if (error) return fail(UpstreamFault::not_sent);
    is_connecting_ = false;
    send();
  }

  void send() {
    is_writing_ = true;
    // A request nearly always fits into the socket's buffer, so it leaves here and now.
    std::array<asio::const_buffer, 2> rest{asio::buffer(request_.head),
                                           asio::buffer(request_.body)};
    error_code error;
    const std::size_t sent = link_->socket.write_some(rest, error);
    const bool is_full = error == asio::error::would_block || error == asio::error::try_again;
    if ((error && !is_full) || sent == asio::buffer_size(rest)) {
      wrote_head(error, sent);
    } else {
      const std::size_t of_head = std::min(sent, request_.head.size());
      rest[0] += of_head;
      rest[1] += sent - of_head;
      asio::async_write(link_->socket, rest,
                        [self = shared_from_this(), sent](error_code failed, std::size_t bytes) {
                          self->wrote_head(failed, sent + bytes);
                        });
    }
    // At the same time: a server may answer before it has read everything.
    if (!is_over_) read();
  }

  void wrote_head(error_code error, std::size_t bytes) {
    is_writing_ = false;
    if (is_over_) return;
    if (error && bytes == 0 && !has_answer_ && !is_reused_) {
      give_up(UpstreamFault::not_sent);
      return;
    }
    // A server that stops reading may have said why.
    is_sent_ = error || request_.body_kind == UpstreamRequest::Body::whole;
    is_cut_short_ = static_cast<bool>(error);
    arm();
    if (!is_sent_) ask_for_body();
  }

  void ask_for_body() {
    listener_->next_body_part([self = shared_from_this()](BodyPart part) {
      self->loop_->hand_over(
          [self, part = std::make_shared<BodyPart>(std::move(part))] { self->write_part(*part); });
    });
  }

  void write_part(BodyPart& part) {
    if (is_over_) return;
    if (part.state == BodyPart::State::lost) {
      give_up(UpstreamFault::body_lost);
      return;
    }
    const bool is_last = part.state == BodyPart::State::last;
    out_.clear();
    if (request_.body_kind == UpstreamRequest::Body::chunked) {
      if (!part.bytes.empty()) out_ = fmt::format("{:x}\r\n{}\r\n", part.bytes.size(), part.bytes);
      if (is_last) out_ += "0\r\n\r\n";
    } else {
      out_ = std::move(part.bytes);
    }
    is_writing_ = true;
    arm();
    asio::async_write(link_->socket, asio::buffer(out_),
                      [self = shared_from_this(), is_last](error_code error, std::size_t) {
                        self->is_writing_ = false;
                        if (self->is_over_) return;
                        self->is_cut_short_ = static_cast<bool>(error);
                        self->is_sent_ = error || is_last;
                        self->arm();
                        if (!self->is_sent_) self->ask_for_body();
                      });
  }

  // ---------------------------------------------------------------------------------------------- reading

  void read() {
    is_reading_ = true;
    arm();
    char* room = link_->in.room();
    link_->socket.async_read_some(asio::buffer(room, link_->in.room_size()),
                                  [self = shared_from_this()](error_code error, std::size_t bytes) {
                                    self->was_read(error, bytes);
                                  });
  }

  void was_read(error_code error, std::size_t bytes) {
    is_reading_ = false;
    if (is_over_) return;
    arm();
    if (error) {
      ended_early(error);
      return;
    }
    link_->in.add(bytes);
    advance();
  }

  void ended_early(error_code error) {
    if (has_answer_ && head_end_ == AnswerEnd::close && error == asio::error::eof) {
      finish();
    } else if (is_reused_ && !has_answer_ && link_->in.size() == 0) {
      // The server has just closed the kept connection. The request only reads, so it may be sent again.
      end();
      link_->close();
      UpstreamRequest again = request_;
      again.may_repeat = false;
      std::make_shared<Wire>(loop_, std::move(again), listener_)->begin();
    } else {
      fail(UpstreamFault::broken);
    }
  }

  /// Deals with what is buffered, and reads on where that is not enough.
  void advance() {
    may_go_on_ = true;
    // Who is told something may say at once to go on; the loop below does.
    if (is_advancing_) return;
    is_advancing_ = true;
    const auto self = shared_from_this();
    while (std::exchange(may_go_on_, false)) step();
    is_advancing_ = false;
  }

  void step() {
    if (is_over_) return;
    if (fault_) return fail(*fault_);
    if (has_answer_) {
      read_body();
    } else {
      read_head();
    }
  }

  void read_head() {
    InputBuffer& in = link_->in;
    for (;;) {
      const std::size_t end = in.view().find(head_end);
      const std::size_t length = end == std::string_view::npos ? in.size() : end + head_end.size();
      const HeadLimits& limits = loop_->options().head;
      if (length > limits.bytes_max) return fail(UpstreamFault::broken);
      if (end == std::string_view::npos) return read();
      auto head =
          read_answer_head(in.view().substr(0, length), request_.is_head, limits.headers_max);
      if (!head || head->status == 101) return fail(UpstreamFault::broken);
      in.remove(0, length);
      if (head->status < 200) continue;  // more is to come
      take_head(*std::move(head));
      return;
    }
  }

  void take_head(AnswerHead head) {
    has_answer_ = true;
    head_end_ = head.end;
    left_ = head.length.value_or(0);
    keep_alive_ = head.keep_alive;
    if (!take_part()) return fail(UpstreamFault::broken);
    // Without a body the announced length may be that of another answer's.
    if (is_whole_ && head.end != AnswerEnd::none) {
      leave();
      listener_->heard_whole(std::move(head), std::move(part_));
      return;
    }
    // Small answers need no more room than their head had.
    if (!is_whole_ && head.length.value_or(part_bytes_max) >= part_bytes_max)
      link_->in.reserve(part_bytes_max);
    for (const Header& header : head.headers) {
      // Events come when they come.
      if (same_name(header.name, "content-type") && header.value.size() >= 17 &&
          same_name(std::string_view(header.value).substr(0, 17), "text/event-stream"))
        is_untimed_ = true;
    }
    arm();
    listener_->heard_head(std::move(head), going_on());
  }

  /// What is buffered of the body; false where it is none.
  bool take_part() {
    InputBuffer& in = link_->in;
    switch (head_end_) {
      case AnswerEnd::none:
        is_whole_ = true;
        break;
      case AnswerEnd::length: {
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, in.size()));
        part_.assign(in.data(), size);
        in.remove(0, size);
        left_ -= size;
        is_whole_ = left_ == 0;
        break;
      }
      case AnswerEnd::chunked: {
        const auto progress = chunks_.read(in.data(), in.size());
        if (progress.state == Parsed::failed) return false;
        part_.assign(in.data(), progress.body);
        in.remove(0, progress.consumed);
        is_whole_ = progress.state == Parsed::complete;
        break;
      }
      case AnswerEnd::close:
        part_.assign(in.data(), in.size());
        in.remove(0, in.size());
        break;
    }
    return true;
  }

  void read_body() {
    if (part_.empty() && !is_whole_ && !take_part()) return fail(UpstreamFault::broken);
    if (!part_.empty()) {
      listener_->heard_part(std::exchange(part_, {}), going_on());
    } else if (is_whole_) {
      finish();
    } else {
      read();
    }
  }

  UpstreamListener::GoOn going_on() {
    return [self = shared_from_this()] {
      if (self->loop_->is_here()) return self->advance();
      self->loop_->hand_over([self] { self->advance(); });
    };
  }

  // ---------------------------------------------------------------------------------------------- the end

  void finish() {
    leave();
    listener_->heard_end();
  }

  /// The answer is complete: the next request may have the connection.
  void leave() {
    end();
    const bool may_stay =
        keep_alive_ && is_sent_ && !is_cut_short_ && !is_writing_ && link_->in.size() == 0;
    if (may_stay) {
      loop_->keep(std::move(link_));
    } else {
      link_->close();
    }
  }

  /// Who has been told something and is to go on may be at work on another thread: it hears of the fault when it does.
  void give_up(UpstreamFault fault) {
    if (has_answer_ && !is_reading_) {
      fault_ = fault;
      link_->close();
    } else {
      fail(is_connecting_ ? UpstreamFault::not_sent : fault);
    }
  }

  void fail(UpstreamFault fault) {
    end();
    link_->close();
    listener_->failed(fault);
  }

  void end() {
    if (is_over_) return;
    is_over_ = true;
    loop_->remove(number_);
  }

  /// The server has `timeout` from now for whatever it owes; nothing while it waits for us.
  void arm() {
    const bool is_due =
        has_answer_ ? is_reading_ && !is_untimed_ : is_connecting_ || is_writing_ || is_sent_;
    deadline_ = is_due ? base::monotonic_now() + request_.timeout : std::chrono::nanoseconds{0};
    if (is_due) loop_->look_at(deadline_);
  }

  const std::shared_ptr<Loop> loop_;
  UpstreamRequest request_;
  const std::shared_ptr<UpstreamListener> listener_;
  std::unique_ptr<Link> link_;
  std::chrono::nanoseconds deadline_{};
  std::uint64_t number_ = 0;
  bool is_over_ = false;
  std::optional<UpstreamFault> fault_;  ///< nobody was told yet

  bool is_connecting_ = false;
  bool is_reused_ = false;
  bool is_writing_ = false;
  bool is_sent_ = false;       ///< the server has all of the request, or wants no more of it
  bool is_cut_short_ = false;  ///< … it wants no more
  std::string out_;

  bool is_reading_ = false;
  bool is_advancing_ = false;
  bool may_go_on_ = false;
  bool has_answer_ = false;  ///< its head
  AnswerEnd head_end_ = AnswerEnd::none;
  std::uint64_t left_ = 0;
  std::string part_;       ///< of the body, not yet told
  bool is_whole_ = false;  ///< behind that nothing comes
  bool keep_alive_ = false;
  bool is_untimed_ = false;
  ChunkedReader chunks_{std::numeric_limits<std::size_t>::max(), std::size_t{32} << 10U};
};

void Loop::look() {
  const auto now = base::monotonic_now();
  looks_at_ = never;
  std::vector<std::shared_ptr<Wire>> due;
  auto next = never;
  for (const auto& each : wires_) {
    const auto wire = each.second.lock();
    if (!wire || wire->deadline().count() == 0) continue;
    if (wire->deadline() <= now) {
      due.push_back(wire);
    } else {
      next = std::min(next, wire->deadline());
    }
  }
  // The one used longest ago comes first.
  const auto fresh =
      std::ranges::find_if(idle_, [&](const auto& link) { return link->kept_until > now; });
  idle_.erase(idle_.begin(), fresh);
  if (!idle_.empty()) next = std::min(next, idle_.front()->kept_until);
  if (next != never) look_at(next);
  for (const auto& wire : due) wire->on_deadline();
}

void Loop::stop() {
  hand_over([self = shared_from_this()] {
    if (std::exchange(self->is_stopping_, true)) return;
    for (const auto& each : std::exchange(self->wires_, {})) {
      if (const auto wire = each.second.lock()) wire->drop();
    }
    self->idle_.clear();
    self->timer_.cancel();
    self->end_.set_value();
  });
  {
    // Behind that nothing is handed over, so what waits for its turn does not keep the loop alive for ever.
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.wait();
}

class SocketUpstream final : public Upstream {
 public:
  SocketUpstream(Origin origin, EventLoops& loops, const UpstreamOptions& options)
      : origin_(std::move(origin)) {
    for (const auto& io : loops.all())
      loops_.push_back(std::make_shared<Loop>(io, origin_, options));
  }

  SocketUpstream(const SocketUpstream&) = delete;
  SocketUpstream& operator=(const SocketUpstream&) = delete;

  ~SocketUpstream() override { stop_loops(); }  // NOLINT(bugprone-exception-escape)

  const Origin& origin() const override { return origin_; }

  void send(UpstreamRequest request, const std::shared_ptr<UpstreamListener>& listener) override {
    const auto here =
        std::ranges::find_if(loops_, [](const auto& each) { return each->is_here(); });
    if (here != loops_.end()) return begin(*here, std::move(request), listener);
    const auto& loop = loops_[next_.fetch_add(1, std::memory_order_relaxed) % loops_.size()];
    const bool is_sent =
        loop->hand_over([loop, request = std::move(request), hears = listener]() mutable {
          begin(loop, std::move(request), hears);
        });
    if (!is_sent) listener->failed(UpstreamFault::not_sent);
  }

  void stop() override { stop_loops(); }

 private:
  static void begin(const std::shared_ptr<Loop>& loop, UpstreamRequest request,
                    const std::shared_ptr<UpstreamListener>& listener) {
    if (loop->is_stopping()) return listener->failed(UpstreamFault::not_sent);
    std::make_shared<Wire>(loop, std::move(request), listener)->begin();
  }

  void stop_loops() {
    for (const auto& loop : loops_) loop->stop();
  }

  const Origin origin_;
  std::vector<std::shared_ptr<Loop>> loops_;
  std::atomic<std::size_t> next_ = 0;
};

}  // namespace

std::shared_ptr<Upstream> Upstream::open(Origin origin, EventLoops& loops,
                                         const UpstreamOptions& options) {
  return std::make_shared<SocketUpstream>(std::move(origin), loops, options);
}

}  // namespace semel::http
