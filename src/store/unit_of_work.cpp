#include "store/unit_of_work.hpp"

namespace semel::store {

std::exception_ptr moved_its_own_run() {
  return std::make_exception_ptr(
      FatalError("a transactional step must neither end its own run nor send it a payload that it "
                 "awaits"));
}

}  // namespace semel::store
