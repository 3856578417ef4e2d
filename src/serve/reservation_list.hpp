// Which keys are in use.
#pragma once

#include "engine/driver.hpp"
#include "http/listener.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace semel::serve {

struct ReservationQuery {
  std::string workspace;
  std::optional<std::string> ns;
  std::size_t limit = 50;
  std::optional<std::int64_t> before;  ///< the fence where the page before ended
};

/// Answers with the newest first. A page may have fewer than `limit` and still be followed by another: so many rows are looked
/// at for one, whosever they are. Does not block.
void list_reservations(engine::Driver& driver, ReservationQuery query,
                       std::shared_ptr<http::Responder> client);

/// The parts of a scope, out of its text; empty where it is none.
std::map<std::string, std::string> scope_parts(std::string_view text);

}  // namespace semel::serve
