// A bug stops the process, in release builds too: stopping is better than writing a wrong journal.
#pragma once

namespace semel::base {

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace semel::base

#define SEMEL_ASSERT(condition)       \
  ((condition) ? static_cast<void>(0) \
               : ::semel::base::assertion_failed(#condition, __FILE__, __LINE__))
