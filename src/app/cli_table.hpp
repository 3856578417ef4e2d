// Columns for people: as wide as what is in them.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace semel::app {

class Table {
 public:
  explicit Table(std::vector<std::string> headings) { rows_.push_back(std::move(headings)); }

  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  /// The last column is not padded. Widths count characters, not bytes. `has_colour`: headings and statuses stand out.
  void print(std::ostream& out, bool has_colour = false) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// A status in its colour; other words as they are.
std::string painted(const std::string& word, bool has_colour);

/// At most `characters`, with an ellipsis where something is left out; control characters become spaces.
std::string shortened(const std::string& text, std::size_t characters);

}  // namespace semel::app
