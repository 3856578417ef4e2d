// A server as the command line sees it: what it answers is JSON, what it refuses is thrown as an Error with its code.
#pragma once

#include "app/cli_events.hpp"

#include <semel/http.hpp>
#include <semel/value.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace semel::app {

/// Where commands go that nobody told.
inline constexpr const char* default_server = "http://127.0.0.1:7373";

using Parameters = std::map<std::string, std::string>;

class Remote {
 public:
  /// `api_key`: empty for a server without keys.
  Remote(std::string url, const std::string& api_key);

  /// `path` may have {braces}, filled from `places`.
  Json get(const std::string& path, const Parameters& places = {}, const Parameters& query = {});

  /// Sent under `key`, or under one made up, which is the same on every attempt.
  Json post(const std::string& path, const Parameters& places, const Json& body,
            const std::optional<std::string>& key = {});

  /// The events at `path`, until `each` says that it was the last; see `follow_events`.
  void follow(const std::string& path, const Parameters& places,
              const std::function<bool(const Event&)>& each);

  void remove(const std::string& path, const Parameters& places, const Parameters& query = {});

 private:
  template <class F>
  auto reach(F call);

  std::string url_;
  std::string api_key_;
  http::Client client_;
};

}  // namespace semel::app
