// Calls of the idempotency kernel over HTTP, as a service in any language makes them.
#pragma once

#include "http/raw_client.hpp"

#include <boost/json.hpp>

#include <cstdint>
#include <string>

namespace semel::process {

/// POST /api/v1/idempotency/`what` for one reservation of namespace "charge"; `more` is added to the body.
inline http::testing::RawAnswer kernel_call(std::uint16_t port, const std::string& what,
                                            const std::string& key, boost::json::object more) {
  more["namespace"] = "charge";
  more["key"] = key;
  const std::string body = boost::json::serialize(more);
  const auto answer = http::testing::RawClient(port)
                          .send("POST /api/v1/idempotency/" + what +
                                " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                "Content-Length: " +
                                std::to_string(body.size()) + "\r\n\r\n" + body)
                          .receive();
  if (!answer) throw std::runtime_error("the server closed without an answer");
  return *answer;
}

struct Reserved {
  std::string outcome;
  std::string fence;     ///< if it was acquired
  std::string response;  ///< if it is a replay: JSON
};

inline Reserved reserve(std::uint16_t port, const std::string& key) {
  const auto answer = kernel_call(port, "reserve", key, {{"lease", "1s"}, {"fingerprint", "f"}});
  const boost::json::object body = boost::json::parse(answer.body).as_object();
  const auto text = [&](const char* name) {
    const auto* found = body.if_contains(name);
    return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
  };
  const auto* response = body.if_contains("response");
  return {text("outcome"), text("fence"),
          response == nullptr ? "" : boost::json::serialize(*response)};
}

}  // namespace semel::process
