// One request to one server and its answer, over a connection that is kept for the next.
#pragma once

#include "http/origin.hpp"

#include <semel/detail/http_message.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace semel::http {

struct Outgoing {
  std::string method;
  std::string target;
  std::vector<Header> headers;
  std::string body;
  bool has_body = false;
};

/// There was no answer. Whether the server saw the request nobody knows.
struct NoAnswer {
  std::string reason;
};

struct TransportOptions {
  std::size_t answer_bytes_max = 0;
  std::size_t idle_connections_max = 0;
  std::string ca_file;
};

/// Any thread may call; each call has a connection of its own.
class ClientTransport {
 public:
  static std::unique_ptr<ClientTransport> open(Origin origin, TransportOptions options);

  virtual ~ClientTransport() = default;

  /// `may_reuse`: a kept connection may turn out to have been closed by the server just now, which looks like a request
  /// that was lost. Only for those that may be repeated.
  virtual std::variant<Response, NoAnswer> exchange(const Outgoing& request,
                                                    std::chrono::nanoseconds timeout,
                                                    bool may_reuse) = 0;

  /// The same for an answer that comes bit by bit, such as events: `part` is handed what has come and says whether to go on.
  /// Gives the answer's head; what came of a body that is not for `part`, because it is no 200, is in it. NoAnswer where
  /// the connection broke, or nothing came for as long as `silence`.
  virtual std::variant<Response, NoAnswer> follow(
      const Outgoing& request, std::chrono::nanoseconds silence,
      const std::function<bool(std::string_view)>& part) = 0;
};

}  // namespace semel::http
