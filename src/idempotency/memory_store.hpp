// An idempotency store in memory, by a clock that is passed in.
#pragma once

#include "base/clock.hpp"
#include "idempotency/kernel.hpp"

#include <semel/idempotency.hpp>

#include <memory>

namespace semel::idempotency {

std::shared_ptr<Port> make_memory_port(std::shared_ptr<const base::Clock> clock);

std::unique_ptr<IdempotencyStore> make_memory_store(std::shared_ptr<const base::Clock> clock,
                                                    const KernelOptions& options = {});

}  // namespace semel::idempotency
