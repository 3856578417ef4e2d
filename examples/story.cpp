// The story that ./run tells: an order whose process is killed twice and which is still done once.
//
// Without arguments this program is the storyteller: it starts itself as the worker, kills it with SIGKILL at telling
// moments and looks at what is left. As the worker it is what a user of semel writes: steps, a workflow, a main. A
// ledger file plays the world outside (a bank, a carrier, a mail server), which no kill can roll back.
#include <semel/semel.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace {

// ---------------------------------------------------------------- the world outside

/// One line for each thing that happened, appended with a single write: whoever dies afterwards, it stays.
class World {
 public:
  explicit World(const std::filesystem::path& directory) : file_(directory / "ledger.txt") {}

  void note(const std::string& line) const {
    const int file = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    const std::string text = line + "\n";
    const bool written = ::write(file, text.data(), text.size()) == std::ssize(text);
    ::close(file);
    if (!written) throw std::runtime_error("cannot write " + file_.string());
  }

  /// The lines that begin with `start`, without it.
  std::vector<std::string> all(const std::string& start) const {
    std::vector<std::string> found;
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with(start)) found.push_back(line.substr(start.size()));
    }
    return found;
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

class Shop {
 public:
  explicit Shop(const World& world) : world_(world) {}

  semel::Workflow<Fulfilled> fulfil(Order order) {
    Fulfilled done;
    done.receipt =
        co_await semel::step("charge-card", [this, order](const semel::StepContext& step) {
          return call("charge-card", step, "receipt-" + order.id, 100ms);
        });
    done.parcel = co_await semel::step("ship", [this, order](const semel::StepContext& step) {
      return call("ship", step, "parcel-" + order.id, 10s);
    });
    co_await semel::sleep(rest);
    done.mail = co_await semel::step("e-mail", [this, order](const semel::StepContext& step) {
      return call("e-mail", step, "mail-" + order.id, 100ms);
    });
    co_return done;
  }

 private:
  /// Calls somebody outside, who dedupes by the id we send as a bank does by an idempotency key: what is new is done,
  /// and answered after a while; what is known is answered at once.
  std::string call(const std::string& name, const semel::StepContext& step,
                   const std::string& answer, std::chrono::milliseconds takes) {
    const bool is_known = !world_.all("effect " + name + " " + step.id).empty();
    world_.note("call " + name + " " + step.id);
    if (!is_known) world_.note("effect " + name + " " + step.id);
    std::printf("     [%d] %-12s attempt %d, %s\n", ::getpid(), name.c_str(), step.attempt,
                is_known ? "they know its id: nothing is done again" : "they do it");
    if (!is_known) std::this_thread::sleep_for(takes);
    return answer;
  }

  const World& world_;
};

std::string store_in(const std::filesystem::path& directory) {
  return "sqlite:" + (directory / "orders.db").string();
}

/// A worker need not know whether it has been here before: it asks for the run under the order's key, and gets it.
int work(const std::filesystem::path& directory) {
  const World world(directory);
  Shop shop(world);
  semel::Engine engine{store_in(directory)};
  const auto fulfil = engine.add("fulfil", &Shop::fulfil, &shop);
  const auto [run, created] = engine.start({.key = "order-789"}, fulfil, Order{"789", 4990});
  world.note("run " + run.id());
  std::printf("     [%d] %-12s %s\n", ::getpid(), created ? "a new run" : "the same run",
              run.id().c_str());

  const bool was_asleep = run.status() == semel::RunStatus::waiting;
  engine.start_workers();
  while (run.status() == semel::RunStatus::running) std::this_thread::sleep_for(5ms);
  if (!was_asleep && run.status() == semel::RunStatus::waiting) {
    std::printf("     [%d] %-12s for %lld ms\n", ::getpid(), "asleep",
                static_cast<long long>(rest.count()));
    world.note("asleep");
  }
  const auto done = run.result<Fulfilled>();
  world.note("result " + done.receipt + ", " + done.parcel + ", " + done.mail);
  return 0;
}

// ---------------------------------------------------------------- the storyteller

/// A worker process. It does not outlive this one.
class Worker {
 public:
  explicit Worker(const std::filesystem::path& directory) {
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("cannot fork");
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == parent) {
      ::execl("/proc/self/exe", "story", "work", directory.c_str(), static_cast<char*>(nullptr));
    }
    std::_Exit(127);
  }

  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  ~Worker() { kill(); }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }

  bool ends_well() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  bool is_running() const {
    siginfo_t ended{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           ended.si_pid == 0;
  }

 private:
  pid_t pid_ = -1;
};

/// Where the story takes place; gone when it is over.
struct Directory {
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "semel-story-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make " + name);
    path = name;
  }

  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  ~Directory() { std::filesystem::remove_all(path); }

  std::filesystem::path path;
};

/// The story must come out as it is told: what it relies on is checked, and a difference ends it with exit code 1.
void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

void wait_for(const std::string& line, const World& world, const Worker& worker) {
  while (world.all(line).empty()) {
    expect(worker.is_running(), "the worker ended before it came to \"" + line + "\"");
    std::this_thread::sleep_for(1ms);
  }
}

