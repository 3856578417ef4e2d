// What a connection has read and not yet dealt with. Kept from request to request; given back after a large one.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>

namespace semel::http {

class InputBuffer {
 public:
  static constexpr std::size_t first_capacity = std::size_t{4} << 10U;
  static constexpr std::size_t kept_capacity = std::size_t{64} << 10U;

  char* data() { return bytes_.get(); }

  std::size_t size() const { return size_; }

  std::string_view view() const { return {bytes_.get(), size_}; }

  /// Room behind what is there: at least one byte. Grows by what has really arrived, not by what was announced.
  char* room() {
    if (size_ == capacity_) grow();
    return bytes_.get() + size_;
  }

  /// Makes sure that nothing moves until that much more is there.
  void reserve(std::size_t more) {
    while (capacity_ - size_ < more) grow();
  }

  std::size_t room_size() const { return capacity_ - size_; }

  void add(std::size_t bytes) { size_ += bytes; }

  /// Takes `count` bytes at `at` out; what follows moves up.
  void remove(std::size_t at, std::size_t count) {
    if (count == 0) return;
    std::memmove(bytes_.get() + at, bytes_.get() + at + count, size_ - at - count);
    size_ -= count;
  }

  /// Between two requests.
  void shrink() {
    if (capacity_ <= kept_capacity || size_ > first_capacity) return;
    auto smaller = std::make_unique_for_overwrite<char[]>(first_capacity);
    std::memcpy(smaller.get(), bytes_.get(), size_);
    bytes_ = std::move(smaller);
    capacity_ = first_capacity;
  }

 private:
  void grow() {
    const std::size_t capacity = capacity_ == 0 ? first_capacity : capacity_ * 2;
    auto larger = std::make_unique_for_overwrite<char[]>(capacity);
    if (size_ > 0) std::memcpy(larger.get(), bytes_.get(), size_);
    bytes_ = std::move(larger);
    capacity_ = capacity;
  }

  std::unique_ptr<char[]> bytes_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace semel::http
