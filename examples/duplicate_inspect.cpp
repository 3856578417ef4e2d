// Duplicates, strategy 3: inspect before deciding. Whoever comes second looks at the owner and then makes up its mind.
#include <semel/semel.hpp>

#include <iostream>

struct Document {
  std::string text;
};
BOOST_DESCRIBE_STRUCT(Document, (), (text))

/// What a newcomer wants to know of the owner.
struct Owner {
  std::string stage;
  std::uint64_t waiting = 0;
};
BOOST_DESCRIBE_STRUCT(Owner, (), (stage, waiting))

semel::Workflow<std::string> import_documents(std::string tenant) {
  const std::string token = "import:" + tenant;
  auto documents = semel::hook<Document>(token);
  if (auto conflict = co_await documents.conflict()) {
    // A look at another run is an effect like any other: in a step, so that a replay sees the same.
    const Owner owner = co_await semel::step(
        "inspect", [token, id = conflict->run_id](const semel::StepContext& step) {
          const auto attributes = step.client().run(id).attributes();
          const auto stage = attributes.find("stage");
          return Owner{stage == attributes.end() ? "" : stage->second,
                       step.client().hook(token).waiting};
        });
    if (owner.stage == "collecting") co_return "joined run " + conflict->run_id;
    co_return "come back later: it is " + owner.stage;
  }

  co_await semel::set_attribute("stage", "collecting");
  std::string all = (co_await documents).text;
  co_await semel::set_attribute("stage", "writing");
  all += " " + (co_await documents).text;
  co_return all;
}

int main() {
  semel::testing::Engine engine;
  engine.add("import", import_documents);

  const auto owner = engine.start(import_documents, "acme");
  engine.run_until_idle();
  const auto early = engine.start(import_documents, "acme");
  engine.run_until_idle();
  engine.resume("import:acme", Document{"one"});
  engine.run_until_idle();
  const auto late = engine.start(import_documents, "acme");
  engine.run_until_idle();
  engine.resume("import:acme", Document{"two"});
  engine.run_until_idle();

  std::cout << early.run.result<std::string>() << '\n' << late.run.result<std::string>() << '\n';
  const bool as_told = early.run.result<std::string>() == "joined run " + owner.run.id() &&
                       late.run.result<std::string>() == "come back later: it is writing" &&
                       owner.run.result<std::string>() == "one two";
  return as_told ? 0 : 1;
}
