#include "tests/process/transcripts.hpp"

#include "tests/process/process.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdio>
#include <sstream>

namespace semel::process {

namespace {

std::string with_all(std::string text, const std::map<std::string, std::string>& instead) {
  for (const auto& [name, place] : instead) {
    for (std::size_t at = text.find(name); at != std::string::npos;
         at = text.find(name, at + place.size())) {
      text.replace(at, name.size(), place);
    }
  }
  return text;
}

/// What a person sees who types the command: without carriage returns and the last line's end.
std::string output_of(const std::string& command, const Stage& stage) {
  const std::string directory = stage.directory.string();
  std::string script = "cd " + directory + " && export HOME=" + directory +
                       " CURL_HOME=" + directory + " XDG_CONFIG_HOME=" + directory +
                       " no_proxy='*'";
  for (const auto& [name, text] : stage.environment) script += " " + name + "=\"" + text + "\"";
  script += "; { " + command + "\n} 2>&1";
  FILE* pipe = ::popen(script.c_str(), "re");
  REQUIRE(pipe != nullptr);
  std::string output;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    if (c != '\r') output += static_cast<char>(c);
  }
  const int status = ::pclose(pipe);
  while (output.ends_with('\n')) output.pop_back();
  if (status != 0) output += "\n(ends with " + std::to_string(WEXITSTATUS(status)) + ")";
  return output;
}

}  // namespace

std::vector<Transcript> transcripts_in(const std::string& page) {
  std::vector<Transcript> found;
  bool is_inside = false;
  bool goes_on = false;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      is_inside = line == "```console";
    } else if (is_inside && (goes_on || line.starts_with("$ "))) {
      if (!goes_on) found.emplace_back();
      found.back().command += (goes_on ? "\n" + line : line.substr(2));
      goes_on = line.ends_with('\\');
    } else if (is_inside) {
      found.at(found.size() - 1).shown += line + "\n";
    }
  }
  return found;
}

bool matches(std::string_view pattern, std::string_view text) {
  constexpr std::string_view any = "…";
  const std::size_t at = pattern.find(any);
  if (at == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, at))) return false;
  pattern.remove_prefix(at + any.size());
  text.remove_prefix(at);
  while (!text.empty() && text.front() != '\n') {
    text.remove_prefix(1);
    if (matches(pattern, text)) return true;
  }
  return false;
}

void check_transcripts(std::string_view page, const Stage& stage) {
  const auto transcripts =
      transcripts_in(text_of(std::filesystem::path(SEMEL_SOURCE_DIR) / "docs" / page));
  REQUIRE_MESSAGE(!transcripts.empty(), "no transcripts in docs/" << page);
  for (const Transcript& transcript : transcripts) {
    CAPTURE(transcript.command);
    std::string shown = with_all(transcript.shown, stage.instead);
    while (shown.ends_with('\n')) shown.pop_back();
    const std::string output = output_of(with_all(transcript.command, stage.instead), stage);
    CHECK_MESSAGE(matches(shown, output), "the page shows\n" << shown << "\nand it is\n" << output);
  }
}

}  // namespace semel::process
