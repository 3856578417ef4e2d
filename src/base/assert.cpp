#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace semel::base {

void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "semel: bug at %s:%d: %s does not hold\n", file, line, condition);
  std::abort();
}

}  // namespace semel::base
