// A client for tests that sends exactly the bytes it is told and shows exactly the bytes it gets.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace semel::http::testing {

/// An answer taken apart.
struct RawAnswer {
  int status = 0;
  std::string head;  ///< all of it, in lower case
  std::string body;  ///< as sent, chunks and all

  bool says(std::string_view line) const { return head.find(line) != std::string::npos; }

  /// The `code` of a problem; empty if the body has none.
  std::string code() const {
    const std::size_t at = body.find("\"code\":\"");
    return at == std::string::npos ? "" : body.substr(at + 8, body.find('"', at + 8) - at - 8);
  }
};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int on = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    // Only so that a server that hangs fails the test instead of hanging it.
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      ::close(socket_);
      throw std::runtime_error("cannot connect");
    }
  }

  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  ~RawClient() { ::close(socket_); }

  RawClient& send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;  // the server has closed; what it said can still be read
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return *this;
  }

  void finish_sending() { ::shutdown(socket_, SHUT_WR); }

  /// Closes with a reset, as a process that is killed may.
  void reset() {
    const linger hard{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    ::close(std::exchange(socket_, -1));
  }

  /// One answer; nothing if the connection ended before one began. `to_head`: an answer without a body.
  std::optional<RawAnswer> receive(bool to_head = false) {
    std::size_t end = 0;
    while ((end = in_.find("\r\n\r\n")) == std::string::npos) {
      if (!fill()) return std::nullopt;
    }
    RawAnswer answer;
    answer.head = in_.substr(0, end + 2);
    for (char& c : answer.head) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    answer.status = std::atoi(answer.head.c_str() + 9);
    in_.erase(0, end + 4);
    if (to_head || answer.status < 200) return answer;
    if (answer.says("transfer-encoding: chunked")) {
      std::size_t last = 0;
      while ((last = in_.find("0\r\n\r\n")) == std::string::npos) {
        if (!fill()) break;
      }
      const std::size_t size = last == std::string::npos ? in_.size() : last + 5;
      answer.body = in_.substr(0, size);
      in_.erase(0, size);
      return answer;
    }
    const std::size_t length_at = answer.head.find("content-length: ");
    if (length_at == std::string::npos) return answer;
    const auto length = static_cast<std::size_t>(std::atoll(answer.head.c_str() + length_at + 16));
    while (in_.size() < length && fill()) {
    }
    answer.body = in_.substr(0, length);
    in_.erase(0, length);
    return answer;
  }

  /// All bytes up to the end of `text`; nothing if the connection ends before that.
  std::string receive_until(std::string_view text) {
    std::size_t at = 0;
    while ((at = in_.find(text)) == std::string::npos) {
      if (!fill()) return {};
    }
    std::string bytes = in_.substr(0, at + text.size());
    in_.erase(0, at + text.size());
    return bytes;
  }

  /// Whether the server closes without another byte.
  bool is_closed() { return in_.empty() && !fill(); }

  /// All bytes until the server closes.
  std::string rest() {
    while (fill()) {
    }
    return std::exchange(in_, {});
  }

 private:
  bool fill() {
    char bytes[4096];
    const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
      throw std::runtime_error("the server neither answers nor closes");
    if (got <= 0) return false;
    in_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }

  int socket_;
  std::string in_;
};

}  // namespace semel::http::testing
