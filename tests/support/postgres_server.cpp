#include "tests/support/postgres_server.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <vector>

namespace semel::testing {

namespace {

/// The server refuses to be root's; then it is the user's that Debian makes for it.
const passwd* other_user() {
  if (::geteuid() != 0) return nullptr;
  const passwd* user = ::getpwnam("postgres");
  REQUIRE_MESSAGE(user != nullptr, "as root these tests need the user postgres");
  return user;
}

/// Starts a program of PostgreSQL's whose output can be read from `output`.
pid_t start(std::vector<std::string> command, int& output) {
  command.front() = std::string{SEMEL_POSTGRES_BIN "/"} + command.front();
  std::vector<char*> arguments;
  for (std::string& each : command) arguments.push_back(each.data());
  arguments.push_back(nullptr);
  const passwd* user = other_user();
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t id = ::fork();
  REQUIRE(id >= 0);
  if (id == 0) {
    const bool is_user =
        user == nullptr || (::setgid(user->pw_gid) == 0 && ::setuid(user->pw_uid) == 0);
    ::prctl(PR_SET_PDEATHSIG, SIGQUIT);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    if (is_user) ::execv(arguments.front(), arguments.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  output = ends[0];
  return id;
}

/// What it said up to `word`, or all of it.
std::string read_until(int output, std::string_view word) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (word.empty() || text.find(word) == std::string::npos) {
    const ssize_t got = ::read(output, buffer.data(), buffer.size());
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return text;
}

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* any = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(socket, any, size) == 0);
  REQUIRE(::getsockname(socket, any, &size) == 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

}  // namespace

PostgresServer::PostgresServer() : port_(free_port()) {
  // In memory where there is such a place.
  const std::filesystem::path memory = "/dev/shm";
  const auto parent =
      std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
  std::string name = (parent / "semel-postgres-XXXXXX").string();  // mkdtemp fills it in
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  directory_ = name;
  if (const passwd* user = other_user())
    REQUIRE(::chown(name.c_str(), user->pw_uid, user->pw_gid) == 0);

  const std::string data = (directory_ / "data").string();
  int output = -1;
  const pid_t init = start({"initdb", "-D", data, "-A", "trust", "-U", "semel", "-E", "UTF8",
                            "--locale=C", "--no-sync", "--no-instructions"},
                           output);
  const std::string said = read_until(output, "");
  ::close(output);
  int status = 0;
  REQUIRE(::waitpid(init, &status, 0) == init);
  REQUIRE_MESSAGE(status == 0, said);

  id_ = start(
      {"postgres", "-D", data, "-p", std::to_string(port_), "-c", "listen_addresses=127.0.0.1",
       "-c", "unix_socket_directories=" + name, "-c", "fsync=off", "-c", "shared_buffers=64MB",
       "-c", "max_connections=60", "-c", "lc_messages=C", "-c", "deadlock_timeout=100ms"},
      log_);
  const std::string begun = read_until(log_, "ready to accept connections");
  REQUIRE_MESSAGE(begun.find("ready to accept connections") != std::string::npos, begun);
  drain_ = std::thread([this] { drain(); });
}

PostgresServer::~PostgresServer() {
  ::kill(id_, SIGQUIT);
  ::waitpid(id_, nullptr, 0);
  if (drain_.joinable()) drain_.join();
  ::close(log_);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

/// Otherwise the server would wait for somebody to read its log.
void PostgresServer::drain() { read_until(log_, ""); }

PostgresServer& PostgresServer::shared() {
  static PostgresServer server;
  return server;
}

std::string PostgresServer::url_of(int port) {
  return "postgres://semel@127.0.0.1:" + std::to_string(port) + "/postgres";
}

void PostgresServer::empty() const {
  run("DO $$ DECLARE name text; BEGIN"
      " IF to_regclass('semel.schema_version') IS NULL THEN RETURN; END IF;"
      " FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'semel'"
      "  AND tablename NOT IN ('schema_version', 'counter', 'partition') LOOP"
      "  EXECUTE 'DELETE FROM semel.' || name; END LOOP;"
      " DELETE FROM semel.counter c WHERE c.name <> 'run'; UPDATE semel.counter SET next = 1; "
      "UPDATE "
      "semel.partition SET node = NULL, epoch = 0, open "
      "= 0, well = 0, crashes = 0;"
      " FOR name IN SELECT sequencename FROM pg_sequences WHERE schemaname = 'semel' LOOP"
      "  PERFORM setval('semel.' || name, 1, false); END LOOP; END $$");
}

void PostgresServer::run(const std::string& sql) const {
  PGconn* connection = ::PQconnectdb(url().c_str());
  PGresult* result = ::PQexec(connection, ("SET client_min_messages = warning;" + sql).c_str());
  const bool is_done = ::PQresultStatus(result) == PGRES_COMMAND_OK;
  const std::string message = ::PQerrorMessage(connection);
  ::PQclear(result);
  ::PQfinish(connection);
  REQUIRE_MESSAGE(is_done, message);
}

}  // namespace semel::testing
