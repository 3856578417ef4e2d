// How a failure travels inside a store. Its calls turn it into a Fault, so that the rules between them read as rules; it
// never leaves the store.
#pragma once

#include "base/result.hpp"

#include <exception>
#include <string>
#include <utility>

namespace semel::store {

/// What is thrown inside a store and is no business of the program's whose code may run in between.
struct Internal {};

class Failed : public std::exception, public Internal {
 public:
  explicit Failed(base::Fault fault) : fault_(std::move(fault)) {}

  const base::Fault& fault() const { return fault_; }

  const char* what() const noexcept override { return fault_.message.c_str(); }

 private:
  base::Fault fault_;
};

[[noreturn]] inline void throw_corrupt(std::string message) {
  throw Failed{base::Fault{base::Errc::corrupt, std::move(message)}};
}

}  // namespace semel::store
