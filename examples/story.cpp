// The story that ./run tells: an order whose process is killed twice and which is still done once.
//
// This program is three things. Without arguments it is the storyteller: it starts itself as the worker,
// kills it with SIGKILL at telling moments and looks at what is left. As the worker it is what a user of semel
// writes: steps, a workflow, a main. And a ledger file plays the world outside (a bank, a carrier, a mail
// server), which no kill can roll back.
#include <semel/semel.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

// ---------------------------------------------------------------- the world outside

/// One line per thing that happened, appended with a single write; whoever dies afterwards, it stays.
class World {
 public:
  explicit World(std::filesystem::path directory) : file_(std::move(directory) / "ledger.txt") {}

  void note(const std::string& line) {
    const int file = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    const std::string text = line + "\n";
    const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::close(file);
    if (!written) throw std::runtime_error("cannot write " + file_.string());
  }

  std::vector<std::string> lines() const {
    std::vector<std::string> lines;
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  /// How many lines begin with `start`.
  long count(const std::string& start) const {
    return std::ranges::count_if(lines(), [&](const std::string& line) { return line.starts_with(start); });
  }

 private:
  std::filesystem::path file_;
};

// ---------------------------------------------------------------- the worker: what a user writes

struct Order {
  std::string id;
  int cents = 0;
};
BOOST_DESCRIBE_STRUCT(Order, (), (id, cents))

struct Fulfilled {
  std::string receipt;
  std::string parcel;
  std::string mail;
};
BOOST_DESCRIBE_STRUCT(Fulfilled, (), (receipt, parcel, mail))

constexpr auto rest = 1500ms;

/// Steps and the workflow that strings them together.
class Shop {
 public:
  explicit Shop(World& world) : world_(world) {}

  semel::Workflow<Fulfilled> fulfil(Order order) {
    Fulfilled done;
    done.receipt = co_await semel::step("charge-card", [this, order](const semel::StepContext& step) {
      return call(step, "charge-card", "receipt-" + order.id, 100ms);
    });
    done.parcel = co_await semel::step("ship", [this, order](const semel::StepContext& step) {
      return call(step, "ship", "parcel-" + order.id, 5s);
    });
    co_await semel::sleep(rest);
    done.mail = co_await semel::step("e-mail", [this, order](const semel::StepContext& step) {
      return call(step, "e-mail", "mail-" + order.id, 100ms);
    });
    co_return done;
  }

 private:
  /// A call to somebody outside who dedupes by the id we send, as a bank does with an idempotency key: a new one is
  /// done, and answered after a while; a known one is answered at once with what was done then.
  std::string call(const semel::StepContext& step, const std::string& name, const std::string& answer,
                   std::chrono::milliseconds takes) {
    const bool known = world_.count("effect " + step.id + " ") > 0;
    world_.note("call " + step.id + " " + name);
    if (!known) world_.note("effect " + step.id + " " + name);
    std::printf("     [%d] %-12s attempt %d   %s\n", ::getpid(), name.c_str(), step.attempt,
                known ? (answer + ", which they know by the step's id").c_str() : answer.c_str());
    if (!known) std::this_thread::sleep_for(takes);
    return answer;
  }

