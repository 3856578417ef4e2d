// A run that may be started later, as text: what a payload of `resume_or_start` keeps of its call.
#pragma once

#include "base/result.hpp"
#include "store/changes.hpp"

#include <string>
#include <string_view>

namespace semel::store {

/// Everything but the workspace and the token, which the payload's hook knows.
std::string encode_start(const NewRun& run);

/// The run as it is made at `now`: its delay and its deadline count from then, and its id is made up, because the one
/// asked for may be that of the run before it. `Errc::corrupt` where the text is no start.
base::Result<NewRun> decode_start(std::string_view text, const std::string& workspace,
                                  const std::string& token, TimePoint now);

/// The text for another store, where keys are shifted and there are so many partitions.
base::Result<std::string> moved_start(std::string_view text, RunKey shift, std::int32_t partitions);

/// The same for a run that was never text.
NewRun started_later(NewRun run, TimePoint now);

}  // namespace semel::store
