// One request on its way through a proxy.
#pragma once

#include "http/listener.hpp"
#include "http/proxy.hpp"
#include "http/proxy_config.hpp"
#include "http/upstream.hpp"
#include "idempotency/kernel.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace semel::http {

/// The answer's way back to the client, and the line in the log.
class ProxyAnswer {
 public:
  /// `log`: null where nobody keeps one.
  ProxyAnswer(Responder responder, const Request& request, std::shared_ptr<const AccessLogger> log);

  bool is_open() const { return responder_.has_value(); }

  BodyStream body() const { return responder_->body(); }

  void answer(std::string_view outcome, Response response);
  AnswerStream stream(std::string_view outcome, Response head, std::optional<std::uint64_t> length);

 private:
  void log(std::string_view outcome, int status);

  std::optional<Responder> responder_;
  AccessLine line_;  ///< `took` is when it began, until it is logged
  std::shared_ptr<const AccessLogger> log_;
};

/// Sends a request without a key and passes on what comes, in both directions no faster than the slower side.
void pass_through(Upstream& upstream, UpstreamRequest request, ProxyAnswer answer);

/// What a keyed request needs on its way.
struct Keyed {
  idempotency::Kernel& kernel;
  std::shared_ptr<const ProxyConfig> config;  ///< keeps `rules`
  const ProxyRules& rules;
  store::Reserve ask;
  idempotency::Patience patience;
  std::shared_ptr<Upstream> upstream;
  UpstreamRequest request;
  std::shared_ptr<Upstream> auth_check{};  ///< asked first, where there is one
  UpstreamRequest auth_request{};
};

/// Asks whether the caller may, reserves the key, sends the request once and stores the answer before the client gets it.
void execute_once(Keyed keyed, ProxyAnswer answer);

}  // namespace semel::http
