#include "tests/process/process.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace semel::process {

namespace {

/// A power of two that divides the page size: a record never lies on two pages, so the kernel writes it whole or not
/// at all even if the writer is killed meanwhile.
constexpr std::size_t record_bytes = 128;
/// Where a child says "ready".
constexpr int ready_descriptor = 3;

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::system_category(), what);
}

/// False if `patience` passes first.
bool becomes_readable(int descriptor, std::chrono::microseconds patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const auto left = std::max(std::chrono::nanoseconds(0),
                               std::chrono::nanoseconds(until - std::chrono::steady_clock::now()));
    const timespec time{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    pollfd polled{descriptor, POLLIN, 0};
    const int count = ::ppoll(&polled, 1, &time, nullptr);
    if (count >= 0) return count > 0;
    if (errno != EINTR) fail("ppoll");
  }
}

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "semel-process-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) fail("cannot make " + name);
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  if (setting("SEMEL_KEEP", 0) != 0) {
    std::fprintf(stderr, "kept: %s\n", path_.c_str());
    return;
  }
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Child::Child(const std::vector<std::string>& command, const std::filesystem::path& log) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  const int log_file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  const pid_t parent = ::getpid();
  id_ = ::fork();
  if (id_ < 0) fail("fork");
  if (id_ == 0) {  // only calls that are safe between fork and exec
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(126);
    ::dup2(log_file, STDOUT_FILENO);
    ::dup2(log_file, STDERR_FILENO);
    if (ends[1] == ready_descriptor) {
      ::fcntl(ready_descriptor, F_SETFD, 0);  // it must survive exec
    } else {
      ::dup2(ends[1], ready_descriptor);
    }
    ::execv(arguments.front(), arguments.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  ::close(log_file);
  ready_ = ends[0];
  handle_ = static_cast<int>(::syscall(SYS_pidfd_open, id_, 0));
  if (handle_ < 0) fail("pidfd_open");
}

Child::~Child() {
  kill();
  ::close(handle_);
  ::close(ready_);
}

bool Child::is_ready_within(std::chrono::milliseconds patience) {
  char byte = 0;
  return becomes_readable(ready_, patience) && ::read(ready_, &byte, 1) == 1;
}

std::optional<int> Child::ends_within(std::chrono::microseconds patience) {
  if (id_ <= 0 || !becomes_readable(handle_, patience)) return std::nullopt;
  int status = 0;
  ::waitpid(std::exchange(id_, -1), &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void Child::kill() {
  if (id_ <= 0) return;
  ::kill(id_, SIGKILL);
  ::waitpid(std::exchange(id_, -1), nullptr, 0);
}

void say_ready() {
  if (::write(ready_descriptor, "r", 1) != 1) std::_Exit(1);
}

Ledger::Ledger(std::filesystem::path file)
    : file_(std::move(file)),
      descriptor_(::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) fail("cannot open " + file_.string());
}

Ledger::~Ledger() { ::close(descriptor_); }

void Ledger::append(const std::string& line) {
  if (line.size() >= record_bytes) throw std::length_error("too long for the ledger: " + line);
  std::string record = line;
  record.resize(record_bytes - 1, ' ');
  record.push_back('\n');
  if (::write(descriptor_, record.data(), record.size()) != std::ssize(record)) fail("the ledger");
}

std::vector<std::string> Ledger::lines() const {
  std::vector<std::string> lines;
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);) {
    if (line.size() != record_bytes - 1) throw std::runtime_error("a torn line in the ledger");
    lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  return lines;
}

void pause(std::chrono::microseconds time) {
  const timespec left{time.count() / 1'000'000, time.count() % 1'000'000 * 1000};
  ::ppoll(nullptr, 0, &left, nullptr);
}

std::uint16_t port_to_return_to() {
  std::random_device chance;
  // Below those that the kernel gives to clients.
  std::uniform_int_distribution<int> ports(20'000, 32'000);
  for (;;) {
    const int port = ports(chance);
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (socket < 0) fail("socket");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool is_free =
        ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    ::close(socket);
    if (is_free) return static_cast<std::uint16_t>(port);
  }
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace semel::process
