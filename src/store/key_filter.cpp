#include "store/key_filter.hpp"

namespace semel::store {

namespace {

constexpr std::size_t first_blocks = 1024;
/// So many keys share the 512 bits of a block on average: one look in two hundred errs.
constexpr std::size_t keys_per_block = 42;
constexpr int bits_per_key = 6;

/// Spreads what a hash says over all bits, again differently for what is in the block.
std::uint64_t mixed(std::uint64_t hash) {
  hash ^= hash >> 30U;
  hash *= 0xBF58476D1CE4E5B9ULL;
  hash ^= hash >> 27U;
  hash *= 0x94D049BB133111EBULL;
  return hash ^ (hash >> 31U);
}

/// A number below `count`, by the hash's upper half.
std::size_t below(std::uint64_t hash, std::size_t count) { return (hash >> 32U) * count >> 32U; }

/// Calls `each` with the word and the bit of all bits of a key, until it says that it is enough.
template <class Each>
bool all_bits(std::uint64_t hash, const Each& each) {
  std::uint64_t bits = mixed(hash);
  for (int i = 0; i < bits_per_key; ++i, bits >>= 9U) {
    if (!each(bits & 7U, std::uint64_t{1} << ((bits >> 3U) & 63U))) return false;
  }
  return true;
}

}  // namespace

KeyFilter::Part* KeyFilter::part_with_room() {
  const auto with_room = [this]() -> Part* {
    const std::size_t count = parts_count_.load(std::memory_order_acquire);
    Part* last = count == 0 ? nullptr : &parts_[count - 1];
    return last != nullptr &&
                   last->used.load(std::memory_order_relaxed) < last->count * keys_per_block
               ? last
               : nullptr;
  };
  if (Part* last = with_room()) return last;
  const std::lock_guard lock(growing_);
  if (Part* last = with_room()) return last;
  const std::size_t count = parts_count_.load(std::memory_order_relaxed);
  const std::size_t blocks = first_blocks << count;
  if (count == parts_max || bytes_ + blocks * sizeof(Block) > bytes_max_) return nullptr;
  bytes_ += blocks * sizeof(Block);
  parts_[count].blocks = std::make_unique<Block[]>(blocks);
  parts_[count].count = blocks;
  parts_count_.store(count + 1, std::memory_order_release);
  return &parts_[count];
}

void KeyFilter::add(std::uint64_t hash) {
  if (is_full()) {
    missed_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (may_have(hash)) return;  // whoever comes again takes no room
  Part* part = part_with_room();
  if (part == nullptr) {
    is_full_.store(true, std::memory_order_release);
    return;
  }
  part->used.fetch_add(1, std::memory_order_relaxed);
  Block& block = part->blocks[below(hash, part->count)];
  all_bits(hash, [&block](std::size_t word, std::uint64_t bit) {
    block.words[word].fetch_or(bit, std::memory_order_relaxed);
    return true;
  });
}

bool KeyFilter::is_overrun() const {
  return is_full() && bytes_ > 0 &&
         missed_.load(std::memory_order_relaxed) >= bytes_ / sizeof(Block) * keys_per_block;
}

bool KeyFilter::may_have(std::uint64_t hash) const {
  if (is_full()) return true;
  const std::size_t count = parts_count_.load(std::memory_order_acquire);
  // New keys are looked for in all parts, and none of those lies in a cache: better to wait for all at once.
  for (std::size_t i = 0; i < count; ++i)
    __builtin_prefetch(&parts_[i].blocks[below(hash, parts_[i].count)]);
  // The largest part first: most are there.
  for (std::size_t i = count; i-- > 0;) {
    const Block& block = parts_[i].blocks[below(hash, parts_[i].count)];
    const bool has = all_bits(hash, [&block](std::size_t word, std::uint64_t bit) {
      return (block.words[word].load(std::memory_order_relaxed) & bit) != 0;
    });
    if (has) return true;
  }
  return false;
}

}  // namespace semel::store
