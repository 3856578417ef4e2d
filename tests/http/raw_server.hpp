// A server for tests that answers with exactly the bytes it is told to, and then closes.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace semel::http::testing {

class RawServer {
 public:
  /// The answers to the first, second, … request; the last one also to all that follow.
  explicit RawServer(std::vector<std::string> answers)
      : answers_(std::move(answers)), socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(socket_, 16) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("cannot listen");
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }

  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  ~RawServer() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }

  std::uint16_t port() const { return port_; }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  std::size_t requests() {
    const std::lock_guard lock(mutex_);
    return requests_.size();
  }

  std::string last_request() {
    const std::lock_guard lock(mutex_);
    return requests_.empty() ? "" : requests_.back();
  }

 private:
  void serve() {
    for (;;) {
      const int client = ::accept(socket_, nullptr, nullptr);
      if (client < 0) return;
      const std::string request = read_request(client);
      std::string answer;
      if (!request.empty()) {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
        if (!answers_.empty()) answer = answers_[std::min(requests_.size(), answers_.size()) - 1];
      }
      static_cast<void>(::send(client, answer.data(), answer.size(), MSG_NOSIGNAL));
      ::close(client);
    }
  }

  /// With its body, where a Content-Length says how long that is.
  static std::string read_request(int client) {
    std::string text;
    char bytes[4096];
    for (;;) {
      const std::size_t end = text.find("\r\n\r\n");
      if (end != std::string::npos) {
        const std::size_t at = text.find("Content-Length: ");
        const auto length =
            at < end ? static_cast<std::size_t>(std::atoll(text.c_str() + at + 16)) : 0;
        if (text.size() >= end + 4 + length) return text;
      }
      const ssize_t got = ::recv(client, bytes, sizeof bytes, 0);
      if (got <= 0) return {};
      text.append(bytes, static_cast<std::size_t>(got));
    }
  }

  const std::vector<std::string> answers_;
  const int socket_;
  std::uint16_t port_ = 0;
  std::mutex mutex_;
  std::vector<std::string> requests_;
  std::jthread thread_;
};

}  // namespace semel::http::testing
