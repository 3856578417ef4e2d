#include "base/assert.hpp"
#include "base/utf8.hpp"

#include <semel/step.hpp>

namespace semel::detail {

std::string StepBody::run(const StepContext&) {
  SEMEL_ASSERT(false);
  return {};
}

Task<std::string> StepBody::start(const StepContext&) {
  SEMEL_ASSERT(false);
  co_return std::string{};
}

std::string StepBody::transact(sql::Transaction&) {
  SEMEL_ASSERT(false);
  return {};
}

std::uint64_t hash_arguments(std::string_view json) {
  // FNV-1a: stored, so it must be the same on every build; nothing rests on it but a warning.
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : json) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3ULL;
  }
  return hash;
}

void check_step(const std::string& name, const StepOptions& options) {
  const auto refuse = [&](const char* why) {
    throw Error("VALIDATION_ERROR", "step \"" + name + "\": " + why);
  };
  if (name.empty() || name.size() > 255) refuse("a name has 1 to 255 bytes");
  if (!base::is_utf8(name)) throw Error("VALIDATION_ERROR", "a step's name is not UTF-8");
  const Retry& retry = options.retry;
  if (retry.attempts < 1) refuse("attempts must be at least 1");
  if (retry.initial < Millis{0} || retry.max < Millis{0} || !(retry.factor >= 1)) {
    refuse("delays must not be negative and the factor at least 1");
  }
  if (options.timeout && *options.timeout <= Millis{0}) refuse("a time-out must be positive");
  if (options.mode == StepMode::at_most_once && retry.attempts != 1 &&
      retry.attempts != Retry{}.attempts) {
    refuse("an at_most_once step has one attempt");
  }
}

}  // namespace semel::detail
