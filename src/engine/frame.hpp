// The live side of one run: its coroutines, what they have asked for and what they wait for.
//
// Live, what is asked is collected for the entry being made. On replay it is compared with what was recorded: the same
// kind, name and operation id in the same order, or the run has diverged.
#pragma once

#include "base/random.hpp"
#include "base/rare.hpp"
#include "engine/registry.hpp"
#include "journal/state.hpp"

#include <semel/detail/frame.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace semel::engine {

/// Where code and journal disagree.
struct Divergence {
  std::string recorded;
  std::string asked;

  std::string message() const { return "recorded: " + recorded + "; asked: " + asked; }
};

struct FrameLimits {
  std::size_t payload_bytes_max = 1U << 20U;
};

class Frame final : public detail::Frame {
 public:
  Frame(const Registry& registry, base::Random& random, FrameLimits limits);
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame();

  /// Makes the workflow's coroutine. Throws what decoding the arguments or calling the function throws.
  void create(const detail::WorkflowType& type, std::string_view input);

  /// Lets the workflow go on from an arrival, up to where everything waits again. What it asked for on the way is in
  /// `take_asked`.
  void deliver(const journal::Arrival& arrival, const journal::RunState& before, TimePoint now);

  std::vector<journal::Request> take_asked() { return std::exchange(asked_, {}); }

  bool has_asked() const { return !asked_.empty(); }

  /// The child runs asked for since the last call, in order; parallel to the child and spawn requests.
  std::vector<detail::ChildSpec> take_children() { return std::exchange(children_, {}); }

  /// Before a replay: a version that was recorded, wherever in the journal; it is found by its name.
  void recall_version(std::string name, int version) {
    versions_.emplace_back(std::move(name), version);
  }

  /// Before a replay: a release that was recorded, wherever in the journal.
  void recall_release(std::string op) { released_.push_back(std::move(op)); }

  /// Until told otherwise, what is asked is compared with `requests`, which must outlive the comparison.
  void expect(std::span<const journal::Request> requests);
  /// Everything recorded must have been asked for by now. Back to live.
  void expect_no_more();

  bool is_replaying() const { return replaying_; }

  const base::Rare<Divergence>& divergence() const { return divergence_; }

  /// What `ask_step` was given, for as long as the step is pending. Null after an eviction and before replay got there.
  const detail::StepSpec* step(std::string_view op) const;

  /// Differences of argument hashes seen on replay: nothing stops for them, `verify` reports them.
  const std::vector<std::string>& changed_arguments() const { return changed_arguments_; }

  /// Bytes of coroutine frames.
  std::size_t bytes() const { return meter_.bytes; }

  /// Step bodies that may refer to coroutine frames: while there are any, none is destroyed.
  int bodies_in_flight = 0;
  void release_buried();

 private:
  struct Attachment {
    std::string op;
    detail::Leaf* leaf = nullptr;
    std::unique_ptr<detail::StepSpec> step;
    base::Rare<std::string> hook;  ///< the op of the hook whose next payload it waits for
  };

  struct Hook {
    std::string op;
    detail::HookLeaf* leaf = nullptr;
  };

  class RootListener final : public detail::Listener {
   public:
    explicit RootListener(Frame& frame) : frame_(frame) {}

    void settled() override { frame_.finished_ = true; }

   private:
    Frame& frame_;
  };

  void ask_step(detail::Leaf& leaf, const std::string& op, detail::StepSpec spec) override;
  void ask_sleep(detail::Leaf& leaf, const std::string& op,
                 std::chrono::nanoseconds duration) override;
  void ask_sleep_until(detail::Leaf& leaf, const std::string& op, TimePoint until) override;
  void ask_child(detail::Leaf& leaf, const std::string& op, detail::ChildSpec spec) override;
  void ask_result(detail::Leaf& leaf, const std::string& op, const std::string& run_id) override;
  bool ask_now(const std::string& op, TimePoint& answer) override;
  bool ask_uuid(const std::string& op, std::string& answer) override;
  bool ask_random(const std::string& op, std::uint64_t& answer) override;
  bool ask_version(const std::string& name, int min, int max, int& answer) override;
  bool ask_attribute(const std::string& op, const std::string& name,
                     const std::string& value) override;
  bool ask_emit(const std::string& op, const std::string& stream, std::string value) override;
  void ask_hook(detail::HookLeaf& leaf, const std::string& op, detail::HookSpec& spec,
                bool awaited) override;
  void ask_next(detail::Leaf& leaf, const std::string& op, const std::string& hook) override;
  void ask_try(detail::Leaf& leaf, const std::string& op, const std::string& hook) override;
  void ask_close(detail::Leaf& leaf, const std::string& op, const std::string& hook) override;
  void release_hook(const std::string& op) noexcept override;
  void forget_hook(detail::HookLeaf& leaf) noexcept override;
  void ask_continue(const std::string& arguments) override;
  void abandon(detail::Leaf& leaf) override;
  void forget(detail::Leaf& leaf) noexcept override;
  void ready(detail::Resumable& resumable) override;
  void unready(detail::Resumable& resumable) noexcept override;
  void keep_running(std::unique_ptr<detail::Kept> branch) override;
  void bury(std::unique_ptr<detail::Kept> branch) override;

  /// Live: appends the request. On replay: compares it and fills in the recorded values. False: diverged.
  bool ask(journal::Request& request);
  void diverge(std::string recorded, std::string asked);
  void attach(const std::string& op, detail::Leaf& leaf,
              std::unique_ptr<detail::StepSpec> step = nullptr);
  void settle(const std::string& op, detail::Settlement settlement);
  void settle_awaits(const std::string& hook, const journal::Failure& failure);
  void deliver_hook_outcome(const journal::Arrival& arrival, const journal::Operation* operation);
  void pump();
  void finish();
  void check_size(const char* what, const std::string& json) const;

  const Registry& registry_;
  base::Random& random_;
  FrameLimits limits_;
  detail::FrameMeter meter_;
  RootListener root_listener_{*this};
  std::unique_ptr<detail::Root> root_;
  std::vector<detail::Resumable*> ready_;
  std::vector<Attachment> attachments_;
  std::vector<Hook> hooks_;
  std::vector<std::string> released_;   ///< recorded and not met on replay yet
  std::vector<journal::Request> late_;  ///< releases met on replay that were not recorded
  const detail::WorkflowType* type_ = nullptr;
  base::Rare<std::string> continue_with_;
  std::vector<std::unique_ptr<detail::Kept>> unwatched_;
  std::vector<std::unique_ptr<detail::Kept>> buried_;
  std::vector<journal::Request> asked_;
  std::vector<detail::ChildSpec> children_;
  std::vector<std::pair<std::string, int>> versions_;
  std::vector<std::string> changed_arguments_;
  std::span<const journal::Request> expected_;
  TimePoint now_{};
  bool replaying_ = false;
  bool finished_ = false;
  bool ended_ = false;
  bool cancelling_ = false;
  bool closing_ = false;  ///< being destroyed: nothing is asked for any more
  base::Rare<Divergence> divergence_;
};

/// True on a thread that is inside a workflow's own code: engine calls are refused there.
bool inside_workflow();

}  // namespace semel::engine
