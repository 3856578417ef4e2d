// A saga: book three things or none. C++ forbids co_await in a catch, so what is to be undone is collected on the way
// and undone, newest first, behind it.
#include <semel/semel.hpp>

#include <iostream>
#include <mutex>

namespace {

/// The booking agency: remembers what was done, in order.
class Agency {
 public:
  explicit Agency(bool has_cars) : has_cars_(has_cars) {}

  semel::Workflow<std::string> book(std::string traveller) {
    semel::Saga saga;
    std::string failure;
    try {
      co_await semel::step("book flight", [this] { note("flight booked"); });
      saga.add("cancel flight", [this] { note("flight cancelled"); });

      co_await semel::step("book hotel", [this] { note("hotel booked"); });
      saga.add("cancel hotel", [this] { note("hotel cancelled"); });

      co_await semel::step("book car", [this] {
        if (!has_cars_) throw semel::FatalError("no car left");
        note("car booked");
      });
      co_return traveller + " travels";
    } catch (const semel::StepFailedError& error) {
      failure = error.message;
    }
    // Undo steps are steps: recorded, retried, and not done twice after a crash.
    co_await saga.compensate();
    co_return traveller + " stays: " + failure;
  }

  std::vector<std::string> notes() const {
    const std::lock_guard lock(mutex_);
    return notes_;
  }

 private:
  void note(const std::string& what) {
    const std::lock_guard lock(mutex_);
    std::cout << what << '\n';
    notes_.push_back(what);
  }

  bool has_cars_;
  mutable std::mutex mutex_;
  std::vector<std::string> notes_;
};

std::string outcome(Agency& agency) {
  semel::Engine engine{"memory:"};
  const auto book = engine.add("book", &Agency::book, &agency);
  engine.start_workers();
  return engine.start(book, "Ada").run.result<std::string>();
}

}  // namespace

int main() {
  Agency lucky{true};
  Agency unlucky{false};
  const bool travels = outcome(lucky) == "Ada travels";
  const bool stays = outcome(unlucky) == "Ada stays: no car left";
  const std::vector<std::string> undone{"flight booked", "hotel booked", "hotel cancelled",
                                        "flight cancelled"};
  return travels && stays && unlucky.notes() == undone ? 0 : 1;
}
