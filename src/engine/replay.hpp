// Replay: a run's coroutines brought back to where its journal left them.
#pragma once

#include "engine/frame.hpp"
#include "journal/state.hpp"

#include <memory>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace semel::engine {

struct Replayed {
  std::unique_ptr<Frame> frame;
  journal::RunState state;
  /// What the code asked for behind the last entry: still to be written, as a `continued` entry.
  std::vector<journal::Request> fresh;
};

/// Replays `records` on `frame`, which is new. The journal is not changed, whatever comes out.
std::variant<Replayed, Divergence> replay(std::unique_ptr<Frame> frame,
                                          const detail::WorkflowType& type, std::string_view input,
                                          std::span<const journal::Record> records, TimePoint now);

}  // namespace semel::engine
