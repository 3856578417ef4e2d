// Chance, passed in. Production draws from the operating system's generator; simulation from a seed.
#pragma once

#include <semel/error.hpp>

#include <array>
#include <cstdint>
#include <string>

namespace semel::base {

class Random {
 public:
  virtual ~Random() = default;
  virtual std::uint64_t next() = 0;
};

/// OpenSSL's generator, drawn a block at a time: values are unguessable.
class SystemRandom final : public Random {
 public:
  std::uint64_t next() override;

 private:
  std::array<std::uint64_t, 64> block_{};
  std::size_t used_ = 64;
};

/// The same numbers for the same seed (SplitMix64).
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() override;

  /// Uniform in [0, bound); `bound` > 0.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

  /// True once in `n` draws on average.
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

/// Uniform in [0, 1).
double unit_interval(Random& random);

/// A version 4 UUID.
std::string make_uuid(Random& random);

/// A version 7 UUID (RFC 9562): later ones sort behind earlier ones, by the millisecond.
std::string make_uuid_v7(Random& random, TimePoint now);

/// Time-ordered public ids: 26 characters of Crockford's base 32, 48 bits of milliseconds and 80 random bits.
/// Ids made by one source in one millisecond still ascend.
class IdSource {
 public:
  explicit IdSource(Random& random) : random_(random) {}

  std::string next(TimePoint now);

 private:
  Random& random_;
  std::uint64_t millis_ = 0;
  std::uint64_t low_ = 0;
  std::uint16_t high_ = 0;
};

}  // namespace semel::base
