// How far long work has come, for people who watch a terminal; nothing where nobody does.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <utility>

namespace semel::app {

class Progress {
 public:
  /// `what` is counted: "runs verified".
  Progress(std::ostream& err, std::string what)
      : err_(err), what_(std::move(what)), is_shown_(::isatty(STDERR_FILENO) == 1) {}

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  ~Progress() {
    if (is_shown_ && (count_ >= shown_every || columns_ > 40))
      err_ << '\r' << std::string(columns_, ' ') << '\r';
  }

  void add(std::uint64_t more = 1) {
    const std::uint64_t before = std::exchange(count_, count_ + more);
    if (before / shown_every != count_ / shown_every && is_shown_)
      err_ << '\r' << count_ << ' ' << what_ << std::flush;
  }

  /// A bar, where it is known how much there is to do.
  void show(std::uint64_t count, std::uint64_t all) {
    count_ = count;
    if (!is_shown_ || all == 0) return;
    constexpr std::uint64_t width = 30;
    const std::uint64_t full = std::min(width, width * count / all);
    err_ << "\r[" << std::string(full, '#') << std::string(width - full, '.') << "] " << count
         << " of " << all << ' ' << what_ << std::flush;
    columns_ = 80;
  }

  std::uint64_t count() const { return count_; }

 private:
  static constexpr std::uint64_t shown_every = 100;

  std::ostream& err_;
  const std::string what_;
  const bool is_shown_;
  std::uint64_t count_ = 0;
  std::size_t columns_ = 40;  ///< to wipe
};

}  // namespace semel::app
