#include "engine/frame.hpp"

#include "base/assert.hpp"
#include "engine/start_options.hpp"

#include <algorithm>

namespace semel::detail {

namespace {

/// In front of every coroutine frame: whom its bytes are charged to.
struct alignas(std::max_align_t) FrameHeader {
  FrameMeter* meter;
};

}  // namespace

FrameMeter*& current_meter() noexcept {
  thread_local FrameMeter* meter = nullptr;
  return meter;
}

void* allocate_frame(std::size_t size) {
  auto* header = static_cast<FrameHeader*>(::operator new(size + sizeof(FrameHeader)));
  header->meter = current_meter();
  if (header->meter != nullptr) header->meter->bytes += size + sizeof(FrameHeader);
  return header + 1;
}

void free_frame(void* frame, std::size_t size) noexcept {
  auto* header = static_cast<FrameHeader*>(frame) - 1;
  if (header->meter != nullptr) header->meter->bytes -= size + sizeof(FrameHeader);
  ::operator delete(header, size + sizeof(FrameHeader));
}

void throw_awaited_twice() {
  throw Error("VALIDATION_ERROR",
              "an operation is awaited once: this one was awaited or moved from before");
}

void throw_empty_race() { throw Error("VALIDATION_ERROR", "a race needs at least one operation"); }

}  // namespace semel::detail

namespace semel::engine {

using journal::Arrival;
using journal::ArrivalKind;
using journal::Request;
using journal::RequestKind;

namespace {

/// Charges coroutine frames to a run and marks the thread as inside a workflow.
class InsideWorkflow {
 public:
  explicit InsideWorkflow(detail::FrameMeter& meter)
      : previous_(std::exchange(detail::current_meter(), &meter)) {}

  InsideWorkflow(const InsideWorkflow&) = delete;
  InsideWorkflow& operator=(const InsideWorkflow&) = delete;

  ~InsideWorkflow() { detail::current_meter() = previous_; }

