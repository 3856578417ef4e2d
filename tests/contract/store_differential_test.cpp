// Random command sequences on the model and on a real store: the same answers, and the same state to be seen, after every
// batch. SEMEL_SEED=… replays one seed, SEMEL_SEEDS=n tries n of them.
#include "tests/contract/describe.hpp"
#include "tests/contract/random_commands.hpp"
#include "tests/contract/stores.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace semel::store {
namespace {

constexpr int batches_per_seed = 60;

/// By value, so that a loop may range over it.
template <class T>
T value(base::Result<T> result) {
  REQUIRE_MESSAGE(result.has_value(), result.error().message);
  return *std::move(result);
}

/// A model and a real store side by side.
class Pair {
 public:
  Pair() { open(); }

  const Model& model() const { return *model_; }

  /// As after a crash: nothing that was answered may be gone.
  void reopen() {
    real_->reopen();
    open();
  }

  void check_batch(const std::vector<Command>& batch) {
    std::string commands;
    for (const Command& command : batch) commands += "\n  " + describe(command);
    CAPTURE(commands);
    const auto specified = execute(*specification_, batch);
    const auto actual = execute(real_->store(), with_real_fences(batch));
    REQUIRE(text(actual) == text(specified));
    for (std::size_t i = 0; i < batch.size(); ++i) learn_fences(specified[i], actual[i]);
    compare_state();
  }

 private:
  void open() {
    specification_ = make_model_store(model_);
    model_reader_ = make_model_reader(model_);
  }

  static std::vector<Answer> execute(Store& store, const std::vector<Command>& batch) {
    return value(store.execute(batch));
  }

  static std::string text(const std::vector<Answer>& answers) {
    std::string text;
    for (const Answer& answer : answers) text += describe(answer) + "\n";
    return text;
  }

  static std::string answers(Store& store, const std::vector<Command>& batch) {
    return text(execute(store, batch));
  }

  /// Commands are made up from the model's fences; a store may skip some.
  std::vector<Command> with_real_fences(std::vector<Command> batch) const {
    for (Command& command : batch) {
      std::visit(
          [this](auto& each) {
            if constexpr (requires { each.fence; }) {
              const auto known = real_fences_.find(each.fence);
              each.fence = known == real_fences_.end() ? never_given : known->second;
            }
          },
          command);
    }
    return batch;
  }

  void learn_fences(const Answer& specified, const Answer& actual) {
    const auto* acquired = std::get_if<Acquired>(&actual);
    if (acquired == nullptr) return;
    REQUIRE(acquired->fence > last_fence_);
    last_fence_ = acquired->fence;
    real_fences_[std::get<Acquired>(specified).fence] = last_fence_;
  }

  void compare_state() {
    std::vector<Command> looks{FindWork{}, FindDue{.now = TimePoint::max()}};
    for (const auto& [key, run] : model_->runs) looks.emplace_back(LoadRun{key});
    for (const auto& [id, reservation] : model_->reservations)
      looks.emplace_back(FindReservation{id, reservation.made.now});
    REQUIRE(answers(real_->store(), looks) == answers(*specification_, looks));
    REQUIRE(seen_by(real_->reader()) == seen_by(*model_reader_));
  }

  std::string seen_by(Reader& reader) const {
    std::string text;
    for (const Orphan& orphan : value(reader.orphans(100))) text += "orphan " + orphan.id + "\n";
    for (const ListFilter& filter :
         {ListFilter{}, ListFilter{.workspace = "acme"}, ListFilter{.status = Status::completed},
          ListFilter{.idempotency_key = "k", .limit = 3},
          ListFilter{.attributes = {{"stage", "x"}}, .limit = 3}}) {
      for (const RunRecord& record : value(reader.list(filter))) text += record.id + " ";
      text += "\n";
    }
    for (const char* token : {"s", "t", "u"}) {
      if (const auto hook = value(reader.hook("default", token)))
        text += fmt::format("hook {} {} {} {} {}\n", hook->run_id, hook->op, hook->shape,
                            hook->webhook, hook->waiting);
    }
    for (const auto& [key, run] : model_->runs) {
      for (const Undelivered& left : value(reader.undelivered(key)))
        text += fmt::format("undelivered {} {} {}\n", left.id, left.token, left.value);
    }
    if (!model_->runs.empty()) {
      const RunKey youngest = model_->runs.rbegin()->first;
      for (const StoredEntry& entry : value(reader.journal(youngest, 1, 2)))
        text += std::to_string(entry.seq) + " ";
      for (const Timer& timer : value(reader.timers(youngest))) text += describe(timer) + " ";
    }
    return text;
  }

  static constexpr Fence never_given = -1;

  std::map<Fence, Fence> real_fences_;  ///< by the model's
  Fence last_fence_ = 0;
  std::shared_ptr<Model> model_ = std::make_shared<Model>();
  std::unique_ptr<Store> specification_;
  std::unique_ptr<Subject> real_ = real_subject();
  std::unique_ptr<Reader> model_reader_;
};

std::uint64_t number_from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

void try_seed(std::uint64_t seed) {
  CAPTURE(seed);
  Pair pair;
  RandomCommands commands{seed, pair.model()};
  for (int batch = 0; batch < batches_per_seed; ++batch) {
    CAPTURE(batch);
    pair.check_batch(commands.next_batch());
    if (commands.one_in(20)) pair.reopen();
  }
}

TEST_CASE("a real store answers every sequence of commands as the model does") {
  if (const std::uint64_t seed = number_from_environment("SEMEL_SEED", 0); seed != 0) {
    try_seed(seed);
    return;
  }
  const std::uint64_t seeds = number_from_environment("SEMEL_SEEDS", 40);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) try_seed(seed);
}

TEST_CASE("random commands meet every answer there is") {
  std::vector<int> seen(std::variant_size_v<Answer>);
  int read_at_once = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const auto model = std::make_shared<Model>();
    const auto store = make_model_store(model);
    RandomCommands commands{seed, *model};
    for (int batch = 0; batch < batches_per_seed; ++batch) {
      for (const Answer& answer : value(store->execute(commands.next_batch()))) {
        ++seen[answer.index()];
        const auto* delivered = std::get_if<Delivered>(&answer);
        if (delivered != nullptr && delivered->read) ++read_at_once;
      }
    }
  }
  for (std::size_t kind = 0; kind < seen.size(); ++kind) {
    CAPTURE(kind);
    CHECK(seen[kind] > 0);
  }
  CHECK(read_at_once > 0);
}

}  // namespace
}  // namespace semel::store
