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

/// Executes the transcripts of docs/`page` in order and checks that each shows what happens. What the page calls by the names
/// in `instead` (an address, a program) is there where they point to. Commands run in `directory`, with nobody's own settings.
void check_transcripts(std::string_view page, const std::map<std::string, std::string>& instead,
                       const std::filesystem::path& directory);

}  // namespace semel::process
