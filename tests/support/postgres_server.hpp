// A PostgreSQL server of the test program's own: made, started and stopped by it, gone with it whatever becomes of it.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <thread>

namespace semel::testing {

class PostgresServer {
 public:
  /// Without fsync: these tests are about rules, not about disks.
  PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;
  ~PostgresServer();

  /// The one that all tests of this program share.
  static PostgresServer& shared();

  std::string url() const { return url_of(port_); }

  /// Through something else that listens on loopback.
  static std::string url_of(int port);

  int port() const { return port_; }

  /// Forgets all that a store left there.
  void clear() const { run("DROP SCHEMA IF EXISTS semel CASCADE"); }

  /// Forgets what is in the tables of a store and leaves them there: much quicker.
  void empty() const;

  void run(const std::string& sql) const;

 private:
  void drain();

  std::filesystem::path directory_;
  int port_ = 0;
  pid_t id_ = -1;
  int log_ = -1;
  std::thread drain_;
};

}  // namespace semel::testing
