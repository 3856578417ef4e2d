#include "app/cli_options.hpp"

#include <semel/error.hpp>

#include <boost/json.hpp>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>

namespace semel::app {

namespace {

std::string text_behind(const std::string& option, const std::string& text) {
  if (text == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  if (!text.starts_with('@')) return text;
  std::ifstream in(text.substr(1), std::ios::binary);
  if (!in) throw Error("VALIDATION_ERROR", option + ": " + text.substr(1) + " cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

Remote Where::connect() const {
  // Not an option: whoever lists processes would see it.
  const char* key = std::getenv("SEMEL_API_KEY");
  return {server, key == nullptr ? "" : key};
}

void add_where(CLI::App& command, Where& where) {
  command
      .add_option("--server", where.server,
                  "where `semel serve` is; SEMEL_API_KEY has the key, if it wants one")
      ->type_name("URL")
      ->envname("SEMEL_SERVER")
      ->default_val(default_server);
  command.add_flag("--json", where.json, "for scripts: what the server answered");
}

Json json_argument(const std::string& option, const std::string& text) {
  try {
    return value::from_text(text_behind(option, text));
  } catch (const ValidationError& error) {
    throw Error("VALIDATION_ERROR", option + " is not JSON: " + error.what() +
                                        R"( (a text needs its quotes: '"text"'))");
  }
}

std::string text_of(const Json& object, std::string_view member) {
  const boost::json::value* found =
      object.is_object() ? object.as_object().if_contains(member) : nullptr;
  if (found == nullptr || found->is_null()) return "";
  if (found->is_string()) return std::string(std::string_view(found->as_string()));
  return value::to_text(*found);
}

std::string time_for_people(const std::string& time) {
  std::string shown = time.substr(0, std::string_view("2026-11-16T09:17:16").size());
  if (shown.size() > 10) shown[10] = ' ';
  return shown;
}

void print_json(const Json& json, std::ostream& out) { out << value::to_text(json) << '\n'; }

}  // namespace semel::app
