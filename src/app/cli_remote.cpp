#include "app/cli_remote.hpp"

#include "http/client_core.hpp"
#include "http/origin.hpp"
#include "http/target.hpp"

#include <utility>
#include <variant>

namespace semel::app {

namespace {

constexpr std::size_t answer_bytes_max = std::size_t{1} << 20U;

http::ClientOptions options_of(const std::string& api_key) {
  http::ClientOptions options;
  if (!api_key.empty()) options.headers["authorization"] = "Bearer " + api_key;
  // Longer than the server lets anybody wait for a result.
  options.attempt_timeout = std::chrono::seconds{75};
  return options;
}

}  // namespace

Remote::Remote(std::string url, const std::string& api_key)
    : url_(std::move(url)), api_key_(api_key), client_(url_, options_of(api_key)) {}

/// A server that is not there is what goes wrong most often: say where we looked and what to do.
template <class F>
auto Remote::reach(F call) {
  try {
    return call();
  } catch (const Error& error) {
    if (error.code() == "CONNECTION_FAILED") {
      throw Error(error.code(), "no answer from " + url_ + ": " + error.what() +
                                    "\nIs `semel serve` running there? --server URL or "
                                    "SEMEL_SERVER says where it is; --store reads a file.");
    }
    if (error.code() == "UNAUTHENTICATED") {
      throw Error(error.code(),
                  url_ + " wants an API key: set SEMEL_API_KEY (`semel api-key create` makes one)");
    }
    throw;
  }
}

Json Remote::get(const std::string& path, const Parameters& places, const Parameters& query) {
  return reach(
      [&] { return client_.call(http::get<Json>(path), {}, {.path = places, .query = query}); });
}

Json Remote::post(const std::string& path, const Parameters& places, const Json& body,
                  const std::optional<std::string>& key) {
  return reach([&] {
    return client_.call(http::post<Json, Json>(path).idempotent({}), body,
                        {.idempotency_key = key, .path = places});
  });
}

void Remote::follow(const std::string& path, const Parameters& places,
                    const std::function<bool(const Event&)>& each) {
  std::string target = path;
  for (const auto& [name, text] : places) {
    const std::string place = "{" + name + "}";
    if (const std::size_t at = target.find(place); at != std::string::npos)
      target.replace(at, place.size(), http::percent_encoded(text));
  }
  reach([&] {
    const auto transport = http::ClientTransport::open(http::read_origin(url_),
                                                       {.answer_bytes_max = answer_bytes_max});
    http::Outgoing request{.method = "GET", .target = target};
    if (!api_key_.empty()) request.headers.push_back({"authorization", "Bearer " + api_key_});
    follow_events(*transport, std::move(request), each, http::detail::system_sources().wait);
  });
}

void Remote::remove(const std::string& path, const Parameters& places, const Parameters& query) {
  reach([&] {
    return client_.call(http::del<std::monostate>(path), {}, {.path = places, .query = query});
  });
}

}  // namespace semel::app
