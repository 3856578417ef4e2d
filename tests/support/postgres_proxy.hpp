// Stands between a program and PostgreSQL on loopback, knows a COMMIT when it sees one (or a statement that is committed
// without), and does to it what it is told.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace semel::testing {

/// What becomes of a COMMIT.
enum class Fate {
  passed_on,
  cut_before,  ///< the connection is cut; the server never sees it
  cut_after,   ///< the server has answered it; the connection is cut before the answer is passed on
  cut_at_once,  ///< passed on, and both connections reset: nobody knows which was first
  stalled,  ///< the server has answered it; the answer is kept back and the connection left open
  delayed,  ///< the answer is passed on late
  panicked,  ///< the server has done it; what is passed on is that it stops because it could not flush its log
};

class PostgresProxy {
 public:
  explicit PostgresProxy(int server_port);
  PostgresProxy(const PostgresProxy&) = delete;
  PostgresProxy& operator=(const PostgresProxy&) = delete;
  ~PostgresProxy();

  std::string url() const;

  /// For the next COMMIT that comes by, on whatever connection; those behind it are passed on.
  void next_commit(Fate fate) { fate_ = fate; }

  /// The next ROLLBACK that comes by without a pipeline: the connection is cut, the server never sees it.
  void cut_next_rollback() { cuts_rollback_ = true; }

  /// COMMITs that did not fare as usual.
  int interfered() const { return interfered_; }

  /// Of those, statements that are committed without one.
  int interfered_alone() const { return interfered_alone_; }

 private:
  class Link;

  void accept_links();

  int server_port_;
  int listener_ = -1;
  int port_ = 0;
  int stop_ = -1;  ///< readable when it is over
  std::atomic<Fate> fate_ = Fate::passed_on;
  std::atomic<bool> cuts_rollback_ = false;
  std::atomic<int> interfered_ = 0;
  std::atomic<int> interfered_alone_ = 0;
  std::thread acceptor_;
  std::vector<std::thread> links_;
};

}  // namespace semel::testing
