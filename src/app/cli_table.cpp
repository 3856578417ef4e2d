#include "app/cli_table.hpp"

#include <algorithm>

namespace semel::app {

namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

}  // namespace

void Table::print(std::ostream& out) const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out << row[i];
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
