// Changing the code of a workflow while runs of it are under way.
//
// A run is replayed from its journal by whatever code is there: the new code must ask for the same operations in the
// same order up to where the run stands. `semel::version` says which code a run has to follow. Forgetting it is no
// disaster: the run is parked as `diverged`, its journal untouched, and goes on when the code is put right.
#include <semel/semel.hpp>

#include <iostream>
#include <stdexcept>
#include <thread>

using namespace std::chrono_literals;

namespace {

/// Stands for real work.
std::string done(std::string what) { return what; }

// What was deployed last month, and …
semel::Workflow<std::string> sign_up_old(std::string user) {
  co_await semel::step("create", done, "account of " + user);
  co_await semel::sleep(24h);
  co_return co_await semel::step("welcome", done, "welcome, " + user);
}

// … what replaces it: new users pass a check first. Runs begun by the old code have none in their journal.
semel::Workflow<std::string> sign_up_new(std::string user) {
  std::string suffix;
  if (co_await semel::version("fraud-check", 1, 2) >= 2) {
    suffix = co_await semel::step("check", [] { return done(", honest soul"); });
  }
  co_await semel::step("create", done, "account of " + user);
  co_await semel::sleep(24h);
  co_return co_await semel::step("welcome", done, "welcome, " + user) + suffix;
}

// The same without `version`: an old run finds a step that its journal does not know.
semel::Workflow<std::string> sign_up_careless(std::string user) {
  co_await semel::step("check", [] { return done(", honest soul"); });
  co_await semel::step("create", done, "account of " + user);
  co_await semel::sleep(24h);
  co_return co_await semel::step("welcome", done, "welcome, " + user);
}

/// One deployment: a process with one version of the code, on the same file.
template <class F, class Use>
void deploy(F sign_up, Use use) {
  semel::Engine engine{"sqlite:users.db"};
  const auto workflow = engine.add("sign-up", sign_up);
  engine.start_workers();
  use(engine, workflow);
  engine.stop();
}

/// True once the run waits in its sleep or cannot go on.
bool has_come_to(const semel::Run& run, semel::RunStatus status) {
  for (int i = 0; i < 2000 && run.status() != status; ++i) std::this_thread::sleep_for(5ms);
  return run.status() == status;
}

void expect(bool holds, const char* what) {
  std::cout << (holds ? "yes  " : "NO   ") << what << '\n';
  if (!holds) throw std::runtime_error(what);
}

}  // namespace

int main() {
  std::string old_run;
  std::uint64_t version_before = 0;

  deploy(sign_up_old, [&](semel::Engine& engine, const auto& sign_up) {
    const auto run = engine.start(sign_up, "ada").run;
    expect(has_come_to(run, semel::RunStatus::waiting),
           "a run of the old code is asleep in the middle");
    old_run = run.id();
    version_before = run.version();
  });

  deploy(sign_up_careless, [&](semel::Engine& engine, const auto&) {
    auto run = engine.run(old_run);
    run.wake();  // we do not want to wait for the day to pass
    expect(has_come_to(run, semel::RunStatus::diverged),
           "code that does not fit its journal parks it as diverged");
    std::cout << "     " << run.error() << '\n';
    expect(run.version() == version_before, "its journal is untouched");
  });

  deploy(sign_up_new, [&](semel::Engine& engine, const auto& sign_up) {
    auto run = engine.run(old_run);
    run.retry();
    run.wake();
    expect(run.template result<std::string>() == "welcome, ada",
           "with the right code it goes on the old way");
    auto fresh = engine.start(sign_up, "bob").run;
    expect(has_come_to(fresh, semel::RunStatus::waiting) && fresh.wake() == 1,
           "a new run comes to its sleep, too");
    expect(fresh.template result<std::string>() == "welcome, bob, honest soul",
           "and goes the new way");
  });
}
