#include "base/random.hpp"

#include "base/assert.hpp"

#include <openssl/rand.h>

#include <algorithm>
#include <utility>

namespace semel::base {

namespace {

std::string uuid_text(std::uint64_t high, std::uint64_t low, std::uint64_t version) {
  high = (high & ~0xF000ULL) | version << 12U;
  low = (low & ~(3ULL << 62U)) | (2ULL << 62U);
  static constexpr char digits[] = "0123456789abcdef";
  std::string text(36, '-');
  std::size_t nibble = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i == 8 || i == 13 || i == 18 || i == 23) continue;
    std::uint64_t& word = nibble < 16 ? high : low;
    text[i] = digits[word >> 60U];
    word <<= 4U;
    ++nibble;
  }
  return text;
}

}  // namespace

std::uint64_t SystemRandom::next() {
  if (used_ == block_.size()) {
    const int filled = RAND_bytes(reinterpret_cast<unsigned char*>(block_.data()), sizeof block_);
    SEMEL_ASSERT(filled == 1);
    used_ = 0;
  }
  return std::exchange(block_[used_++], 0);
}

std::uint64_t SeededRandom::next() {
  std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

double unit_interval(Random& random) {
  return static_cast<double>(random.next() >> 11U) * 0x1.0p-53;
}

std::string make_uuid(Random& random) {
  const std::uint64_t high = random.next();
  return uuid_text(high, random.next(), 4);
}

std::string make_uuid_v7(Random& random, TimePoint now) {
  const auto millis = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count());
  const std::uint64_t high = millis << 16U | (random.next() & 0x0FFFU);
  return uuid_text(high, random.next(), 7);
}

std::string IdSource::next(TimePoint now) {
  const auto since =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  const auto millis = static_cast<std::uint64_t>(std::max<std::int64_t>(since, 0));
  if (millis > millis_) {
    millis_ = millis;
    low_ = random_.next();
    high_ = static_cast<std::uint16_t>(random_.next());
  } else if (++low_ == 0) {
    // Also where the clock stands still or has jumped back: ids of one source never descend.
    if (++high_ == 0) ++millis_;
  }
  static constexpr char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
  std::string id(26, '0');
  std::uint64_t time = millis_;
  for (std::size_t i = 10; i-- > 0; time >>= 5U) id[i] = digits[time & 31U];
  unsigned __int128 rest = (static_cast<unsigned __int128>(high_) << 64U) | low_;
  for (std::size_t i = 26; i-- > 10; rest >>= 5U)
    id[i] = digits[static_cast<std::size_t>(rest & 31U)];
  return id;
}

}  // namespace semel::base
