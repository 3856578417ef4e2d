// Time, chance and telling the world, from inside a workflow: the same answers on replay.
#pragma once

#include <semel/operation.hpp>

namespace semel {

namespace detail {

class SleepNode final : public LeafNode<void> {
 public:
  explicit SleepNode(std::chrono::nanoseconds duration) : duration_(duration) {}

  explicit SleepNode(TimePoint until) : until_(until) {}

 private:
  void ask(Frame& frame, const std::string& op) override {
    if (until_) {
      frame.ask_sleep_until(*this, op, *until_);
    } else {
      frame.ask_sleep(*this, op, duration_);
    }
  }

  [[noreturn]] void throw_failure(const Failure& failure) override { throw_run_failure(failure); }

  std::chrono::nanoseconds duration_{};
  std::optional<TimePoint> until_;
};

class NowNode final : public ImmediateNode<TimePoint> {
  bool ask(Frame& frame, const std::string& op, TimePoint& answer) override {
    return frame.ask_now(op, answer);
  }
};

class UuidNode final : public ImmediateNode<std::string> {
  bool ask(Frame& frame, const std::string& op, std::string& answer) override {
    return frame.ask_uuid(op, answer);
  }
};

class RandomNode final : public ImmediateNode<std::uint64_t> {
  bool ask(Frame& frame, const std::string& op, std::uint64_t& answer) override {
    return frame.ask_random(op, answer);
  }
};

class AttributeNode final : public ImmediateNode<void> {
 public:
  AttributeNode(std::string name, std::string text)
      : name_(std::move(name)), text_(std::move(text)) {}

 private:
  bool ask(Frame& frame, const std::string& op, std::monostate&) override {
    return frame.ask_attribute(op, name_, text_);
  }

  std::string name_;
  std::string text_;
};

class EmitNode final : public ImmediateNode<void> {
 public:
  EmitNode(std::string stream, std::string json)
      : stream_(std::move(stream)), json_(std::move(json)) {}

 private:
  bool ask(Frame& frame, const std::string& op, std::monostate&) override {
    return frame.ask_emit(op, stream_, std::move(json_));
  }

  std::string stream_;
  std::string json_;
};

class VersionNode final : public ImmediateNode<int> {
 public:
  VersionNode(std::string name, int min, int max) : name_(std::move(name)), min_(min), max_(max) {}

  bool takes_number() const override { return false; }

 private:
  bool ask(Frame& frame, const std::string&, int& answer) override {
    return frame.ask_version(name_, min_, max_, answer);
  }

  std::string name_;
  int min_;
  int max_;
};

/// What no clock will reach: longer sleeps end here instead of overflowing.
inline constexpr std::chrono::hours sleep_max{24 * 365 * 200};

template <class Rep, class Period>
std::chrono::nanoseconds sleep_duration(std::chrono::duration<Rep, Period> duration) {
  if (duration <= duration.zero()) return std::chrono::nanoseconds{0};
  const bool endless =
      std::chrono::duration<double>(duration) > std::chrono::duration<double>(sleep_max);
  return endless ? std::chrono::nanoseconds{sleep_max}
                 : std::chrono::ceil<std::chrono::nanoseconds>(duration);
}

}  // namespace detail

/// Goes on after `duration`, whatever happens to the process meanwhile. Zero or negative: goes on at once.
template <class Rep, class Period>
Op<void> sleep(std::chrono::duration<Rep, Period> duration) {
  return detail::make_op<detail::SleepNode>(detail::sleep_duration(duration));
}

/// Goes on at `until`; at once if that is past.
inline Op<void> sleep_until(TimePoint until) { return detail::make_op<detail::SleepNode>(until); }

/// The time at which the workflow first asked.
inline Op<TimePoint> now() { return detail::make_op<detail::NowNode>(); }

/// A random (version 4) UUID.
inline Op<std::string> uuid() { return detail::make_op<detail::UuidNode>(); }

/// 64 random bits.
inline Op<std::uint64_t> random() { return detail::make_op<detail::RandomNode>(); }

/// Which version of a piece of code this run uses: `max` for a run that gets here first, what was recorded on replay,
/// `min` for a run that passed here before the call was written. Found by its name; takes no operation number.
inline Op<int> version(std::string name, int min, int max) {
  return detail::make_op<detail::VersionNode>(std::move(name), min, max);
}

/// Sets an attribute of the run, by which runs can be found.
inline Op<void> set_attribute(std::string name, std::string value) {
  return detail::make_op<detail::AttributeNode>(std::move(name), std::move(value));
}

/// Appends to one of the run's streams, readable while it runs and after.
template <class T>
Op<void> emit(std::string stream, const T& value) {
  return detail::make_op<detail::EmitNode>(std::move(stream), value::encode(value));
}

}  // namespace semel
