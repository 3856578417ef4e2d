#include "app/cli_table.hpp"

#include <algorithm>
#include <map>

namespace semel::app {

namespace {

const std::string bold = "\x1b[1m";
constexpr const char* reset = "\x1b[0m";

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

}  // namespace

std::string painted(const std::string& word, bool has_colour) {
  static const std::map<std::string, const char*> colours{
      {"completed", "32"}, {"running", "36"},  {"waiting", "33"}, {"failed", "31"},
      {"dead", "31"},      {"diverged", "31"}, {"cancelled", "2"}};
  const auto colour = colours.find(word);
  if (!has_colour || colour == colours.end()) return word;
  return std::string("\x1b[") + colour->second + "m" + word + reset;
}

void Table::print(std::ostream& out, bool has_colour) const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool is_heading = has_colour && &row == &rows_.front();
      out << (is_heading ? bold + row[i] + reset : painted(row[i], has_colour));
      if (i + 1 < row.size()) out << std::string(widths[i] - width(row[i]) + 2, ' ');
    }
    out << '\n';
  }
}

std::string shortened(const std::string& text, std::size_t characters) {
  std::string result;
  std::size_t count = 0;
  const bool fits = width(text) <= characters;
  for (const char c : text) {
    if (begins_character(c) && ++count > characters - (fits ? 0 : 1)) break;
    result.push_back(static_cast<unsigned char>(c) < 0x20U ? ' ' : c);
  }
  return fits ? result : result + "…";
}

}  // namespace semel::app
