// Sockets to the server behind a proxy. Each thread has its own event loop and connections; a request stays on one.
#include "http/upstream.hpp"

#include "http/chunked.hpp"
#include "http/input_buffer.hpp"

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/basic_resolver.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
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

class Wire;

/// One thread and what belongs to it. Lives as long as its last request.
class Loop : public std::enable_shared_from_this<Loop> {
 public:
  Loop(Origin origin, const UpstreamOptions& options)
      : origin_(std::move(origin)), options_(options), work_(io_.get_executor()) {}

  void start() {
    thread_ = std::jthread([this] { io_.run(); });
  }

  /// Has `work` done on the thread. False: that is over, and nobody can.
  bool hand_over(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (!is_over_) asio::post(io_, std::move(work));
    return !is_over_;
  }

  void stop();

  Executor executor() { return io_.get_executor(); }

  const Origin& origin() const { return origin_; }

  const UpstreamOptions& options() const { return options_; }

  /// Its number, by which it is removed.
  std::uint64_t add(const std::shared_ptr<Wire>& wire) {
    wires_.emplace(++last_number_, wire);
    return last_number_;
  }

  void remove(std::uint64_t number) { wires_.erase(number); }

  bool is_stopping() const { return is_stopping_; }

  /// A kept connection that the server has left alone; nothing if there is none.
  std::optional<Socket> take_idle() {
    while (!idle_.empty()) {
      Socket socket = std::move(idle_.back());
      idle_.pop_back();
      error_code error;
      char byte = 0;
      socket.receive(asio::buffer(&byte, 1), Socket::message_peek, error);
      if (error == asio::error::would_block) return socket;
    }
    return std::nullopt;
  }

  void keep(Socket socket) {
    if (!is_stopping_ && idle_.size() < options_.idle_connections_max)
      idle_.push_back(std::move(socket));
  }

 private:
  const Origin origin_;
  const UpstreamOptions options_;
  asio::io_context io_{1};
  asio::executor_work_guard<Executor> work_;
  std::vector<Socket> idle_;                                      ///< the one used last at the end
  std::unordered_map<std::uint64_t, std::weak_ptr<Wire>> wires_;  ///< under way
  std::uint64_t last_number_ = 0;
  bool is_stopping_ = false;

  std::mutex mutex_;
  bool is_over_ = false;
  std::jthread thread_;
};

/// One request and its answer.
class Wire : public std::enable_shared_from_this<Wire> {
 public:
  Wire(std::shared_ptr<Loop> loop, UpstreamRequest request,
       std::shared_ptr<UpstreamListener> listener)
      : loop_(std::move(loop)),
        request_(std::move(request)),
        listener_(std::move(listener)),
        socket_(loop_->executor()),
        timer_(loop_->executor()) {}

  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// On any thread: whoever was to go on may have dropped it.
  ~Wire() {  // NOLINT(bugprone-exception-escape)
    if (!is_over_) loop_->hand_over([loop = loop_, number = number_] { loop->remove(number); });
  }

  void begin() {
    number_ = loop_->add(shared_from_this());
    if (request_.may_repeat) {
      if (auto idle = loop_->take_idle()) {
        is_reused_ = true;
        socket_ = *std::move(idle);
        send();
        return;
      }
    }
    connect();
  }

  /// The loop stops: nobody hears of it.
  void drop() {
    end();
    close();
  }

 private:
  // ---------------------------------------------------------------------------------------------- sending

  void connect() {
    is_connecting_ = true;
    arm();
    const auto resolver = std::make_shared<Resolver>(loop_->executor());
    resolver->async_resolve(loop_->origin().host, loop_->origin().port,
                            [self = shared_from_this(), resolver](
                                error_code error, const Resolver::results_type& found) {
                              if (self->is_over_) return;
                              if (error) return self->fail(UpstreamFault::not_sent);
                              asio::async_connect(self->socket_, found,
                                                  [self](error_code failed, const Tcp::endpoint&) {
                                                    self->connected(failed);
                                                  });
                            });
  }

