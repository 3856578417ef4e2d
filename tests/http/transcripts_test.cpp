// The curl transcripts of docs/http.md, executed against examples/appointments: what the page shows is what happens.
#include "tests/process/process.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace semel::http {

namespace {

/// Where the page says its server is.
constexpr std::string_view address_in_page = "127.0.0.1:8080";

/// A command and what the page shows behind it.
struct Transcript {
  std::string command;
  std::string shown;
};

/// Those of the ```console blocks: a command begins with "$ " and goes on behind a backslash.
std::vector<Transcript> transcripts_in(const std::string& page) {
  std::vector<Transcript> found;
  bool is_inside = false;
  bool goes_on = false;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      is_inside = line == "```console";
    } else if (is_inside && (goes_on || line.starts_with("$ "))) {
      if (!goes_on) found.emplace_back();
      found.back().command += (goes_on ? "\n" + line : line.substr(2));
      goes_on = line.ends_with('\\');
    } else if (is_inside) {
      found.at(found.size() - 1).shown += line + "\n";
    }
  }
  return found;
}

/// "…" stands for one character or more of one line.
bool matches(std::string_view pattern, std::string_view text) {
  constexpr std::string_view any = "…";
  const std::size_t at = pattern.find(any);
  if (at == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, at))) return false;
  pattern.remove_prefix(at + any.size());
  text.remove_prefix(at);
  while (!text.empty() && text.front() != '\n') {
    text.remove_prefix(1);
    if (matches(pattern, text)) return true;
  }
  return false;
}

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

/// What a person sees who types the command: without carriage returns and the last line's end.
std::string output_of(std::string command, const Example& example) {
  const std::size_t at = command.find(address_in_page);
  REQUIRE_MESSAGE(at != std::string::npos, "does not go to the server: " << command);
  command.replace(at, address_in_page.size(), example.address());
  // Nobody's own settings: no .curlrc, no proxy.
  const std::string home = example.directory().string();
  const std::string script = "export HOME=" + home + " CURL_HOME=" + home +
                             " XDG_CONFIG_HOME=" + home + " no_proxy='*'; { " + command +
                             "\n} 2>&1";
  FILE* pipe = ::popen(script.c_str(), "re");
  REQUIRE(pipe != nullptr);
  std::string output;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    if (c != '\r') output += static_cast<char>(c);
  }
  CHECK(::pclose(pipe) == 0);
  while (output.ends_with('\n')) output.pop_back();
  return output;
}

}  // namespace

TEST_CASE("the curl transcripts of docs/http.md are what happens") {
  const auto transcripts =
      transcripts_in(process::text_of(std::filesystem::path(SEMEL_SOURCE_DIR) / "docs/http.md"));
  REQUIRE(transcripts.size() >= 8);  // it reads the right page, and all of it
  Example example;

  for (const Transcript& transcript : transcripts) {
    CAPTURE(transcript.command);
    REQUIRE(transcript.command.starts_with("curl "));
    std::string shown = transcript.shown;
    while (shown.ends_with('\n')) shown.pop_back();
    const std::string output = output_of(transcript.command, example);
    CHECK_MESSAGE(matches(shown, output), "the page shows\n" << shown << "\nand it is\n" << output);
  }
  CHECK(example.end() == 0);
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
