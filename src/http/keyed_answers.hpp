// What a keyed request is told where it is not to be executed: shared by servers and the proxy.
#pragma once

#include "base/result.hpp"
#include "idempotency/kernel.hpp"
#include "idempotency/policy.hpp"

#include <semel/detail/http_message.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace semel::http {

/// The values of all headers of that name, in the order sent.
std::vector<std::string_view> lines_of(const Request& request, std::string_view name);

/// The key in the header of that name, or what is wrong with it; nothing where there is none.
base::Result<std::optional<std::string>> key_of(const Request& request, std::string_view header);

/// Reading changes nothing, so there is nothing to do once.
bool only_reads(std::string_view method);

/// How long this request waits for another with its key: as it prefers (`Prefer: wait=N`), within the policy.
idempotency::Patience patience_of(const idempotency::Policy& policy, const Request& request);

/// The answer to whoever did not acquire the key: a replay, a conflict, somebody at work, an unknown outcome, no store.
Response answer_to(const idempotency::Policy& policy,
                   const base::Result<idempotency::Found>& found);

/// Only a replay says that it is one.
void claim_nothing(Response& answer);

}  // namespace semel::http
