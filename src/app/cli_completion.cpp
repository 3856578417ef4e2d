#include "app/cli_completion.hpp"

#include <semel/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ranges>
#include <vector>

namespace semel::app {

namespace {

/// A command by the words that choose it, and what may follow them.
struct Place {
  std::string words;  ///< "runs start"; empty for the program itself
  std::vector<std::string> next;
};

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* each : app.get_subcommands({})) {
    if (!each->get_name().empty()) commands.push_back(each);
  }
  return commands;
}

/// Those that are shown in the help.
std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
}

void collect(const CLI::App& app, const std::string& words, std::vector<Place>& places) {
  Place place{words, {}};
  for (const CLI::App* each : commands_of(app)) place.next.push_back(each->get_name());
  for (const CLI::Option* each : options_of(app)) {
    for (const std::string& name : each->get_lnames()) place.next.push_back("--" + name);
  }
  places.push_back(std::move(place));
  for (const CLI::App* each : commands_of(app))
    collect(*each, words.empty() ? each->get_name() : words + " " + each->get_name(), places);
}

/// Which command it is stands in the first words that are no options.
constexpr std::string_view bash_frame =
    R"(# semel: completion for bash; zsh reads it after `autoload -U bashcompinit; bashcompinit`
_semel() {{
  local words=() word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [[ $word == -* ]] || words+=("$word")
  done
  local next=""
  case "${{words[0]}} ${{words[1]}}" in
{}  esac
  COMPREPLY=($(compgen -W "$next" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _semel semel
)";

std::string bash_script(const std::vector<Place>& places) {
  std::string cases;
  // The longest first: what begins with the same word is the more special command.
  for (const auto& [words, next] : std::views::reverse(places)) {
    std::string pattern = "*";
    if (words.find(' ') != std::string::npos) {
      pattern = "\"" + words + "\"";
    } else if (!words.empty()) {
      pattern = "\"" + words + " \"*";
    }
    cases += fmt::format("    {}) next=\"{}\" ;;\n", pattern, fmt::join(next, " "));
  }
  return fmt::format(bash_frame, cases);
}

std::string fish_script(const CLI::App& program) {
  std::string script = "# semel: completion for fish\ncomplete -c semel -f\n";
  for (const CLI::App* command : commands_of(program)) {
    script += fmt::format("complete -c semel -n __fish_use_subcommand -a {} -d '{}'\n",
                          command->get_name(), command->get_description());
    for (const CLI::App* below : commands_of(*command)) {
      script += fmt::format("complete -c semel -n '__fish_seen_subcommand_from {}' -a {} -d '{}'\n",
                            command->get_name(), below->get_name(), below->get_description());
    }
    for (const CLI::Option* option : options_of(*command)) {
      for (const std::string& name : option->get_lnames()) {
        script += fmt::format("complete -c semel -n '__fish_seen_subcommand_from {}' -l {}\n",
                              command->get_name(), name);
      }
    }
  }
  return script;
}

/// Lines that begin with a dot or a quote would be commands; a backslash is one anywhere.
std::string roff(const std::string& text) {
  std::string escaped;
  bool is_line_start = true;
  for (const char c : text) {
    if (is_line_start && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
    is_line_start = c == '\n';
  }
  return escaped;
}

void describe(const CLI::App& command, const std::string& words, std::string& page) {
  page += fmt::format(".SS {}\n{}\n", roff(words), roff(command.get_description()));
  for (const CLI::Option* option : options_of(command)) {
    if (option->get_name() == "--help") continue;
    page += fmt::format(
        ".TP\n.B {}\n{}\n",
        roff(option->nonpositional() ? option->get_name(false, true) : option->get_name(true)),
        roff(option->get_description()));
  }
  if (!command.get_footer().empty())
    page += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(command.get_footer()));
  for (const CLI::App* below : commands_of(command))
    describe(*below, words + " " + below->get_name(), page);
}

}  // namespace

std::string completion_script(const CLI::App& program, const std::string& shell) {
  std::vector<Place> places;
  collect(program, "", places);
  if (shell == "bash") return bash_script(places);
  if (shell == "zsh") return "autoload -U +X bashcompinit && bashcompinit\n" + bash_script(places);
  if (shell == "fish") return fish_script(program);
  throw Error("VALIDATION_ERROR", "there is completion for bash, zsh and fish, not for " + shell);
}

std::string manual_page(const CLI::App& program, const std::string& version) {
  std::string page = fmt::format(
      ".TH SEMEL 1 \"\" \"semel {}\" \"semel\"\n.SH NAME\nsemel \\- durable workflows and "
      "idempotency keys\n.SH SYNOPSIS\n.B semel\n.I COMMAND\n[options]\n.SH DESCRIPTION\n{}\n"
      ".SH COMMANDS\n",
      version, roff(program.get_description()));
  for (const CLI::App* command : commands_of(program))
    describe(*command, command->get_name(), page);
  page +=
      ".SH ENVIRONMENT\n.TP\n.B SEMEL_SERVER\nwhere `semel serve` is, instead of \\-\\-server\n"
      ".TP\n.B SEMEL_API_KEY\nthe key it wants\n.SH EXIT STATUS\n.TP\n.B 0\nall is well\n"
      ".TP\n.B 1\nit is not, or could not be found out\n.TP\n.B 2\nthe command was not "
      "understood\n.TP\n.B 3\nthe run is not over yet\n.TP\n.B 4\nthe run ended, but did not "
      "complete\n";
  return page;
}

}  // namespace semel::app
