// Times as text: RFC 3339.
#include <semel/value.hpp>

#include <algorithm>
#include <chrono>

namespace semel::value {

namespace {

constexpr std::int64_t year_0000 = -62'167'219'200;  // in seconds from 1970
constexpr std::int64_t year_10000 = 253'402'300'800;

void append_padded(std::string& out, std::int64_t value, std::size_t width) {
  const std::string digits = std::to_string(value);
  out.append(width - std::min(width, digits.size()), '0') += digits;
}

/// Takes RFC 3339 apart from the front; once something is missing, `ok` stays false.
struct TimeText {
  std::string_view rest;
  bool ok = true;

  bool next_is(std::string_view any_of) const {
    return !rest.empty() && any_of.find(rest.front()) != any_of.npos;
  }

  char take(std::string_view any_of) {
    if (!ok || !next_is(any_of)) {
      ok = false;
      return '\0';
    }
    const char c = rest.front();
    rest.remove_prefix(1);
    return c;
  }

  int take_digits(int count, int max) {
    int value = 0;
    for (int i = 0; i < count; ++i) value = value * 10 + (take("0123456789") - '0');
    ok = ok && value <= max;
    return value;
  }
};

}  // namespace

bool Writer::time(std::int64_t seconds, std::int64_t nanoseconds) {
  using namespace std::chrono;
  if (seconds < year_0000 || seconds >= year_10000) return fail("not in range of a time");
  const sys_seconds second{std::chrono::seconds{seconds}};
  const auto day = floor<days>(second);
  const year_month_day date{day};
  const hh_mm_ss clock{second - day};

  std::string& out = *out_;
  out += '"';
  append_padded(out, int{date.year()}, 4);
  out += '-';
  append_padded(out, unsigned{date.month()}, 2);
  out += '-';
  append_padded(out, unsigned{date.day()}, 2);
  out += 'T';
  append_padded(out, clock.hours().count(), 2);
  out += ':';
  append_padded(out, clock.minutes().count(), 2);
  out += ':';
  append_padded(out, clock.seconds().count(), 2);
  out += '.';
  append_padded(out, nanoseconds, 9);
  out += "Z\"";
  return true;
}

bool Reader::time(std::int64_t& seconds, std::int64_t& nanoseconds) {
  using namespace std::chrono;
  constexpr const char* wanted = "expected a time such as 2026-01-31T12:00:00Z";
  std::string_view view;
  if (!string_view(view)) return false;

  TimeText text{view};
  const int year = text.take_digits(4, 9999);
  text.take("-");
  const int month = text.take_digits(2, 12);
  text.take("-");
  const int day = text.take_digits(2, 31);
  text.take("Tt");
  const int hour = text.take_digits(2, 23);
  text.take(":");
  const int minute = text.take_digits(2, 59);
  text.take(":");
  const int second = text.take_digits(2, 59);
  nanoseconds = 0;
  if (text.next_is(".")) {
    text.take(".");
    std::int64_t unit = 100'000'000;
    do {
      nanoseconds += unit * text.take_digits(1, 9);
      unit /= 10;
    } while (unit > 0 && text.next_is("0123456789"));
  }
  std::int64_t offset = 0;
  if (const char zone = text.take("Zz+-"); zone == '+' || zone == '-') {
    const std::int64_t hours = text.take_digits(2, 23);
    text.take(":");
    offset = (zone == '-' ? -60 : 60) * (hours * 60 + text.take_digits(2, 59));
  }
  const year_month_day date{std::chrono::year{year},
                            std::chrono::month{static_cast<unsigned>(month)},
                            std::chrono::day{static_cast<unsigned>(day)}};
  if (!text.ok || !text.rest.empty() || !date.ok()) return fail(wanted);
  const auto at = sys_days{date} + hours{hour} + minutes{minute} + std::chrono::seconds{second};
  seconds = at.time_since_epoch().count() - offset;
  return true;
}

}  // namespace semel::value
