#include "app/bench_report.hpp"

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <cmath>
#include <map>

namespace semel::app::bench {

namespace {

namespace json = boost::json;

std::string number(double value, Unit unit) {
  switch (unit) {
    case Unit::per_second:
      return fmt::format("{:.0f}/s", value);
    case Unit::microseconds:
      return fmt::format("{:.1f} us", value);
    case Unit::milliseconds:
      return fmt::format("{:.2f} ms", value);
    case Unit::bytes:
      return fmt::format("{:.0f} B", value);
    case Unit::ratio:
      return fmt::format("{:.2f}", value);
    case Unit::count:
      return fmt::format("{:.0f}", value);
  }
  return {};
}

std::string with_spread(const Figure& figure, Unit unit) {
  if (figure.low == figure.high) return number(figure.median, unit);
  const auto bare = [&](double value) {
    const std::string text = number(value, unit);
    return text.substr(0, text.find_first_not_of("-0123456789."));
  };
  return fmt::format("{} [{}-{}]", number(figure.median, unit), bare(figure.low),
                     bare(figure.high));
}

std::string_view sign(Target::Sense sense) {
  switch (sense) {
    case Target::Sense::at_least:
      return ">=";
    case Target::Sense::at_most:
      return "<=";
    case Target::Sense::exactly:
      return "=";
  }
  return "";
}

const Figure& judged(const Row& row, const Target& target) {
  return target.of == Target::Of::value || !row.ratio ? row.value : *row.ratio;
}

std::string text(const Row& row, const Target& target) {
  const Unit unit = target.of == Target::Of::value ? row.unit : Unit::ratio;
  return fmt::format("{} {}{}", sign(target.sense),
                     target.of == Target::Of::ratio && row.ratio ? "x" : "",
                     number(target.bound, unit));
}

json::object json_of(const Figure& figure) {
  return {{"median", figure.median}, {"low", figure.low}, {"high", figure.high}};
}

std::string_view word(Verdict verdict) {
  switch (verdict) {
    case Verdict::met:
      return "ok";
    case Verdict::below:
      return "BELOW";
    case Verdict::slow_disk:
      return "(slow disk)";
    case Verdict::disturbed:
      return "(disturbed)";
  }
  return "";
}

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::met:
      return "met";
    case Verdict::below:
      return "below";
    case Verdict::slow_disk:
      return "slow_disk";
    case Verdict::disturbed:
      return "disturbed";
  }
  return "";
}

std::string_view name_of(Unit unit) {
  switch (unit) {
    case Unit::per_second:
      return "per_second";
    case Unit::microseconds:
      return "us";
    case Unit::milliseconds:
      return "ms";
    case Unit::bytes:
      return "bytes";
    case Unit::ratio:
      return "ratio";
    case Unit::count:
      return "count";
  }
  return "";
}

}  // namespace

bool is_met(const Row& row, const Target& target) {
  const double found = judged(row, target).median;
  switch (target.sense) {
    case Target::Sense::at_least:
      return found >= target.bound;
    case Target::Sense::at_most:
      return found <= target.bound;
    case Target::Sense::exactly:
      return std::abs(found - target.bound) < 1e-9;
  }
  return false;
}

bool is_disturbed(const Row& row) {
  if (!row.ratio) return false;
  return row.unit == Unit::per_second ? row.ratio->median > 1.1 : row.ratio->median < 0.9;
}

Verdict Report::verdict(const Row& row, const Target& target) const {
  if (target.of == Target::Of::ratio && (busy_ || is_disturbed(row))) return Verdict::disturbed;
  if (is_met(row, target)) return Verdict::met;
  const bool slow = flushes_per_second_ < quiet_flushes_per_second;
  return target.quiet_disk_only && slow ? Verdict::slow_disk : Verdict::below;
}

void Report::say(const std::string& line) { fmt::print(out_, "{}\n", line); }

void Report::add(Row row) {
  if (row.section != section_) {
    section_ = row.section;
    fmt::print(out_, "\n{:<34} {:>26} {:>26} {:>18}  {}\n", section_, "value [spread]", "raw limit",
               "ratio", "target");
  }
  std::string verdicts;
  for (const Target& target : row.targets) {
    verdicts += fmt::format("{}{} {}", verdicts.empty() ? "" : ", ", text(row, target),
                            word(verdict(row, target)));
  }
  fmt::print(out_, "{:<34} {:>26} {:>26} {:>18}  {}{}{}\n", row.name,
             with_spread(row.value, row.unit), row.raw ? with_spread(*row.raw, row.unit) : "",
             row.ratio ? with_spread(*row.ratio, Unit::ratio) : "", verdicts,
             verdicts.empty() || row.note.empty() ? "" : "; ", row.note);
  out_.flush();
  rows_.push_back(std::move(row));
}

void Report::summary() {
  std::map<Verdict, int> counts;
  for (const Row& row : rows_) {
    for (const Target& target : row.targets) ++counts[verdict(row, target)];
  }
  fmt::print(out_, "\n{} targets met, {} below", counts[Verdict::met], counts[Verdict::below]);
  if (const int slow = counts[Verdict::slow_disk]; slow != 0) {
    fmt::print(out_, ", {} not judged because the disk made {:.0f} flushes/s, fewer than {:.0f}",
               slow, flushes_per_second_, quiet_flushes_per_second);
  }
  if (const int disturbed = counts[Verdict::disturbed]; disturbed != 0) {
    fmt::print(out_, ", {} not judged because others kept the machine busy", disturbed);
  }
  fmt::print(out_, "\n");
}

json::value Report::json() const {
  json::array rows;
  for (const Row& row : rows_) {
    json::object object{{"section", row.section},
                        {"name", row.name},
                        {"unit", name_of(row.unit)},
                        {"value", json_of(row.value)}};
    if (row.raw) object["raw"] = json_of(*row.raw);
    if (row.ratio) object["ratio"] = json_of(*row.ratio);
    if (!row.note.empty()) object["note"] = row.note;
    json::array targets;
    for (const Target& target : row.targets) {
      targets.push_back({{"of", target.of == Target::Of::value ? "value" : "ratio"},
                         {"sense", sign(target.sense)},
                         {"bound", target.bound},
                         {"verdict", name_of(verdict(row, target))}});
    }
    object["targets"] = std::move(targets);
    rows.push_back(std::move(object));
  }
  return json::object{
      {"flushes_per_second", flushes_per_second_}, {"busy", busy_}, {"rows", std::move(rows)}};
}

}  // namespace semel::app::bench
