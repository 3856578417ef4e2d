// Transcripts in the documentation, executed: what a page shows is what happens.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace semel::process {

/// A command and what the page shows behind it.
struct Transcript {
  std::string command;
  std::string shown;
};

/// Those of the ```console blocks: a command begins with "$ " and goes on behind a backslash.
std::vector<Transcript> transcripts_in(const std::string& page);

/// "…" stands for one character or more of one line.
bool matches(std::string_view pattern, std::string_view text);

/// Where a page's commands are executed.
struct Stage {
  std::filesystem::path directory;
  std::map<std::string, std::string> instead{};      ///< what the page calls so is there
  std::map<std::string, std::string> environment{};  ///< beside nobody's own settings
};

/// Executes the transcripts of docs/`page` in order and checks that each shows what happens. One that ends with another
/// code than 0 says so in its last line: "(ends with 3)".
void check_transcripts(std::string_view page, const Stage& stage);

}  // namespace semel::process
