// The smallest whole program: one workflow with one step, in memory.
#include <semel/semel.hpp>

#include <iostream>
#include <string>

semel::Workflow<std::string> greet(std::string name) {
  const std::string greeting = co_await semel::step("compose", [name] { return "hello, " + name; });
  co_return greeting + "!";
}

int main() {
  semel::Engine engine{"memory:"};
  engine.add("greet", greet);
  engine.start_workers();

  const auto started = engine.start(greet, std::string{"world"});
  const auto text = started.run.result<std::string>();
  engine.stop();

  std::cout << text << '\n';
  return text == "hello, world!" ? 0 : 1;
}
