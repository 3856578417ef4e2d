// One request to one server and its answer, over a connection that is kept for the next.
#pragma once

#include <semel/detail/http_message.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace semel::http {

/// A server, as a URL names it.
struct Origin {
  bool is_tls = false;
  std::string host;  ///< without brackets
  std::string port;
  std::string authority;  ///< for the Host header
  std::string base;       ///< of all paths; no slash at its end
};

/// Throws Error, VALIDATION_ERROR, for what is not "http[s]://host[:port][/base]".
Origin read_origin(std::string_view url);

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
};

}  // namespace semel::http
