// Duplicates, strategy 5: supersede, the newest wins. One transaction cancels the owner, frees its token and starts the
// newcomer with it: no retry loop, and never a moment with two owners or none.
#include <semel/semel.hpp>

#include <iostream>

struct Approved {
  std::string by;
};
BOOST_DESCRIBE_STRUCT(Approved, (), (by))

semel::Workflow<std::string> deploy(std::string site, int build) {
  auto approval = semel::hook<Approved>("deploy:" + site);
  const Approved approved = co_await approval;
  co_await semel::step(
      "deploy", [site, build] { std::cout << "build " << build << " goes to " << site << '\n'; });
  co_return "build " + std::to_string(build) + ", approved by " + approved.by;
}

int main() {
  semel::Engine engine{"memory:"};
  engine.add("deploy", deploy, {.token_payload = semel::type<Approved>()});
  engine.start_workers();

  const auto start = [&](int build) {
    return engine
        .start({.token = "deploy:shop", .on_running = semel::OnRunning::supersede}, deploy, "shop",
               build)
        .run;
  };
  const auto first = start(1);
  const auto second = start(2);
  const auto third = start(3);

  // Whoever approves now approves the newest.
  const auto receipt = engine.resume("deploy:shop", Approved{"ada"});
  const auto result = third.result<std::string>();
  std::cout << result << '\n';

  const bool as_told = first.status() == semel::RunStatus::cancelled &&
                       second.status() == semel::RunStatus::cancelled &&
                       receipt.run_id == third.id() && result == "build 3, approved by ada";
  return as_told ? 0 : 1;
}