  World& world_;
};

std::string database(const std::filesystem::path& directory) { return "sqlite:" + (directory / "orders.db").string(); }

int worker(const std::filesystem::path& directory) {
  World world(directory);
  Shop shop(world);
  semel::Engine engine{database(directory)};
  const auto fulfil = engine.add("fulfil", &Shop::fulfil, &shop);
  engine.start_workers();

  // Whoever asks again under the same key gets the same run. A worker that does not know whether it has asked before
  // just asks.
  const auto started = engine.start({.key = "order-789"}, fulfil, Order{"789", 4990});
  std::printf("     [%d] %s run %s\n", ::getpid(), started.created ? "starts" : "finds", started.run.id().c_str());
  world.note("run " + started.run.id() + (started.created ? " created" : " found"));

  while (started.run.status() == semel::RunStatus::running) std::this_thread::sleep_for(5ms);
  if (started.run.status() == semel::RunStatus::waiting) {
    std::printf("     [%d] %-12s for %lld ms\n", ::getpid(), "asleep", static_cast<long long>(rest.count()));
    world.note("asleep");
  }
  const auto done = started.run.result<Fulfilled>();
  std::printf("     [%d] result       %s, %s, %s\n", ::getpid(), done.receipt.c_str(), done.parcel.c_str(),
              done.mail.c_str());
  return 0;
}

// ---------------------------------------------------------------- the storyteller

/// A worker process. Killed with us, whatever happens to us.
class Worker {
 public:
  explicit Worker(const std::filesystem::path& directory) {
    std::fflush(stdout);
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("cannot fork");
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() == parent) {
        ::execl("/proc/self/exe", "story", "worker", directory.c_str(), static_cast<char*>(nullptr));
      }
      std::_Exit(127);
    }
  }

  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ~Worker() {
    if (pid_ > 0) kill();
  }

  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }

  /// True if it ended by itself, and well.
  bool wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  bool is_running() const { return ::waitpid(pid_, nullptr, WNOHANG | WNOWAIT) == 0; }

 private:
  pid_t pid_ = -1;
};

/// Where the story is told; gone when it is over.
struct TemporaryDirectory {
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "semel-story-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a directory in /tmp");
    path = name;
  }

  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  ~TemporaryDirectory() { std::filesystem::remove_all(path); }

  std::filesystem::path path;
};

void heading(int number, const std::string& text) {
  const bool bold = ::isatty(STDOUT_FILENO) == 1;
  std::printf("\n%s%d. %s%s\n", bold ? "\x1b[1m" : "", number, text.c_str(), bold ? "\x1b[0m" : "");
}

/// The story must come out as told: what it relies on is checked, and a difference ends it with exit code 1.
void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

void wait_for(const World& world, const Worker& worker, const std::string& line) {
  for (int i = 0; i < 30'000 && worker.is_running(); ++i) {
    if (world.count(line) > 0) return;
    std::this_thread::sleep_for(1ms);
  }
  throw std::runtime_error("the worker never came to: " + line);
}

std::string named(const std::vector<std::string>& lines, const std::string& start, const std::string& name) {
  for (const std::string& line : lines) {
    if (line.starts_with(start) && line.ends_with(" " + name)) {
      return line.substr(start.size(), line.size() - start.size() - name.size() - 1);
    }
  }
  throw std::runtime_error("the ledger has no " + start + name);
}

/// One line per journal entry: what arrived, and what the workflow then asked for.
std::vector<semel::Entry> show_journal(const std::filesystem::path& directory, const std::string& run_id) {
  semel::Engine engine{database(directory)};  // no workers: it only looks
  auto journal = engine.run(run_id).journal();
  for (const semel::Entry& entry : journal) {
    std::string asked;
    const auto& object = entry.value.as_object();
    if (const auto* requests = object.if_contains("requests")) {
      for (const semel::Json& request : requests->as_array()) {
        const auto* name = request.as_object().if_contains("name");
        asked += asked.empty() ? "   then asks for: " : ", ";
        asked += request.at("kind").as_string();
        if (name != nullptr) asked += " " + std::string(name->as_string());
      }
    }
    std::printf("     %llu  %-15s %-12s%s\n", static_cast<unsigned long long>(entry.seq), entry.kind.c_str(),
                entry.name.c_str(), asked.c_str());
  }
  return journal;
}

bool has_recorded(const std::vector<semel::Entry>& journal, const std::string& step) {
  return std::ranges::any_of(
      journal, [&](const semel::Entry& entry) { return entry.kind == "step_completed" && entry.name == step; });
}

void tell() {
  const TemporaryDirectory directory;
  const World world(directory.path);
  std::printf("semel: one order, three processes, two of them killed\n");

  heading(1, "A worker takes an order: charge the card, ship, rest a while, send an e-mail.");
  Worker first(directory.path);
  wait_for(world, first, "effect " + named({"effect "}, "", "") );
}

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a killed process must not take its lines along
  try {
    if (argc == 3 && std::string(argv[1]) == "worker") return worker(argv[2]);
    tell();
    return 0;
  } catch (const std::exception& error) {
    std::printf("\nThis is not how the story goes: %s\n", error.what());
    return 1;
  }
}
