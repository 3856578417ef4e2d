#include "app/bench_load.hpp"

#include <semel/error.hpp>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>

namespace semel::app::bench {

namespace {

constexpr std::string_view end_of_head = "\r\n\r\n";
constexpr std::string_view length_header = "\r\ncontent-length: ";

Error lost(std::string_view what) {
  return {"STORE_UNAVAILABLE", fmt::format("the server under test {}", what)};
}

int connect_to(std::uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    ::close(socket);
    throw lost("cannot be reached");
  }
  return socket;
}

/// Where the body of a whole answer begins, and its size.
struct Framed {
  std::size_t body = 0;
  std::size_t length = 0;
};

/// The size is 0 while the answer is not whole.
Framed frame(std::string_view in) {
  const std::size_t end = in.find(end_of_head);
  if (end == std::string_view::npos) return {};
  const std::string_view head = in.substr(0, end + 2);
  if (!head.starts_with("HTTP/1.1 2"))
    throw lost(fmt::format("answers {}", head.substr(0, head.find('\r'))));
  const std::size_t at = head.find(length_header);
  if (at == std::string_view::npos) throw lost("says no length");
  std::size_t length = 0;
  std::from_chars(head.data() + at + length_header.size(), head.data() + head.size(), length);
  const std::size_t body = end + end_of_head.size();
  return in.size() < body + length ? Framed{} : Framed{body, length};
}

}  // namespace

HttpLoad::HttpLoad(std::uint16_t port, int connections) : events_(::epoll_create1(EPOLL_CLOEXEC)) {
  connections_.resize(static_cast<std::size_t>(connections));
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    connections_[i].socket = connect_to(port);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    ::epoll_ctl(events_, EPOLL_CTL_ADD, connections_[i].socket, &event);
  }
}

HttpLoad::~HttpLoad() {
  for (const Connection& connection : connections_) {
    if (connection.socket >= 0) ::close(connection.socket);
  }
  ::close(events_);
}

void HttpLoad::ask(std::size_t connection, std::string_view last, const Next& next) {
  std::string_view bytes = next(connection, last);
  while (!bytes.empty()) {
    const ssize_t sent =
        ::send(connections_[connection].socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) throw lost("has closed a connection");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

/// True where it had an answer.
bool HttpLoad::take(std::size_t connection, const Next& next, bool asks_again) {
  Connection& from = connections_[connection];
  std::array<char, 16384> bytes;
  const ssize_t got = ::recv(from.socket, bytes.data(), bytes.size(), 0);
  if (got <= 0) throw lost("has closed a connection");
  from.in.append(bytes.data(), static_cast<std::size_t>(got));
  const Framed framed = frame(from.in);
  if (framed.body == 0) return false;
  const std::string body = from.in.substr(framed.body, framed.length);
  from.in.clear();
  if (asks_again) ask(connection, body, next);
  return true;
}

double HttpLoad::run(Seconds duration, const Next& next) {
  std::uint64_t answers = 0;
  std::size_t under_way = connections_.size();
  const double began = seconds_now();
  double counted = 0;
  bool goes_on = true;
  for (std::size_t i = 0; i < connections_.size(); ++i) ask(i, {}, next);
  std::array<epoll_event, 64> events{};
  while (under_way > 0) {
    const int ready = ::epoll_wait(events_, events.data(), events.size(), -1);
    if (goes_on && seconds_now() - began >= duration.count()) {
      goes_on = false;
      counted = static_cast<double>(answers) / (seconds_now() - began);
    }
    for (int i = 0; i < ready; ++i) {
      const bool answered = take(events.at(static_cast<std::size_t>(i)).data.u64, next, goes_on);
      answers += answered ? 1 : 0;
      under_way -= answered && !goes_on ? 1 : 0;
    }
  }
  return counted;
}

std::string http_request(std::string_view path, std::string_view body) {
  if (body.empty()) return fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Content-Length: {}\r\n\r\n{}",
      path, body.size(), body);
}

}  // namespace semel::app::bench
