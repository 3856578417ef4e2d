#include "app/bench_child.hpp"

#include "app/bench.hpp"
#include "base/assert.hpp"

#include <semel/error.hpp>

#include <boost/json.hpp>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

extern char** environ;

namespace semel::app::bench {

namespace json = boost::json;

Child::Child(const json::object& job) {
  std::array<int, 2> from_it{};
  std::array<int, 2> to_it{};
  // Closed in other children: a pipe ends when its process does.
  const bool piped =
      ::pipe2(from_it.data(), O_CLOEXEC) == 0 && ::pipe2(to_it.data(), O_CLOEXEC) == 0;
  SEMEL_ASSERT(piped);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_it[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_it[1], STDOUT_FILENO);
  std::string program = "semel";
  std::string command = "bench";
  std::string option = "--child";
  std::string text = json::serialize(job);
  std::array<char*, 5> arguments{program.data(), command.data(), option.data(), text.data(),
                                 nullptr};
  const int spawned =
      posix_spawn(&process_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  SEMEL_ASSERT(spawned == 0);
  ::close(from_it[1]);
  ::close(to_it[0]);
  output_ = from_it[0];
  input_ = to_it[1];
}

Child::~Child() {
  if (process_ > 0) kill();
  ::close(output_);
  ::close(input_);
}

json::object Child::answer() const {
  std::string line;
  for (char c = 0; ::read(output_, &c, 1) == 1 && c != '\n';) line.push_back(c);
  if (line.empty())
    throw Error("BENCH_FAILED", "a benchmark's child process ended without an answer");
  return json::parse(line).as_object();
}

void Child::tell(const std::string& line) const {
  const std::string text = line + "\n";
  const bool is_told = ::write(input_, text.data(), text.size()) == std::ssize(text);
  SEMEL_ASSERT(is_told);
}

void Child::kill() {
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
  process_ = -1;
}

int run_child(const std::string& job, std::ostream& out) {
  const json::object parsed = json::parse(job).as_object();
  if (parsed.at("do").as_string() == "node") {
    be_node(parsed, out);
  } else {
    park_in_child(parsed, out);
  }
  return 0;
}

}  // namespace semel::app::bench
