// The transcripts of the documentation, executed: those of docs/http.md against examples/appointments, those of docs/proxy.md
// against a proxy in front of a service that knows nothing of keys, those of docs/cli.md against `semel serve --demo`.
#include "tests/process/transcripts.hpp"

#include "base/clock.hpp"
#include "http/listener.hpp"
#include "tests/process/process.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace semel::http {

namespace {

using process::matches;
using process::transcripts_in;

/// Where the pages say their server is.
const std::string address_in_page = "127.0.0.1:8080";

/// `appointments serve 0` in a directory of its own; killed by the destructor, unless it ended before.
class Example {
 public:
  Example() {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    REQUIRE(::pipe2(in.data(), O_CLOEXEC) == 0);
    REQUIRE(::pipe2(out.data(), O_CLOEXEC) == 0);
    id_ = ::fork();
    REQUIRE(id_ >= 0);
    if (id_ == 0) {  // only calls that are safe between fork and exec
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(out[1], STDOUT_FILENO);
      if (::chdir(directory_.path().c_str()) != 0) ::_exit(126);
      ::execl(SEMEL_APPOINTMENTS, "appointments", "serve", "0", nullptr);
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    address_ = first_line(out[0]);
    ::close(out[0]);
  }

  Example(const Example&) = delete;
  Example& operator=(const Example&) = delete;

  ~Example() {
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      end();
    }
  }

  /// Closes its standard input and waits: the exit code, or -1 if it was killed.
  int end() {
    ::close(input_);
    int status = 0;
    ::waitpid(std::exchange(id_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  /// "127.0.0.1:40123"
  const std::string& address() const { return address_; }

  const std::filesystem::path& directory() const { return directory_.path(); }

 private:
  /// What it says when it listens, without "http://".
  static std::string first_line(int descriptor) {
    std::string line;
    for (char byte = 0; ::read(descriptor, &byte, 1) == 1 && byte != '\n';) line += byte;
    constexpr std::string_view scheme = "http://";
    REQUIRE(line.starts_with(scheme));
    return line.substr(scheme.size());
  }

  process::TemporaryDirectory directory_;
  pid_t id_ = -1;
  int input_ = -1;
  std::string address_;
};

/// Takes an order each time it is asked.
class Shop final : public Handler {
 public:
  Shop() : listener_(Listener::open({}, *this, clock_)) {}

  Shop(const Shop&) = delete;
  Shop& operator=(const Shop&) = delete;

  ~Shop() override { listener_->stop(); }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(listener_->port()); }

 private:
  void handle(const Request& /*request*/, Responder responder) override {
    responder.answer({201,
                      {{"content-type", "application/json"}},
                      "{\"order\":" + std::to_string(++orders_) + "}"});
  }

  const base::SystemClock clock_;
  std::atomic<int> orders_ = 0;
  std::unique_ptr<Listener> listener_;
};

/// What stands between two texts in a log; empty as long as it is not there.
std::string found_between(const std::filesystem::path& log, std::string_view before,
                          std::string_view behind) {
  const std::string text = process::text_of(log);
  const std::size_t at = text.find(before);
  if (at == std::string::npos) return "";
  const std::size_t from = at + before.size();
  const std::size_t end = text.find(behind, from);
  return end == std::string::npos ? "" : text.substr(from, end - from);
}

/// The command line as a server, which says where it listens.
class Serving {
 public:
  Serving(std::vector<std::string> arguments, std::string_view before, std::string_view behind) {
    arguments.insert(arguments.begin(), SEMEL_SEMEL_CLI);
    arguments.insert(arguments.end(),
                     {"--store", "sqlite:" + (directory_.path() / "semel.db").string(), "--listen",
                      "127.0.0.1:0"});
    const auto log = directory_.path() / "log";
    child_.emplace(arguments, log);
    const bool listens = process::comes_true(
        [&] {
          address_ = found_between(log, before, behind);
          return !address_.empty();
        },
        std::chrono::seconds{60});
    REQUIRE_MESSAGE(listens, process::text_of(log));
  }

  /// "127.0.0.1:40123"
  const std::string& address() const { return address_; }

  const std::filesystem::path& directory() const { return directory_.path(); }

 private:
  process::TemporaryDirectory directory_;
  std::optional<process::Child> child_;
  std::string address_;
};

}  // namespace

TEST_CASE("the curl transcripts of docs/http.md are what happens") {
  Example example;

  process::check_transcripts("http.md", {.directory = example.directory(),
                                         .instead = {{address_in_page, example.address()}}});

  CHECK(example.end() == 0);
}

TEST_CASE("the curl transcripts of docs/proxy.md are what happens") {
  const Shop shop;
  const Serving proxy({"proxy", "--upstream", shop.url()}, "semel: proxy on ", " in front");

  process::check_transcripts("proxy.md", {.directory = proxy.directory(),
                                          .instead = {{address_in_page, proxy.address()}}});
}

TEST_CASE("the transcripts of docs/cli.md are what happens") {
  const Serving server({"serve", "--demo"}, " on http://", "\n");
  const std::string programs = std::filesystem::path(SEMEL_SEMEL_CLI).parent_path().string();

  process::check_transcripts("cli.md",
                             {.directory = server.directory(),
                              .environment = {{"PATH", programs + ":$PATH"},
                                              {"SEMEL_SERVER", "http://" + server.address()}}});
}

TEST_CASE("a transcript is a command, which may have several lines, and what is shown behind it") {
  const auto found = transcripts_in(
      "$ not this\n```console\n$ curl a \\\n  b\none\n\ntwo\n$ curl c\n```\n```sh\n$ nor "
      "this\n```\n"
      "```console\n$ curl d\nthree\n```\n");

  REQUIRE(found.size() == 3);
  CHECK(found[0].command == "curl a \\\n  b");
  CHECK(found[0].shown == "one\n\ntwo\n");
  CHECK(found[1].command == "curl c");
  CHECK(found[1].shown.empty());
  CHECK(found[2].shown == "three\n");
}

TEST_CASE("an ellipsis stands for something, within one line") {
  CHECK(matches("date: …\nid: 1", "date: today\nid: 1"));
  CHECK(matches("a … c … e", "a b c d e"));
  CHECK(matches("…", "anything"));
  CHECK_FALSE(matches("…", ""));
  CHECK_FALSE(matches("date: …", "date: "));
  CHECK_FALSE(matches("date: …", "date: today\nid: 1"));
  CHECK_FALSE(matches("date: …\nid: 1", "date: today\nid: 2"));
  CHECK_FALSE(matches("id: 1", "id: 12"));
  CHECK_FALSE(matches("a … c", "a b d"));
}

}  // namespace semel::http
