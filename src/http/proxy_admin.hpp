// What a proxy tells its operators, on a listener of its own: /healthz, /readyz, /metrics.
#pragma once

#include "http/listener.hpp"

#include <semel/idempotency.hpp>

#include <memory>

namespace semel::http {

/// `store` outlives it. Ready is who reaches the store.
std::unique_ptr<Handler> make_proxy_admin(IdempotencyStore& store);

}  // namespace semel::http
