// One contract for all stores: what its tests share.
#pragma once

#include "store/store.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace semel::store {

using namespace std::chrono_literals;

/// A directory that goes with its owner.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// A store under test that can be looked into, and closed and opened again as after a crash.
class Subject {
 public:
  virtual ~Subject() = default;

  Store& store() { return *store_; }

  Reader& reader() { return *reader_; }

  virtual void reopen() = 0;

  std::vector<Answer> all(const std::vector<Command>& batch) {
    auto answers = store().execute(batch);
    REQUIRE_MESSAGE(answers.has_value(), answers.error().message);
    REQUIRE(answers->size() == batch.size());
    return *std::move(answers);
  }

  Answer execute(const Command& command) { return all({command}).front(); }

  /// Executes the command, whose answer must be an `Expected`.
  template <class Expected>
  Expected expect(const Command& command) {
    Answer answer = execute(command);
    REQUIRE_MESSAGE(std::holds_alternative<Expected>(answer),
                    command_name(command.index())
                        << " was answered with alternative " << answer.index());
    return std::get<Expected>(std::move(answer));
  }

  /// The run with its entries, inbox and progress.
  RunLoaded load(RunKey run) { return expect<RunLoaded>(LoadRun{run}); }

  RunRecord record(RunKey run) { return load(run).run; }

  std::vector<InboxItem> inbox(RunKey run) { return expect<InboxRead>(ReadInbox{run}).items; }

  std::vector<RunKey> work() { return expect<RunsFound>(FindWork{}).runs; }

  std::vector<Timer> timers(RunKey run) { return reader().timers(run).value(); }

  std::vector<Orphan> orphans() { return reader().orphans(100).value(); }

  /// The names of the steps in a run's journal, or the kind of the entry where it has none.
  std::vector<std::string> names(RunKey run);

 protected:
  std::unique_ptr<Store> store_;
  std::unique_ptr<Reader> reader_;
};

std::unique_ptr<Subject> model_subject();

/// The store that this test program is about, empty.
std::unique_ptr<Subject> real_subject();

/// Runs the test on the stores that this test program is about: PostgreSQL; or SQLite in memory, SQLite in a file and the
/// model.
void for_each_store(const std::function<void(Subject&)>& test);

/// A moment after the one at which the tests begin.
TimePoint at(std::chrono::nanoseconds after = 0s);

/// An encoded entry: the step `name` completed.
std::string entry(const std::string& name);

/// A run of workflow "order" made at `at()`, whose id is "run-<key>".
NewRun new_run(RunKey key);
NewRun keyed_run(RunKey key, const std::string& idempotency_key);

StartRun start(NewRun run);
/// Appends one entry.
AdvanceRun advance(RunKey run, Seq seq, const std::string& name, Changes changes = {});
/// Appends the entry that ends the run.
AdvanceRun finish(RunKey run, Seq seq, End end = {.status = Status::completed, .output = "42"},
                  TimePoint now = at());
End failed(const std::string& code = "STEP_FAILED");

Changes parked();

}  // namespace semel::store
