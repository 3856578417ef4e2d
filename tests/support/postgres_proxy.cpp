#include "tests/support/postgres_proxy.hpp"

#include "tests/support/postgres_server.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <set>

namespace semel::testing {

namespace {

constexpr std::chrono::milliseconds late{30};
/// How a statement begins that writes an entry in a transaction without BEGIN and COMMIT.
constexpr std::string_view entry_alone =
    "INSERT INTO semel.journal (run, seq, at, entry) SELECT $1::bigint";

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

/// Messages are passed on one by one: none may wait for the answer to the one before.
void send_at_once(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void reset(int socket) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

/// False: the other side is gone.
bool receive(int socket, std::string& bytes) {
  std::array<char, 16384> buffer{};
  const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), 0);
  if (got <= 0) return false;
  bytes.append(buffer.data(), static_cast<std::size_t>(got));
  return true;
}

using namespace std::string_view_literals;

constexpr std::string_view answer_to_commit = "C\0\0\0\013COMMIT\0"sv;
constexpr std::string_view panic = "E\0\0\0\060SPANIC\0VPANIC\0C58030\0Mcould not fsync file\0\0"sv;
static_assert(panic.size() == 1 + 060);

std::uint32_t length_at(const std::string& bytes, std::size_t at) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < 4; ++i)
    length = length << 8U | static_cast<unsigned char>(bytes[at + i]);
  return length;
}

}  // namespace

/// One client and its connection to the server.
class PostgresProxy::Link {
 public:
  Link(PostgresProxy& proxy, int client) : proxy_(proxy), client_(client) {
    server_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in address = loopback(proxy.server_port_);
    send_at_once(client_);
    send_at_once(server_);
    is_open_ = ::connect(server_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }

  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  ~Link() {
    ::close(client_);
    ::close(server_);
  }

  void run() {
    while (is_open_) {
      std::array<pollfd, 3> sockets{pollfd{client_, POLLIN, 0}, pollfd{server_, POLLIN, 0},
                                    pollfd{proxy_.stop_, POLLIN, 0}};
      ::poll(sockets.data(), sockets.size(), -1);
      if (sockets[2].revents != 0) return;
      if (sockets[0].revents != 0) from_client();
      if (is_open_ && sockets[1].revents != 0) from_server();
    }
  }

 private:
  void from_client() {
    is_open_ = receive(client_, asked_);
    while (is_open_) {
      const auto message = next_message();
      if (!message) return;
      pass_on(*message);
    }
  }

  /// A whole message of the client's.
  std::optional<std::string> next_message() {
    const std::size_t head = has_begun_ ? 1 : 0;  // the first has no letter in front
    if (asked_.size() < head + 4) return std::nullopt;
    const std::size_t size = head + length_at(asked_, head);
    if (asked_.size() < size) return std::nullopt;
    std::string message = asked_.substr(0, size);
    asked_.erase(0, size);
    return message;
  }

  void pass_on(const std::string& message) {
    const char letter = has_begun_ ? message[0] : '\0';
    has_begun_ = true;
    const std::string first = letter == 'P' || letter == 'B' ? message.c_str() + 5 : "";
    const std::string second =
        letter == 'P' || letter == 'B' ? message.c_str() + 5 + first.size() + 1 : "";
    if (letter == 'P' && second == "COMMIT") commit_names_.insert(first);
    if (letter == 'P' && second.starts_with(entry_alone)) alone_names_.insert(first);
    const bool is_alone = letter == 'B' && alone_names_.contains(second);
    const bool is_commit = is_alone || (letter == 'B' && commit_names_.contains(second));
    if (is_commit && fate_now_ == Fate::passed_on) {  // two entries may be one commit
      fate_now_ = proxy_.fate_.exchange(Fate::passed_on);
      if (fate_now_ != Fate::passed_on) ++proxy_.interfered_;
      if (fate_now_ != Fate::passed_on && is_alone) ++proxy_.interfered_alone_;
      if (fate_now_ == Fate::cut_before) {
        is_open_ = false;
        return;
      }
    }
    if (letter == 'Q' && message.c_str() + 5 == "ROLLBACK"sv &&
        proxy_.cuts_rollback_.exchange(false)) {
      is_open_ = false;
      return;
    }
    is_open_ = send_all(server_, message);
    // Everything up to the end of the pipeline: then the server executes it.
    if (letter == 'S' && fate_now_ == Fate::cut_at_once) {
      reset(client_);
      reset(server_);
      is_open_ = false;
    }
  }

  void from_server() {
    std::string answer;
    is_open_ = receive(server_, answer);
    if (fate_now_ == Fate::passed_on) {
      if (!send_all(client_, answer)) is_open_ = false;
      return;
    }
    answered_ += answer;
    // Not before the server is ready for more: that it was executed says nothing of what is written.
    if (answered_.find(std::string_view{"Z\0\0\0\5I", 6}) == std::string::npos) return;
    switch (fate_now_) {
      case Fate::cut_after:
        is_open_ = false;
        return;
      case Fate::stalled:
        return;
      case Fate::panicked:
        send_all(client_, answered_.substr(0, answered_.find(answer_to_commit)));
        send_all(client_, panic);
        is_open_ = false;
        return;
      default:
        break;
    }
    // A delay is what is tested here, and nothing waits for it but the client.
    pollfd stop{proxy_.stop_, POLLIN, 0};
    ::poll(&stop, 1, static_cast<int>(late.count()));
    fate_now_ = Fate::passed_on;
    if (!send_all(client_, answered_)) is_open_ = false;
    answered_.clear();
  }

  PostgresProxy& proxy_;
  int client_;
  int server_ = -1;
  bool is_open_ = true;
  bool has_begun_ = false;
  Fate fate_now_ = Fate::passed_on;
  std::string asked_;
  std::string answered_;
  std::set<std::string> commit_names_;  ///< prepared statements that are COMMIT
  std::set<std::string> alone_names_;   ///< … that write a transaction without BEGIN and COMMIT
};

PostgresProxy::PostgresProxy(int server_port)
    : server_port_(server_port),
      listener_(::socket(AF_INET, SOCK_STREAM, 0)),
      stop_(::eventfd(0, 0)) {
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listener_, any, size) == 0);
  REQUIRE(::getsockname(listener_, any, &size) == 0);
  REQUIRE(::listen(listener_, 64) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_links(); });
}

PostgresProxy::~PostgresProxy() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(stop_, &one, sizeof one));
  acceptor_.join();
  for (std::thread& link : links_) link.join();
  ::close(listener_);
  ::close(stop_);
}

std::string PostgresProxy::url() const {
  return PostgresServer::url_of(port_) + "?sslmode=disable&gssencmode=disable";
}

void PostgresProxy::accept_links() {
  for (;;) {
    std::array<pollfd, 2> sockets{pollfd{listener_, POLLIN, 0}, pollfd{stop_, POLLIN, 0}};
    ::poll(sockets.data(), sockets.size(), -1);
    if (sockets[1].revents != 0) return;
    const int client = ::accept(listener_, nullptr, nullptr);
    if (client < 0) continue;
    links_.emplace_back([this, client] { Link{*this, client}.run(); });
  }
}

}  // namespace semel::testing