void heading(const std::string& text) {
  const bool bold = ::isatty(STDOUT_FILENO) == 1;
  std::printf("\n%s%s%s\n", bold ? "\x1b[1m" : "", text.c_str(), bold ? "\x1b[0m" : "");
}

/// One line for each entry: what arrived, and what the workflow then asked for.
void show(const std::vector<semel::Entry>& journal) {
  for (const semel::Entry& entry : journal) {
    std::string asked;
    if (const auto* requests = entry.value.as_object().if_contains("requests")) {
      for (const semel::Json& request : requests->as_array()) {
        const auto* name = request.as_object().if_contains("name");
        asked += (asked.empty() ? "asks for " : ", ") + std::string(request.at("kind").as_string());
        if (name != nullptr) asked += " " + std::string(name->as_string());
      }
    }
    std::printf("     %llu  %-15s %-12s %s\n", static_cast<unsigned long long>(entry.seq),
                entry.kind.c_str(), entry.name.c_str(), asked.c_str());
  }
}

/// The journal as a process finds it that only looks: it starts no workers, so nothing runs.
std::vector<semel::Entry> journal_of(const std::string& run_id,
                                     const std::filesystem::path& directory) {
  semel::Engine engine{store_in(directory)};
  return engine.run(run_id).journal();
}

long recorded(const std::vector<semel::Entry>& journal, const std::string& step) {
  return std::ranges::count_if(journal, [&](const semel::Entry& entry) {
    return entry.kind == "step_completed" && entry.name == step;
  });
}

void tell() {
  const Directory directory;
  const World world(directory.path);
  std::printf("semel: one order, three processes, two of them killed.\n");

  heading("1. A worker takes an order: charge the card, ship, rest, send an e-mail.");
  {
    Worker worker(directory.path);
    wait_for("effect ship", world, worker);
    worker.kill();
  }
  const std::string run_id = world.all("run ").front();

  heading("2. kill -9: the carrier has the parcel, the worker had no time to write that down.");
  const auto journal_early = journal_of(run_id, directory.path);
  std::printf("   All that is left is the journal:\n");
  show(journal_early);
  expect(recorded(journal_early, "charge-card") == 1,
         "the card was charged and that is not recorded");
  expect(recorded(journal_early, "ship") == 0, "shipping was recorded before the carrier answered");

  heading("3. Another worker opens the same file and asks for the same order under the same key.");
  {
    Worker worker(directory.path);
    wait_for("asleep", world, worker);
    worker.kill();
  }
  const auto killed_at = std::chrono::steady_clock::now();

  heading("4. kill -9 in its sleep. Nobody is there when the time comes to wake.");
  std::this_thread::sleep_until(killed_at + rest);
  expect(world.all("call e-mail").empty(), "the e-mail was sent before the rest was over");

  heading("5. A third worker.");
  expect(Worker(directory.path).ends_well(), "the third worker failed");
  const std::string result = world.all("result ").front();
  std::printf("     %s\n", result.c_str());
  expect(result == "receipt-789, parcel-789, mail-789", "the result is wrong");

  heading("6. What the world outside saw, by the id of the step that called.");
  std::printf("     %-12s %-34s %5s   %7s\n", "step", "id", "calls", "effects");
  for (const auto& [step, calls] : {std::pair{"charge-card", 1U}, {"ship", 2U}, {"e-mail", 1U}}) {
    const auto called = world.all("call " + std::string(step) + " ");
    const auto effects = world.all("effect " + std::string(step) + " ");
    std::printf("     %-12s %-34s %5zu   %7zu\n", step, effects.front().c_str(), called.size(),
                effects.size());
    expect(called.size() == calls && effects.size() == 1, "a step ran more often than it should");
    expect(std::ranges::count(called, effects.front()) == std::ssize(called),
           "a step changed its id");
  }
  std::printf(
      "   Charged once, shipped once, written to once. The charge was recorded before the kill, so "
      "it never ran\n"
      "   again; shipping was not, so it did, under the same id, and the carrier knew it.\n");
  const auto runs = world.all("run ");
  expect(runs.size() == 3 && std::ranges::count(runs, run_id) == 3,
         "the same key gave another run");
  const auto journal = journal_of(run_id, directory.path);
  for (const char* step : {"charge-card", "ship", "e-mail"}) {
    expect(recorded(journal, step) == 1, "a step is not recorded exactly once");
  }

  heading("How to go on");
  std::printf(
      "     ./test              the same in anger: hundreds of kills, every store call, a "
      "simulator\n"
      "     docs/tutorial.md    write a workflow of your own\n"
      "     examples/           small whole programs; order.cpp first, this story is story.cpp\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a killed process must not take its lines along
  try {
    if (argc == 3 && std::string(argv[1]) == "work") return work(argv[2]);
    tell();
    return 0;
  } catch (const std::exception& error) {
    std::printf("\nThat is not how the story goes: %s\n", error.what());
    return 1;
  }
}
