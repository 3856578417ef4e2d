// Step attempts whose bodies have been handed out and have not come back.
#pragma once

#include "engine/live_run.hpp"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace semel::engine {

/// What a body is called outside of its run: bodies of an old generation may still be under way while the new one begins
/// operations of the same ids.
inline std::string body_name(std::uint32_t generation, const std::string& op) {
  return generation == 0 ? op : op + "@" + std::to_string(generation);
}

/// The operation of a body, by its name.
inline std::string body_op(const std::string& name) { return name.substr(0, name.find('@')); }

/// True on a thread that is inside the loop's own calls: a stop callback of a body, which must not call the engine.
bool inside_loop();

struct Body {
  std::string op;  ///< its name: see `body_name`
  std::uint32_t attempt = 0;
  std::stop_source stop;
  std::shared_ptr<LiveRun>
      run;  ///< kept with its coroutines whatever happens to the run: the body may refer to them
  std::optional<std::chrono::nanoseconds> timeout;
  TimePoint deadline = TimePoint::max();
  bool superseded =
      false;  ///< timed out: its result is late; the next attempt waits for it to return
  bool next_waits = false;  ///< … and is due

  /// Its stop callbacks run here and now, on the loop's thread.
  void ask_to_stop();
};

/// By run and operation. A run's list is kept while it is empty, because the next step is usually about to fill it;
/// `forget` lets go of it.
class Bodies {
 public:
  /// Null if there is none. Good until the next `add` or `take`.
  Body* find(store::RunKey run, std::string_view op) {
    const auto found = runs_.find(run);
    if (found == runs_.end()) return nullptr;
    for (Body& body : found->second) {
      if (body.op == op) return &body;
    }
    return nullptr;
  }

  const Body* find(store::RunKey run, std::string_view op) const {
    return const_cast<Bodies*>(this)->find(run, op);
  }

  void add(store::RunKey run, Body body) {
    runs_[run].push_back(std::move(body));
    ++size_;
  }

  /// Removes one that is there.
  Body take(store::RunKey run, Body& body) {
    auto& bodies = runs_.find(run)->second;
    std::swap(body, bodies.back());
    Body taken = std::move(bodies.back());
    bodies.pop_back();
    --size_;
    return taken;
  }

  template <class F>
  void for_each_of(store::RunKey run, F action) {
    const auto found = runs_.find(run);
    if (found == runs_.end()) return;
    for (Body& body : found->second) action(body);
  }

  template <class F>
  void for_each(F action) {
    for (auto& [run, bodies] : runs_) {
      for (Body& body : bodies) action(body);
    }
  }

  /// The run is over, or no longer in memory: an empty list is of no use.
  void forget(store::RunKey run) {
    const auto found = runs_.find(run);
    if (found != runs_.end() && found->second.empty()) runs_.erase(found);
  }

  std::size_t size() const { return size_; }

 private:
  std::unordered_map<store::RunKey, std::vector<Body>> runs_;
  std::size_t size_ = 0;
};

}  // namespace semel::engine
