// What the store knows of runs, hooks and entries, as JSON.
#pragma once

#include "engine/loop.hpp"
#include "engine/registry.hpp"
#include "store/reader.hpp"

#include <semel/detail/http_message.hpp>

#include <boost/json/object.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace semel::serve {

/// What is known of a run besides its row.
struct Beside {
  /// Of its generation, in order; absent: too many to look through, and nothing is said about what it waits for.
  std::optional<std::vector<std::string>> entries{};
  std::vector<TimePoint> times{};          ///< of the entries, where known
  std::optional<TimePoint> started_at{};   ///< when its first entry was written
  std::optional<TimePoint> starts_at{};    ///< of a delayed run
  std::optional<store::RunOwner> owner{};  ///< of an unfinished run on a store that nodes share
};

/// HTTP.md's Run.
boost::json::object view(const store::RunRecord& run, const Beside& beside,
                         const engine::Registry& registry);

/// {"status", "output"} or {"status", "error"}.
boost::json::object result_view(const detail::RunEnd& end);

std::string_view word_of(store::ReservationState state);

boost::json::object view(const store::HookRecord& hook);
/// {"items", "unownedPartitions"}.
boost::json::object view(const store::NodeList& nodes);
boost::json::object view(const Entry& entry);

/// From the reader: for those who look.
store::RunRecord find_run(store::Reader& reader, const std::string& workspace,
                          const std::string& id);
Beside read_beside(store::Reader& reader, const store::RunRecord& run);

/// A value, or what a failure is answered with.
template <class T>
T value_or_throw(base::Result<T> result) {
  if (!result) throw Error("STORE_UNAVAILABLE", "the store is not available");
  return *std::move(result);
}

/// An answer with a JSON body.
http::Response json_answer(int status, const boost::json::object& body);

}  // namespace semel::serve
