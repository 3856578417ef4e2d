// Hooks as a run's coroutines see them.
#include "engine/frame.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace semel::engine {

using journal::Request;
using journal::RequestKind;

namespace {

Request about_hook(RequestKind kind, const std::string& op, const std::string& hook) {
  Request request;
  request.kind = kind;
  request.op = op;
  request.name = hook;
  return request;
}

}  // namespace

void Frame::ask_hook(detail::HookLeaf& leaf, const std::string& op, detail::HookSpec& spec,
                     bool awaited) {
  const bool is_random = spec.token.empty();
  // Whoever knows the token can write to the run: 192 bits.
  if (is_random && !replaying_) {
    spec.token =
        fmt::format("{:016x}{:016x}{:016x}", random_.next(), random_.next(), random_.next());
  }
  Request request = about_hook(RequestKind::hook, op, spec.token);
  request.value = spec.shape;
  request.attempt = (is_random ? journal::hook_random : 0U) |
                    (awaited ? 0U : journal::hook_implied) |
                    (spec.webhook ? journal::hook_webhook : 0U);
  if (!ask(request)) return;
  spec.token = request.name;
  hooks_.push_back({op, &leaf});
}

void Frame::ask_next(detail::Leaf& leaf, const std::string& op, const std::string& hook) {
  Request request = about_hook(RequestKind::hook_next, op, hook);
  if (!ask(request)) return;
  attachments_.push_back({op, &leaf, nullptr, hook});
}

void Frame::ask_try(detail::Leaf& leaf, const std::string& op, const std::string& hook) {
  Request request = about_hook(RequestKind::hook_try, op, hook);
  if (ask(request)) attach(op, leaf);
}

void Frame::ask_close(detail::Leaf& leaf, const std::string& op, const std::string& hook) {
  Request request = about_hook(RequestKind::hook_close, op, hook);
  if (ask(request)) attach(op, leaf);
}

/// Called when a hook is disposed and from its destructor. When a branch that lost a race is destroyed depends on the step
/// bodies in flight, so releases are found by their hook, not by their place.
void Frame::release_hook(const std::string& op) noexcept {
  if (closing_ || divergence_) return;
  std::erase_if(hooks_, [&](const Hook& hook) { return hook.op == op; });
  const journal::Failure disposed{.code = "HOOK_DISPOSED",
                                  .message = "the hook was disposed while it was awaited",
                                  .details = {},
                                  .name = {},
                                  .op = {}};
  settle_awaits(op, disposed);
  if (std::erase(released_, op) != 0) return;
  (replaying_ ? late_ : asked_).push_back(about_hook(RequestKind::hook_release, op, ""));
}

void Frame::forget_hook(detail::HookLeaf& leaf) noexcept {
  std::erase_if(hooks_, [&](const Hook& hook) { return hook.leaf == &leaf; });
}

/// What awaits the hook hears what became of it.
void Frame::settle_awaits(const std::string& hook, const journal::Failure& failure) {
  std::vector<std::string> waiting;
  for (const Attachment& attachment : attachments_) {
    if (attachment.hook && *attachment.hook == hook) waiting.push_back(attachment.op);
  }
  for (const std::string& op : waiting) settle(op, {{}, &failure});
}

/// What the store decided about a hook, or for something asked of it.
void Frame::deliver_hook_outcome(const journal::Arrival& arrival,
                                 const journal::Operation* operation) {
  const journal::Failure* failure = arrival.failure ? &*arrival.failure : nullptr;
  if (operation != nullptr) {
    if (operation->kind == RequestKind::hook_close && arrival.value == "true") {
      const auto closed = std::ranges::find(hooks_, operation->name, &Hook::op);
      if (closed != hooks_.end()) {
        detail::HookLeaf* leaf = closed->leaf;
        hooks_.erase(closed);
        leaf->gone();
      }
      const journal::Failure gone{.code = "HOOK_DISPOSED",
                                  .message = "the hook was closed while it was awaited",
                                  .details = {},
                                  .name = {},
                                  .op = {}};
      settle_awaits(operation->name, gone);
    }
    settle(arrival.op, {arrival.value, failure});
    return;
  }
  const auto hook = std::ranges::find(hooks_, arrival.op, &Hook::op);
  if (hook != hooks_.end()) hook->leaf->settle({{}, failure});
  if (failure != nullptr) settle_awaits(arrival.op, *failure);
}

void Frame::ask_continue(const std::string& arguments) {
  std::string normalised = type_->normalise(arguments);
  check_size("the arguments", normalised);
  continue_with_ = std::move(normalised);
  finished_ = true;
}

}  // namespace semel::engine