  void connected(error_code error) {
    if (is_over_) return;
    if (!error) socket_.set_option(Tcp::no_delay(true), error);
    if (!error) socket_.set_option(Socket::keep_alive(true), error);
    if (!error) socket_.non_blocking(true, error);
    if (error) return fail(UpstreamFault::not_sent);
    is_connecting_ = false;
    send();
  }

  void send() {
    is_writing_ = true;
    asio::async_write(socket_, std::array{asio::buffer(request_.head), asio::buffer(request_.body)},
                      [self = shared_from_this()](error_code error, std::size_t bytes) {
                        self->wrote_head(error, bytes);
                      });
    // At the same time: a server may answer before it has read everything.
    read();
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
    asio::async_write(socket_, asio::buffer(out_),
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
    char* room = in_.room();
    socket_.async_read_some(asio::buffer(room, in_.room_size()),
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
    in_.add(bytes);
    advance();
  }

  void ended_early(error_code error) {
    if (has_answer_ && head_end_ == AnswerEnd::close && error == asio::error::eof) {
      finish();
    } else if (is_reused_ && !has_answer_ && in_.size() == 0) {
      // The server has just closed the kept connection. The request only reads, so it may be sent again.
      end();
      close();
      UpstreamRequest again = request_;
      again.may_repeat = false;
      std::make_shared<Wire>(loop_, std::move(again), listener_)->begin();
    } else {
      fail(UpstreamFault::broken);
    }
  }

  /// Deals with what is buffered, and reads on where that is not enough.
  void advance() {
    if (is_over_) return;
    if (fault_) return fail(*fault_);
    if (has_answer_) {
      read_body();
    } else {
      read_head();
    }
  }

  void read_head() {
    for (;;) {
      const std::size_t end = in_.view().find(head_end);
      const std::size_t length = end == std::string_view::npos ? in_.size() : end + head_end.size();
      const HeadLimits& limits = loop_->options().head;
      if (length > limits.bytes_max) return fail(UpstreamFault::broken);
      if (end == std::string_view::npos) return read();
      auto head =
          read_answer_head(in_.view().substr(0, length), request_.is_head, limits.headers_max);
      if (!head || head->status == 101) return fail(UpstreamFault::broken);
      in_.remove(0, length);
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
    // Small answers need no more room than their head had.
    if (head.end != AnswerEnd::none && head.length.value_or(part_bytes_max) >= part_bytes_max)
      in_.reserve(part_bytes_max);
    for (const Header& header : head.headers) {
      // Events come when they come.
      if (same_name(header.name, "content-type") && header.value.size() >= 17 &&
          same_name(std::string_view(header.value).substr(0, 17), "text/event-stream"))
        is_untimed_ = true;
    }
    arm();
    listener_->heard_head(std::move(head), going_on());
  }

  void read_body() {
    std::string part;
    bool is_last = false;
    switch (head_end_) {
      case AnswerEnd::none:
        is_last = true;
        break;
      case AnswerEnd::length: {
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, in_.size()));
        part.assign(in_.data(), size);
        in_.remove(0, size);
        left_ -= size;
        is_last = left_ == 0;
        break;
      }
      case AnswerEnd::chunked: {
        const auto progress = chunks_.read(in_.data(), in_.size());
        if (progress.state == Parsed::failed) return fail(UpstreamFault::broken);
        part.assign(in_.data(), progress.body);
        in_.remove(0, progress.consumed);
        is_last = progress.state == Parsed::complete;
        break;
      }
      case AnswerEnd::close:
        part.assign(in_.data(), in_.size());
        in_.remove(0, in_.size());
        break;
    }
    if (is_last) head_end_ = AnswerEnd::none;
    if (!part.empty()) {
      listener_->heard_part(std::move(part), going_on());
    } else if (is_last) {
      finish();
    } else {
      read();
    }
  }

  UpstreamListener::GoOn going_on() {
    return [self = shared_from_this()] { self->loop_->hand_over([self] { self->advance(); }); };
  }

  // ---------------------------------------------------------------------------------------------- the end

  void finish() {
    end();
    const bool may_stay =
        keep_alive_ && is_sent_ && !is_cut_short_ && !is_writing_ && in_.size() == 0;
    if (may_stay) {
      loop_->keep(std::move(socket_));
    } else {
      close();
    }
    listener_->heard_end();
  }

  /// Who has been told something and is to go on is at work on another thread: it hears of the fault when it does.
  void give_up(UpstreamFault fault) {
    if (has_answer_ && !is_reading_) {
      fault_ = fault;
      close();
    } else {
      fail(is_connecting_ ? UpstreamFault::not_sent : fault);
    }
  }

  void fail(UpstreamFault fault) {
    end();
    close();
    listener_->failed(fault);
  }

  void end() {
    if (is_over_) return;
    is_over_ = true;
    timer_.cancel();
    loop_->remove(number_);
  }

  void close() {
    error_code ignored;
    socket_.close(ignored);
  }

  /// The server has `timeout` from now for whatever it owes; nothing while it waits for us.
  void arm() {
    const bool is_due =
        has_answer_ ? is_reading_ && !is_untimed_ : is_connecting_ || is_writing_ || is_sent_;
    if (!is_due) {
      timer_.cancel();
      return;
    }
    timer_.expires_after(request_.timeout);
    timer_.async_wait([weak = weak_from_this()](error_code error) {
      const auto self = weak.lock();
      if (!error && self && !self->is_over_) self->give_up(UpstreamFault::timed_out);
    });
  }

  const std::shared_ptr<Loop> loop_;
  UpstreamRequest request_;
  const std::shared_ptr<UpstreamListener> listener_;
  Socket socket_;
  Timer timer_;
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
  InputBuffer in_;
  bool has_answer_ = false;  ///< its head
  AnswerEnd head_end_ = AnswerEnd::none;
  std::uint64_t left_ = 0;
  bool keep_alive_ = false;
  bool is_untimed_ = false;
  ChunkedReader chunks_{std::numeric_limits<std::size_t>::max(), std::size_t{32} << 10U};
};

void Loop::stop() {
  hand_over([this] {
    is_stopping_ = true;
    for (const auto& each : std::exchange(wires_, {})) {
      if (const auto wire = each.second.lock()) wire->drop();
    }
    idle_.clear();
    work_.reset();
  });
  {
    // Behind that nothing is handed over, so what waits for its turn does not keep the loop alive for ever.
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  thread_ = {};
}

class SocketUpstream final : public Upstream {
 public:
  SocketUpstream(Origin origin, const UpstreamOptions& options) : origin_(std::move(origin)) {
    for (unsigned i = 0; i < std::max(options.threads, 1U); ++i) {
      loops_.push_back(std::make_shared<Loop>(origin_, options));
      loops_.back()->start();
    }
  }

  SocketUpstream(const SocketUpstream&) = delete;
  SocketUpstream& operator=(const SocketUpstream&) = delete;

  ~SocketUpstream() override { stop_loops(); }  // NOLINT(bugprone-exception-escape)

  const Origin& origin() const override { return origin_; }

  void send(UpstreamRequest request, const std::shared_ptr<UpstreamListener>& listener) override {
    const auto& loop = loops_[next_.fetch_add(1, std::memory_order_relaxed) % loops_.size()];
    const bool is_sent =
        loop->hand_over([loop, request = std::move(request), hears = listener]() mutable {
          if (loop->is_stopping()) return hears->failed(UpstreamFault::not_sent);
          std::make_shared<Wire>(loop, std::move(request), std::move(hears))->begin();
        });
    if (!is_sent) listener->failed(UpstreamFault::not_sent);
  }

  void stop() override { stop_loops(); }

 private:
  void stop_loops() {
    for (const auto& loop : loops_) loop->stop();
  }

  const Origin origin_;
  std::vector<std::shared_ptr<Loop>> loops_;
  std::atomic<std::size_t> next_ = 0;
};

}  // namespace

std::shared_ptr<Upstream> Upstream::open(Origin origin, const UpstreamOptions& options) {
  return std::make_shared<SocketUpstream>(std::move(origin), options);
}

}  // namespace semel::http
