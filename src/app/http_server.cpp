// A server whose keys are remembered by an engine.
#include "http/kernel_layer.hpp"
#include "http/server_core.hpp"

#include <semel/engine.hpp>
#include <semel/http.hpp>

namespace semel::http {

Server::Server(semel::Engine& engine, ServerOptions options) : Server(std::move(options)) {
  const std::string& name = core_->options().idempotency;
  auto policy = idempotency::preset(name);
  if (!policy) {
    throw Error("VALIDATION_ERROR", "there is no idempotency preset \"" + name +
                                        "\": default, ietf, beignet, codecourier, stripe");
  }
  core_->use(make_kernel_layer(engine.idempotency(), *std::move(policy)));
}

}  // namespace semel::http
