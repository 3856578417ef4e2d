// Clients of an HTTP server on this machine: one thread, many connections, each with one request under way. It sends bytes that
// are ready and looks at as little of the answers as it can, so that what is measured is the server.
#pragma once

#include "app/bench_measure.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace semel::app::bench {

class HttpLoad {
 public:
  /// The next request of a connection, given the body of its last answer (empty at first).
  using Next = std::function<std::string_view(std::size_t connection, std::string_view last)>;

  /// Throws Error where the server cannot be reached.
  HttpLoad(std::uint16_t port, int connections);
  HttpLoad(const HttpLoad&) = delete;
  HttpLoad& operator=(const HttpLoad&) = delete;
  ~HttpLoad();

  /// Answers a second. Throws Error for any that is not 2xx.
  double run(Seconds duration, const Next& next);

 private:
  struct Connection {
    int socket = -1;
    std::string in;
  };

  void ask(std::size_t connection, std::string_view last, const Next& next);
  bool take(std::size_t connection, const Next& next, bool asks_again);

  int events_ = -1;
  std::vector<Connection> connections_;
};

/// A request as bytes; without a body a GET.
std::string http_request(std::string_view path, std::string_view body = {});

}  // namespace semel::app::bench