 private:
  detail::FrameMeter* previous_;
};

std::string describe_request(const Request& request) {
  std::string text(to_string(request.kind));
  if (!request.name.empty()) text += " \"" + request.name + "\"";
  if (!request.op.empty()) text += " (operation " + request.op + ")";
  return text;
}

/// The failure of another run, whatever code it failed with.
void make_run_failed(journal::Failure& failure) {
  failure.message = failure.code + ": " + failure.message;
  failure.code = "RUN_FAILED";
}

/// Compared by name, not by place: a version, the release of a hook.
bool is_found(const Request& request) {
  return request.kind == RequestKind::version || request.kind == RequestKind::hook_release;
}

bool is_random_hook(const Request& request) {
  return request.kind == RequestKind::hook && (request.attempt & journal::hook_random) != 0;
}

Request request_of(RequestKind kind, const std::string& op, std::string name = {}) {
  Request request;
  request.kind = kind;
  request.op = op;
  request.name = std::move(name);
  return request;
}

}  // namespace

bool inside_workflow() { return detail::current_meter() != nullptr; }

Frame::Frame(const Registry& registry, base::Random& random, FrameLimits limits)
    : registry_(registry), random_(random), limits_(limits) {}

Frame::~Frame() {
  SEMEL_ASSERT(bodies_in_flight == 0);
  closing_ = true;
  root_.reset();
  // Destroying a branch may hand over branches of its own.
  while (!unwatched_.empty() || !buried_.empty()) {
    auto unwatched = std::exchange(unwatched_, {});
    auto buried = std::exchange(buried_, {});
  }
}

void Frame::create(const detail::WorkflowType& type, std::string_view input) {
  const InsideWorkflow inside(meter_);
  type_ = &type;
  root_ = type.make(input);
  root_->promise().frame = this;
  root_->promise().listener = &root_listener_;
}

void Frame::deliver(const Arrival& arrival, const journal::RunState& before, TimePoint now) {
  now_ = now;
  switch (arrival.kind) {
    case ArrivalKind::started: {
      const InsideWorkflow inside(meter_);
      root_->coroutine().resume();
      break;
    }
    case ArrivalKind::step_completed:
    case ArrivalKind::step_failed:
      settle(arrival.op, {arrival.value, arrival.failure ? &*arrival.failure : nullptr});
      break;
    case ArrivalKind::result_arrived: {
      base::Rare<journal::Failure> failure = arrival.failure;
      if (failure && failure->code != "RUN_CANCELLED") make_run_failed(*failure);
      if (failure) failure->op = arrival.op;  // it had the number of an operation of the other run
      settle(arrival.op, {arrival.value, failure ? &*failure : nullptr});
      break;
    }
    case ArrivalKind::outcome: {
      const journal::Operation* operation = before.find(arrival.op);
      const bool is_run = operation != nullptr && (operation->kind == RequestKind::child ||
                                                   operation->kind == RequestKind::spawn ||
                                                   operation->kind == RequestKind::result_of);
      if (operation != nullptr && operation->kind == RequestKind::step) {
        settle(arrival.op, {arrival.value, nullptr});
      } else if (!is_run) {
        deliver_hook_outcome(arrival, operation);
      } else if (arrival.failure) {
        settle(arrival.op, {{}, &*arrival.failure});
      } else if (operation->kind == RequestKind::spawn) {
        settle(arrival.op, {value::encode(arrival.name), nullptr});
      }
      break;
    }
    case ArrivalKind::timer_fired:
      settle(arrival.op, {});
      break;
    case ArrivalKind::payload_arrived:
      settle(arrival.op, {arrival.value, arrival.failure ? &*arrival.failure : nullptr});
      break;
    case ArrivalKind::woken:
      for (const journal::Lost& sleep : arrival.ops) settle(sleep.op, {});
      break;
    case ArrivalKind::recovered:
    case ArrivalKind::reopened:
    case ArrivalKind::forked:
      for (const journal::Lost& lost : arrival.ops) {
        const journal::Operation* operation = lost.attempt == 0 ? before.find(lost.op) : nullptr;
        if (operation == nullptr) continue;
        const journal::Failure unknown = journal::outcome_unknown(*operation);
        settle(lost.op, {{}, &unknown});
      }
      break;
    case ArrivalKind::cancel_requested:
      // Only the first one is thrown; later ones can but shorten the grace.
      if (!std::exchange(cancelling_, true)) {
        if (auto* point = root_->promise().suspended_at) {
          point->interrupt(
              std::make_exception_ptr(CancelledError("CANCELLED", "the run is being cancelled")));
        }
      }
      break;
    case ArrivalKind::continued:
    case ArrivalKind::attempt_failed:
    case ArrivalKind::retry_due:
    case ArrivalKind::begun:
    case ArrivalKind::cancelled:
    case ArrivalKind::timed_out:
    case ArrivalKind::limit_reached:
      break;
  }
  pump();
}

void Frame::pump() {
  {
    const InsideWorkflow inside(meter_);
    while (!ready_.empty() && !finished_ && !divergence_) {
      detail::Resumable* next = ready_.front();
      ready_.erase(ready_.begin());
      next->resumption().resume();
    }
  }
  if (bodies_in_flight == 0) release_buried();
  if (finished_ && !ended_ && !divergence_) finish();
}

void Frame::finish() {
  ended_ = true;
  if (continue_with_ && !cancelling_) {
    Request again = request_of(RequestKind::continue_as_new, "");
    again.value = *continue_with_;
    ask(again);
    return;
  }
  Request end = request_of(RequestKind::completed, "");
  try {
    const InsideWorkflow inside(meter_);
    if (!continue_with_) end.value = root_->take_result();
    check_size("the run's result", end.value);
  } catch (...) {
    end.kind = RequestKind::failed;
    end.value.clear();
    end.failure = detail::describe(std::current_exception());
    // That code is for a run that was cancelled itself; this one failed because another was.
    if (end.failure->code == "RUN_CANCELLED") make_run_failed(*end.failure);
  }
  if (cancelling_) {
    end = request_of(RequestKind::cancelled, "");
    end.failure = journal::Failure{
        .code = "RUN_CANCELLED", .message = "cancelled", .details = {}, .name = {}, .op = {}};
  }
  ask(end);
}

void Frame::expect(std::span<const Request> requests) {
  expected_ = requests;
  replaying_ = true;
}

void Frame::expect_no_more() {
  // Versions are found by name; code that no longer asks for one has not diverged.
  const auto left =
      std::ranges::find_if(expected_, [](const Request& request) { return !is_found(request); });
  if (left != expected_.end() && !divergence_) diverge(describe_request(*left), "nothing more");
  expected_ = {};
  replaying_ = false;
  std::ranges::move(std::exchange(late_, {}), std::back_inserter(asked_));
}

void Frame::diverge(std::string recorded, std::string asked) {
  if (!divergence_) divergence_ = Divergence{std::move(recorded), std::move(asked)};
}

bool Frame::ask(Request& request) {
  if (divergence_) return false;
  if (!replaying_) {
    asked_.push_back(request);
    return true;
  }
  while (!expected_.empty() && is_found(expected_.front())) expected_ = expected_.subspan(1);
  if (expected_.empty()) {
    diverge("nothing more", describe_request(request));
    return false;
  }
  const Request& recorded = expected_.front();
  const bool same_name =
      recorded.name == request.name || (is_random_hook(recorded) && is_random_hook(request));
  if (recorded.kind != request.kind || recorded.op != request.op || !same_name) {
    diverge(describe_request(recorded), describe_request(request));
    return false;
  }
  if (recorded.hash != request.hash) changed_arguments_.push_back(describe_request(request));
  request = recorded;
  expected_ = expected_.subspan(1);
  return true;
}

void Frame::attach(const std::string& op, detail::Leaf& leaf,
                   std::unique_ptr<detail::StepSpec> step) {
  attachments_.push_back({op, &leaf, std::move(step), std::nullopt});
}

void Frame::settle(const std::string& op, detail::Settlement settlement) {
  const auto found = std::ranges::find(attachments_, op, &Attachment::op);
  if (found == attachments_.end()) return;
  // The body may still be running (it timed out); whoever runs it has its own share of the function.
  detail::Leaf* leaf = found->leaf;
  attachments_.erase(found);
  if (leaf != nullptr) leaf->settle(std::move(settlement));
}

const detail::StepSpec* Frame::step(std::string_view op) const {
  const auto found = std::ranges::find(attachments_, op, &Attachment::op);
  return found == attachments_.end() ? nullptr : found->step.get();
}

void Frame::ask_step(detail::Leaf& leaf, const std::string& op, detail::StepSpec spec) {
  Request request = request_of(RequestKind::step, op, spec.name);
  request.attempt = 1;
  request.hash = spec.arguments_hash;
  request.at_most_once = spec.options.mode == StepMode::at_most_once;
  if (ask(request)) attach(op, leaf, std::make_unique<detail::StepSpec>(std::move(spec)));
}

void Frame::ask_sleep(detail::Leaf& leaf, const std::string& op,
                      std::chrono::nanoseconds duration) {
  ask_sleep_until(leaf, op, now_ + std::max(duration, std::chrono::nanoseconds{0}));
}

void Frame::ask_sleep_until(detail::Leaf& leaf, const std::string& op, TimePoint until) {
  Request request = request_of(RequestKind::sleep, op);
  request.at = until;
  if (ask(request)) attach(op, leaf);
}

void Frame::ask_child(detail::Leaf& leaf, const std::string& op, detail::ChildSpec spec) {
  check_start_options(spec.options);
  if (spec.workflow.empty()) spec.workflow = registry_.name_of(spec.function);
  check_size("the child's input", spec.input);
  Request request =
      request_of(spec.wait ? RequestKind::child : RequestKind::spawn, op, spec.workflow);
  const bool live = !replaying_;
  if (!ask(request)) return;
  attach(op, leaf);
  if (live) children_.push_back(std::move(spec));
}

void Frame::ask_result(detail::Leaf& leaf, const std::string& op, const std::string& run_id) {
  Request request = request_of(RequestKind::result_of, op, run_id);
  if (ask(request)) attach(op, leaf);
}

bool Frame::ask_now(const std::string& op, TimePoint& answer) {
  Request request = request_of(RequestKind::now, op);
  request.at = now_;
  if (!ask(request)) return false;
  answer = request.at;
  return true;
}

bool Frame::ask_uuid(const std::string& op, std::string& answer) {
  Request request = request_of(RequestKind::uuid, op);
  if (!replaying_) request.value = base::make_uuid(random_);
  if (!ask(request)) return false;
  answer = request.value;
  return true;
}

bool Frame::ask_random(const std::string& op, std::uint64_t& answer) {
  Request request = request_of(RequestKind::random, op);
  if (!replaying_) request.value = std::to_string(random_.next());
  if (!ask(request)) return false;
  answer = std::stoull(request.value);
  return true;
}

bool Frame::ask_version(const std::string& name, int min, int max, int& answer) {
  if (min > max)
    throw Error("VALIDATION_ERROR", "version \"" + name + "\": the minimum is above the maximum");
  if (divergence_) return false;
  auto known = std::ranges::find(versions_, name, &std::pair<std::string, int>::first);
  if (known == versions_.end()) {
    const int chosen = replaying_ ? min : max;
    if (!replaying_) {
      Request request = request_of(RequestKind::version, "", name);
      request.attempt = static_cast<std::uint32_t>(max);
      asked_.push_back(std::move(request));
    }
    known = versions_.insert(versions_.end(), {name, chosen});
  }
  if (known->second < min || known->second > max) {
    diverge("version \"" + name + "\" " + std::to_string(known->second),
            "a version from " + std::to_string(min) + " to " + std::to_string(max));
    return false;
  }
  answer = known->second;
  return true;
}

bool Frame::ask_attribute(const std::string& op, const std::string& name,
                          const std::string& value) {
  if (name.empty() || name.size() > 255 || value.size() > 1024) {
    throw Error("VALIDATION_ERROR",
                "an attribute has a name of 1 to 255 bytes and a value of at most 1024");
  }
  Request request = request_of(RequestKind::attribute, op, name);
  request.value = value::encode(value);
  return ask(request);
}

bool Frame::ask_emit(const std::string& op, const std::string& stream, std::string value) {
  check_size("an emitted value", value);
  Request request = request_of(RequestKind::emit, op, stream);
  request.value = std::move(value);
  return ask(request);
}

void Frame::abandon(detail::Leaf& leaf) {
  const auto found = std::ranges::find(attachments_, &leaf, &Attachment::leaf);
  if (found == attachments_.end()) return;
  found->leaf = nullptr;
  Request request = request_of(found->step ? RequestKind::abandon : RequestKind::drop, found->op);
  if (!found->step) attachments_.erase(found);
  ask(request);
}

void Frame::forget(detail::Leaf& leaf) noexcept {
  const auto found = std::ranges::find(attachments_, &leaf, &Attachment::leaf);
  if (found != attachments_.end()) found->leaf = nullptr;
}

void Frame::ready(detail::Resumable& resumable) { ready_.push_back(&resumable); }

void Frame::unready(detail::Resumable& resumable) noexcept { std::erase(ready_, &resumable); }

void Frame::keep_running(std::unique_ptr<detail::Kept> branch) {
  unwatched_.push_back(std::move(branch));
}

void Frame::bury(std::unique_ptr<detail::Kept> branch) { buried_.push_back(std::move(branch)); }

void Frame::release_buried() {
  while (!buried_.empty()) auto gone = std::exchange(buried_, {});
}

void Frame::check_size(const char* what, const std::string& json) const {
  if (json.size() <= limits_.payload_bytes_max) return;
  throw Error("PAYLOAD_TOO_LARGE", std::string(what) + " has " + std::to_string(json.size()) +
                                       " bytes; the limit is " +
                                       std::to_string(limits_.payload_bytes_max));
}

}  // namespace semel::engine
