#include "tests/contract/stores.hpp"

#include "tests/contract/model_store.hpp"

#include <stdlib.h>

namespace semel::store {

namespace {

class ModelSubject final : public Subject {
 public:
  ModelSubject() { open(); }

  void reopen() override { open(); }

 private:
  void open() {
    store_ = make_model_store(model_);
    reader_ = make_model_reader(model_);
  }

  std::shared_ptr<Model> model_ = std::make_shared<Model>();
};

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  // In memory where there is such a place: these tests are about rules, not about disks, and sync a thousand times.
  const std::filesystem::path memory = "/dev/shm";
  const auto parent =
      std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
  std::string name = (parent / "semel-XXXXXX").string();
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> Subject::names(RunKey run) {
  std::vector<std::string> found;
  for (const std::string& bytes : load(run).entries) {
    const auto decoded = journal::decode(bytes);
    REQUIRE(decoded);
    const journal::Arrival& arrival = decoded->arrival;
    found.push_back(arrival.name.empty() ? std::string{journal::to_string(arrival.kind)}
                                         : arrival.name);
  }
  return found;
}

std::unique_ptr<Subject> model_subject() { return std::make_unique<ModelSubject>(); }

TimePoint at(std::chrono::nanoseconds after) {
  return TimePoint{
      std::chrono::duration_cast<TimePoint::duration>(std::chrono::seconds{1'700'000'000} + after)};
}

std::string entry(const std::string& name) {
  return journal::encode(
      {.arrival = {
           .kind = journal::ArrivalKind::step_completed, .op = "1", .name = name, .attempt = 1}});
}

NewRun new_run(RunKey key) {
  const std::string number = std::to_string(key);
  return {.key = key,
          .partition = 0,
          .id = "run-" + number,
          .instance = "instance-" + number,
          .workflow = "order",
          .input = "[7]",
          .created_at = at(),
          .fingerprint = "fingerprint of [7]"};
}

NewRun keyed_run(RunKey key, const std::string& idempotency_key) {
  NewRun run = new_run(key);
  run.idempotency_key = idempotency_key;
  return run;
}

StartRun start(NewRun run) {
  StartRun command{.run = std::move(run)};
  if (!command.run.start_at) {
    command.first_entry = journal::encode({.arrival = {.kind = journal::ArrivalKind::started}});
  }
  return command;
}

AdvanceRun advance(RunKey run, Seq seq, const std::string& name, Changes changes) {
  return {
      .run = run, .seq = seq, .entries = {entry(name)}, .changes = std::move(changes), .now = at()};
}

AdvanceRun finish(RunKey run, Seq seq, End end, TimePoint now) {
  return {.run = run,
          .seq = seq,
          .entries = {entry("last")},
          .changes = {.end = std::move(end)},
          .now = now};
}

End failed(const std::string& code) {
  return {.status = Status::failed,
          .failure = journal::Failure{.code = code, .message = "no luck", .details = "[1]"}};
}

Changes parked() { return {.status = Status::waiting}; }

}  // namespace semel::store
