// Sockets, threads and time. Each thread has its own event loop, its own listening socket (SO_REUSEPORT: the kernel
// spreads the clients) and its own connections, so nothing is shared while requests are served.
#include "http/listener.hpp"

#include "http/connection.hpp"
#include "http/event_loops.hpp"

#include <semel/error.hpp>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <fmt/format.h>

#include <atomic>
#include <future>
#include <mutex>
#include <unordered_set>
#include <vector>

namespace semel::http {

namespace {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using Tcp = asio::ip::tcp;
using boost::system::error_code;
// Concrete, because the type-erased default costs a fifth of the throughput.
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<Tcp, Executor>;
using Acceptor = asio::basic_socket_acceptor<Tcp, Executor>;
using Timer = asio::basic_waitable_timer<std::chrono::steady_clock,
                                         asio::wait_traits<std::chrono::steady_clock>, Executor>;
using ReusePort = asio::detail::socket_option::boolean<SOL_SOCKET, SO_REUSEPORT>;

constexpr std::chrono::nanoseconds tick_max = std::chrono::milliseconds{250};
constexpr std::chrono::nanoseconds tick_min = std::chrono::milliseconds{1};

/// How often deadlines are looked at: often enough for the shortest of them to be about right.
std::chrono::nanoseconds tick_of(const ListenerOptions& options) {
  const auto shortest = std::min({options.limits.header_timeout, options.limits.idle_timeout,
                                  options.limits.linger, options.stop_grace});
  return std::clamp(shortest / 4, tick_min, tick_max);
}

std::string http_date(TimePoint now) {
  static constexpr auto days =
      std::to_array<std::string_view>({"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"});
  static constexpr auto months = std::to_array<std::string_view>(
      {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"});
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{std::chrono::floor<std::chrono::seconds>(now - day)};
  return fmt::format("{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
                     days[std::chrono::weekday{day}.c_encoding()],
                     static_cast<unsigned>(date.day()),
                     months[static_cast<unsigned>(date.month()) - 1], static_cast<int>(date.year()),
                     time.hours().count(), time.minutes().count(), time.seconds().count());
}

/// What belongs to one thread. Lives until its last connection does, which may be longer than the listener: a handler may
/// still hold a request.
class Loop final : public ConnectionLoop, public std::enable_shared_from_this<Loop> {
 public:
  Loop(std::shared_ptr<asio::io_context> io, const ListenerOptions& options, Handler& handler,
       const base::Clock& clock, std::shared_ptr<ssl::context> tls)
      : io_(std::move(io)),
        options_(options),
        handler_(handler),
        clock_(clock),
        tls_(std::move(tls)),
        tick_(tick_of(options)),
        acceptor_(io_->get_executor()),
        ticker_(io_->get_executor()),
        ended_(end_.get_future()) {}

  /// Takes `endpoint`, as the first or with those before it; port 0 becomes the one that was free. Sockets that share a port
  /// would also share it with another process that does so: the first asks for it alone.
  void listen(Tcp::endpoint& endpoint, bool is_first) {
    acceptor_.open(endpoint.protocol());
    acceptor_.set_option(Acceptor::reuse_address(true));
    if (!is_first) acceptor_.set_option(ReusePort(true));
    acceptor_.bind(endpoint);
    acceptor_.set_option(ReusePort(true));
    acceptor_.listen(asio::socket_base::max_listen_connections);
    endpoint = acceptor_.local_endpoint();
  }

  void start() {
    now_ = base::monotonic_now();
    hand_over([this] {
      look_at_clock();
      accept();
    });
  }

  void request_stop() {
    hand_over([this] { begin_stop(); });
  }

  /// Until nothing is handed over any more.
  void join() { ended_.wait(); }

  std::chrono::nanoseconds coarse_now() const override { return now_; }

  std::string_view date() override { return date_; }

  bool is_here() const override { return io_->get_executor().running_in_this_thread(); }

  bool is_stopping() const override { return is_stopping_; }

  bool hand_over(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    if (is_over_) return false;
    handed_over_.push_back(std::move(work));
    if (handed_over_.size() == 1)
      asio::post(*io_, [self = shared_from_this()] { self->take_over(); });
    return true;
  }

  const ListenerOptions& options() const { return options_; }

  Handler& handler() { return handler_; }

  /// From any thread.
  std::size_t open_connections() const { return open_.load(std::memory_order_relaxed); }

  void add(Connection* connection) {
    connections_.insert(connection);
    open_.store(connections_.size(), std::memory_order_relaxed);
  }

  void remove(Connection* connection) {
    connections_.erase(connection);
    open_.store(connections_.size(), std::memory_order_relaxed);
    end_if_done();
  }

 private:
  void take_over() {
    std::vector<std::function<void()>> work;
    {
      const std::lock_guard lock(mutex_);
      work.swap(handed_over_);
    }
    for (auto& each : work) {
      each();
      each = nullptr;
    }
  }

  /// What was handed over is done: somebody was told so.
  bool is_last_work_done() {
    const std::lock_guard lock(mutex_);
    is_over_ = handed_over_.empty();
    return is_over_;
  }

  void accept();
  void open(Socket socket);

  void look_at_clock() {
    now_ = base::monotonic_now();
    const TimePoint wall = clock_.now();
    const auto second = std::chrono::floor<std::chrono::seconds>(wall);
    if (second == date_second_) return;
    date_second_ = second;
    date_ = http_date(wall);
  }

  /// Runs while there are connections: an idle server sleeps.
  void tick() {
    if (is_ticking_) return;
    is_ticking_ = true;
    ticker_.expires_after(tick_);
    ticker_.async_wait([this, self = shared_from_this()](error_code) {
      is_ticking_ = false;
      look_at_clock();
      std::vector<std::shared_ptr<Connection>> due;
      for (Connection* each : connections_) {
        const auto deadline = each->deadline();
        // One tick later than asked: what is coarse must not be early.
        if (deadline.count() != 0 && deadline + tick_ <= now_)
          due.push_back(each->shared_from_this());
      }
      for (const auto& each : due) each->on_deadline();
      if (is_stopping_ && now_ >= stop_at_) cut_all();
      if (std::exchange(is_full_, false) && !is_stopping_) accept();
      if (!connections_.empty()) tick();
    });
  }

  void begin_stop() {
    if (is_stopping_) return;
    is_stopping_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    look_at_clock();
    stop_at_ = now_ + options_.stop_grace;
    for (const auto& each : all()) each->on_stop();
    end_if_done();
  }

  void cut_all() {
    for (const auto& each : all()) each->cut();
  }

  std::vector<std::shared_ptr<Connection>> all() {
    std::vector<std::shared_ptr<Connection>> connections;
    connections.reserve(connections_.size());
    for (Connection* each : connections_) connections.push_back(each->shared_from_this());
    return connections;
  }

  void end_if_done() {
    if (!is_stopping_ || !connections_.empty() || std::exchange(is_ending_, true)) return;
    ticker_.cancel();
    // Later: the last connection is in the middle of what it does.
    asio::post(*io_, [self = shared_from_this()] {
      while (!self->is_last_work_done()) self->take_over();
      self->end_.set_value();
    });
  }

  const std::shared_ptr<asio::io_context> io_;
  const ListenerOptions options_;
  Handler& handler_;
  const base::Clock& clock_;
  const std::shared_ptr<ssl::context> tls_;
  const std::chrono::nanoseconds tick_;
  Acceptor acceptor_;
  Timer ticker_;

  std::unordered_set<Connection*> connections_;
  std::atomic<std::size_t> open_{0};  ///< as many, for others to read
  std::chrono::nanoseconds now_{};
  std::chrono::nanoseconds stop_at_{};
  std::chrono::sys_seconds date_second_{};
  std::string date_;
  bool is_ticking_ = false;
  bool is_stopping_ = false;
  bool is_ending_ = false;
  bool is_full_ =
      false;  ///< the process has no descriptors left; nobody is accepted until the next tick

  std::mutex mutex_;
  std::vector<std::function<void()>> handed_over_;
  bool is_over_ = false;
  std::promise<void> end_;
  const std::shared_future<void> ended_;
};

using Buffers = std::array<asio::const_buffer, 3>;

Buffers buffers_of(const std::array<std::string_view, 3>& parts) {
  return {asio::buffer(parts[0]), asio::buffer(parts[1]), asio::buffer(parts[2])};
}

/// Without the port: it says nothing about who it is.
std::string peer_of(const Socket& socket) {
  error_code error;
  const Tcp::endpoint peer = socket.remote_endpoint(error);
  return error ? std::string{} : peer.address().to_string();
}

/// What plain and TLS connections share: they are known to their loop while they are open, and keep it alive.
class SocketConnection : public Connection {
 public:
  SocketConnection(const std::shared_ptr<Loop>& loop, std::string peer)
      : Connection(*loop, loop->handler(), loop->options().limits, std::move(peer)), loop_(loop) {
    loop_->add(this);
  }

 protected:
  void leave() { loop_->remove(this); }

  auto read_handler() {
    return [self = shared_from_this()](error_code error, std::size_t bytes) {
      self->on_read(error ? 0 : bytes);
    };
  }

  auto write_handler() {
    return [self = shared_from_this()](error_code error, std::size_t bytes) {
      self->on_written(error ? 0 : bytes);
    };
  }

 private:
  const std::shared_ptr<Loop> loop_;
};

class PlainConnection final : public SocketConnection {
 public:
  PlainConnection(const std::shared_ptr<Loop>& loop, Socket socket)
      : SocketConnection(loop, peer_of(socket)), socket_(std::move(socket)) {}

 private:
  void start_read(char* into, std::size_t size) override {
    socket_.async_read_some(asio::buffer(into, size), read_handler());
  }

  std::ptrdiff_t start_write(const Parts& parts) override {
    // An answer nearly always fits into the socket's buffer, so it leaves here and now.
    error_code error;
    const std::size_t written = socket_.write_some(buffers_of(parts), error);
    if (!error) return static_cast<std::ptrdiff_t>(written);
    if (error != asio::error::would_block && error != asio::error::try_again) return 0;
    socket_.async_write_some(buffers_of(parts), write_handler());
    return pending;
  }

  void start_shut_down() override {
    error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
    on_shut_down();
  }

  void close_transport() override {
    error_code ignored;
    socket_.close(ignored);
    leave();
  }

  Socket socket_;
};

class TlsConnection final : public SocketConnection {
 public:
  TlsConnection(const std::shared_ptr<Loop>& loop, Socket socket, std::shared_ptr<ssl::context> tls)
      : SocketConnection(loop, peer_of(socket)),
        tls_(std::move(tls)),
        stream_(std::move(socket), *tls_) {}

  void shake_hands() {
    stream_.async_handshake(ssl::stream_base::server,
                            [this, self = shared_from_this()](error_code error) {
                              if (error) {
                                cut();
                              } else {
                                begin();
                              }
                            });
  }

 private:
  void start_read(char* into, std::size_t size) override {
    if (is_shut_) {
      stream_.next_layer().async_read_some(asio::buffer(into, size), read_handler());
    } else {
      stream_.async_read_some(asio::buffer(into, size), read_handler());
    }
  }

  std::ptrdiff_t start_write(const Parts& parts) override {
    stream_.async_write_some(buffers_of(parts), write_handler());
    return pending;
  }

  void start_shut_down() override {
    // Fails where the client is still sending. Then it is read below TLS until it stops: nobody looks at it.
    stream_.async_shutdown([this, self = shared_from_this()](error_code) {
      is_shut_ = true;
      error_code ignored;
      stream_.lowest_layer().shutdown(Socket::shutdown_send, ignored);
      on_shut_down();
    });
  }

  void close_transport() override {
    error_code ignored;
    stream_.lowest_layer().close(ignored);
    leave();
  }

  const std::shared_ptr<ssl::context> tls_;
  ssl::stream<Socket> stream_;
  bool is_shut_ = false;
};

void Loop::accept() {
  acceptor_.async_accept([this, self = shared_from_this()](error_code error, Socket socket) {
    if (is_stopping_) return;
    if (!error) open(std::move(socket));
    if (error == asio::error::no_descriptors || error == asio::error::no_memory) {
      // Taking the next one at once would fail as well, and spin; connections that end make room.
      is_full_ = true;
      tick();
      return;
    }
    accept();
  });
}

void Loop::open(Socket socket) {
  error_code error;
  socket.set_option(Tcp::no_delay(true), error);
  if (!error) socket.non_blocking(true, error);
  if (error) return;  // gone already
  if (connections_.empty()) look_at_clock();
  if (tls_) {
    const auto connection =
        std::make_shared<TlsConnection>(shared_from_this(), std::move(socket), tls_);
    connection->shake_hands();
  } else {
    std::make_shared<PlainConnection>(shared_from_this(), std::move(socket))->begin();
  }
  tick();
}

std::shared_ptr<ssl::context> tls_context(const ListenerOptions& options) {
  if (options.certificate_file.empty() && options.key_file.empty()) return nullptr;
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  context->set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                       ssl::context::no_tlsv1_1 | ssl::context::no_compression);
  error_code error;
  context->use_certificate_chain_file(options.certificate_file, error);
  if (error) throw Error("LISTEN_FAILED", "cannot use the certificate " + options.certificate_file);
  context->use_private_key_file(options.key_file, ssl::context::pem, error);
  if (error) throw Error("LISTEN_FAILED", "cannot use the key " + options.key_file);
  return context;
}

Tcp::endpoint endpoint_of(const ListenerOptions& options) {
  error_code error;
  const auto address = asio::ip::make_address(options.host, error);
  if (!error) return {address, options.port};
  asio::io_context io;
  const auto found = Tcp::resolver(io).resolve(options.host, std::to_string(options.port), error);
  if (error || found.empty()) throw Error("LISTEN_FAILED", "no address for " + options.host);
  return *found.begin();
}

class SocketListener final : public Listener {
 public:
  SocketListener(const ListenerOptions& options, Handler& handler, const base::Clock& clock,
                 std::unique_ptr<EventLoops> own, EventLoops& loops)
      : own_(std::move(own)) {
    const auto tls = tls_context(options);
    Tcp::endpoint endpoint = endpoint_of(options);
    try {
      for (const auto& io : loops.all()) {
        loops_.push_back(std::make_shared<Loop>(io, options, handler, clock, tls));
        loops_.back()->listen(endpoint, loops_.size() == 1);
      }
    } catch (const boost::system::system_error& error) {
      throw Error("LISTEN_FAILED", fmt::format("cannot listen on {}:{}: {}", options.host,
                                               endpoint.port(), error.code().message()));
    }
    port_ = endpoint.port();
    for (const auto& loop : loops_) loop->start();
  }

  // What could throw here are locks and threads of a broken process.
  ~SocketListener() override { stop(); }  // NOLINT(bugprone-exception-escape)

  std::uint16_t port() const override { return port_; }

  std::size_t connections() const override {
    std::size_t open = 0;
    for (const auto& loop : loops_) open += loop->open_connections();
    return open;
  }

  void stop() override {
    const std::lock_guard lock(stopping_);
    for (const auto& loop : loops_) loop->request_stop();
    for (const auto& loop : loops_) loop->join();
    if (own_) own_->stop();
  }

 private:
  const std::unique_ptr<EventLoops> own_;
  std::vector<std::shared_ptr<Loop>> loops_;
  std::uint16_t port_ = 0;
  std::mutex stopping_;
};

}  // namespace

std::unique_ptr<Listener> Listener::open(const ListenerOptions& options, Handler& handler,
                                         const base::Clock& clock) {
  auto own = std::make_unique<EventLoops>(options.threads);
  EventLoops& loops = *own;
  return std::make_unique<SocketListener>(options, handler, clock, std::move(own), loops);
}

std::unique_ptr<Listener> Listener::open(const ListenerOptions& options, Handler& handler,
                                         const base::Clock& clock, EventLoops& loops) {
  return std::make_unique<SocketListener>(options, handler, clock, nullptr, loops);
}

}  // namespace semel::http
