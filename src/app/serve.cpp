// An engine over HTTP.
#include "app/default_log.hpp"
#include "app/engine_core.hpp"
#include "serve/api.hpp"

#include <semel/serve.hpp>

namespace semel::http {

std::unique_ptr<Server> serve(semel::Engine& engine, ServerOptions options,
                              const WorkspaceLimits& workspace) {
  // The server asks the routes who may, and the routes are made for the server.
  const auto api = std::make_shared<std::weak_ptr<semel::serve::Api>>();
  options.authenticate = [api](const Request& request) -> std::variant<Identity, Refusal> {
    const auto alive = api->lock();
    return alive ? alive->authenticate(request) : Refusal{};
  };
  options.authorise = [api](const Request& request, const Identity&,
                            std::string_view route) -> std::optional<Refusal> {
    const auto alive = api->lock();
    return alive ? alive->authorise(request, route) : Refusal{};
  };
  semel::detail::EngineCore& core = engine.core();
  if (!options.on_error) {
    // What was thrown may have anything in it.
    options.on_error = [log = app::log_of(core.options())](std::string_view route,
                                                           const std::exception_ptr&) {
      log({.level = LogLevel::error,
           .name = "http.error",
           .message = "a request was answered with 500: a fault of the server's",
           .fields = {{"route", std::string(route)}}});
    };
  }
  auto server = std::make_unique<Server>(engine, std::move(options));
  auto routes = std::make_shared<semel::serve::Api>(
      semel::serve::Parts{.registry = core.registry(),
                          .driver = core.shared_driver(),
                          .kernel = core.kernel(),
                          .limits = core.options().limits,
                          .retention = base::bounded(core.options().retention),
                          .workspace = workspace,
                          .keys = core.make_key_reader(),
                          .node = core.node()},
      server->core());
  *api = routes;
  // The server keeps them, also on its way out where they cannot be opened.
  server->core().attach(routes);
  routes->open();
  server->start();
  return server;
}

}  // namespace semel::http
