// Which keys may be there, by their hashes: says no only where that is certain. A Bloom filter in blocks of a cache line,
// which grows in parts, each twice as large as the one before, up to a limit.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace semel::store {

/// Any thread. Who was added before is found by whoever looks behind that.
class KeyFilter {
 public:
  explicit KeyFilter(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  void add(std::uint64_t hash);
  bool may_have(std::uint64_t hash) const;

  /// There is no room for more: everything may be there.
  bool is_full() const { return is_full_.load(std::memory_order_acquire); }

  /// As many again have come since it was full.
  bool is_overrun() const;

 private:
  struct alignas(64) Block {
    std::array<std::atomic<std::uint64_t>, 8> words{};
  };

  struct Part {
    std::unique_ptr<Block[]> blocks;
    std::size_t count = 0;
    std::atomic<std::size_t> used = 0;
  };

  Part* part_with_room();

  static constexpr std::size_t parts_max = 32;

  const std::size_t bytes_max_;
  std::array<Part, parts_max> parts_;
  std::atomic<std::size_t> parts_count_ = 0;
  std::atomic<std::size_t> missed_ = 0;  ///< came when it was full
  std::atomic<bool> is_full_ = false;
  std::mutex growing_;
  std::size_t bytes_ = 0;  ///< of all parts; fixed once it is full
};

}  // namespace semel::store
