// Idempotency at the HTTP boundary, on top of the kernel: a key is the request's own before the handler runs, its answer stored
// before it is sent, and whoever asks again gets the same bytes.
#pragma once

#include "http/idempotency_layer.hpp"
#include "idempotency/policy.hpp"

#include <semel/idempotency.hpp>

#include <memory>

namespace semel::http {

/// `store` outlives the layer and all requests. What a contract declares (scope, lifetime, whether a key is required, the
/// header's name) wins over the policy; the rest is the policy's.
std::shared_ptr<IdempotencyLayer> make_kernel_layer(IdempotencyStore& store,
                                                    idempotency::Policy policy);

}  // namespace semel::http
