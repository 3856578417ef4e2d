// What the benchmarks found, as a table for people and JSON for scripts.
#pragma once

#include "app/bench_measure.hpp"

#include <boost/json/value.hpp>

#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace semel::app::bench {

enum class Unit { per_second, microseconds, milliseconds, bytes, ratio, count };

/// What a figure should reach.
struct Target {
  enum class Of { value, ratio } of = Of::ratio;
  enum class Sense { at_least, at_most, exactly } sense = Sense::at_least;
  double bound = 0;
  bool quiet_disk_only = false;  ///< means nothing where the disk is slow
};

struct Row {
  std::string section;
  std::string name;
  Unit unit = Unit::per_second;
  Figure value;
  std::optional<Figure> raw;    ///< the limit, in the same unit
  std::optional<Figure> ratio;  ///< value to limit, round by round
  std::vector<Target> targets;
  std::string note;
};

/// A disk that flushes less often than this is slow or busy, and says nothing about the engine.
inline constexpr double quiet_flushes_per_second = 3000;

bool is_met(const Row& row, const Target& target);

/// A limit that was beaten by a tenth was no limit: something else had the machine while it was measured.
bool is_disturbed(const Row& row);

enum class Verdict { met, below, slow_disk, disturbed };

class Report {
 public:
  /// `out` is told each row as it comes.
  explicit Report(std::ostream& out) : out_(out) {}

  void add(Row row);
  /// A line of its own between the rows.
  void say(const std::string& line);

  void set_flushes_per_second(double flushes) { flushes_per_second_ = flushes; }

  /// Others want the processors, too: ratios are printed and not judged. (A load of several threads gets more of a busy
  /// machine than one thread does, so they flatter the engine.)
  void set_busy() { busy_ = true; }

  const std::vector<Row>& rows() const { return rows_; }

  /// The targets of the rows together: how many are met, below, or not to be judged.
  void summary();

  boost::json::value json() const;

 private:
  Verdict verdict(const Row& row, const Target& target) const;

  std::ostream& out_;
  std::vector<Row> rows_;
  std::string section_;
  double flushes_per_second_ = 0;
  bool busy_ = false;
};

}  // namespace semel::app::bench
