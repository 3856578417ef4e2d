// This program again, in a process of its own: it is given a job and answers with lines of JSON.
#pragma once

#include <boost/json/object.hpp>
#include <sys/types.h>

#include <ostream>
#include <string>

namespace semel::app::bench {

class Child {
 public:
  explicit Child(const boost::json::object& job);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  /// Kills it.
  ~Child();

  /// Its next line; throws Error where it ended without one.
  boost::json::object answer() const;

  /// A line for its standard input.
  void tell(const std::string& line) const;

  void kill();

 private:
  pid_t process_ = -1;
  int input_ = -1;
  int output_ = -1;
};

// What children do.
void park_in_child(const boost::json::object& job, std::ostream& out);
void be_node(const boost::json::object& job, std::ostream& out);

}  // namespace semel::app::bench
