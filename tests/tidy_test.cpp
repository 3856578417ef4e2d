// Reads the sources and holds them to what no compiler checks: who may include whom, the few things
// we do not use, and that no source is forgotten by the build. The picture is docs/architecture.md's;
// change both together, and say why.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ranges>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

// ---------------------------------------------------------------- the rules

struct Module {
  std::string_view name;  // its folder in src/
  std::vector<std::string_view> may_include;
};

/// The picture: direct arrows. What an included module may include is allowed as well.
const std::vector<Module>& picture() {
  static const std::vector<Module> modules{
      {"base", {}},
      {"coro", {"base"}},
      {"journal", {"base"}},
      {"store", {"journal"}},
      {"store/sqlite", {"store"}},
      {"store/postgres", {"store"}},
      {"idempotency", {"store"}},
      {"engine", {"coro", "idempotency", "store"}},
      {"http", {"engine", "idempotency"}},
      {"serve", {"http"}},
      {"app", {"serve", "http", "store/sqlite", "store/postgres"}},
  };
  return modules;
}

/// What a public header may include, besides the standard library.
constexpr auto public_includes = std::to_array<std::string_view>(
    {"semel/", "boost/describe.hpp", "boost/describe/", "boost/json.hpp", "boost/json/",
     "boost/mp11.hpp", "boost/mp11/"});

struct Ban {
  std::string_view word;
  std::string_view instead;
  std::vector<std::string_view> allowed_in;  // the start of a path, or the end of one after '*'
};

const std::vector<Ban>& bans() {
  static const std::vector<Ban> words{
      {"system_clock::now", "take a base::Clock", {"src/base/"}},
      {"steady_clock::now",
       "take a base::Clock, or base::monotonic_now to measure",
       {"src/base/", "tests/", "*_test.cpp", "src/app/bench_", "examples/"}},
      {"rand(", "take a base::Random", {"src/base/"}},
      // An example's step may take its time; a test that waits is slow on a good day and fails on a bad one.
      {"sleep_for", "wait on a condition; in tests move the clock", {"src/base/", "examples/"}},
  };
  return words;
}

/// Split, so that this file does not contain it.
constexpr std::string_view forgotten =
    "FIX"
    "ME";

// ---------------------------------------------------------------- the checker

struct Finding {
  std::string file;
  std::size_t line = 0;  // from 1; 0 for the whole file
  std::string rule;

  std::string text() const { return file + ":" + std::to_string(line) + ": " + rule; }
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The text with comments and the insides of literals blanked; every line keeps its place and length.
std::string code_only(std::string_view text) {
  std::string code(text);
  std::size_t at = 0;
  const auto starts = [&](std::string_view what) { return text.substr(at).starts_with(what); };
  const auto blank_until = [&](std::size_t end) {
    for (end = std::min(end, text.size()); at < end; ++at) {
      if (code[at] != '\n') code[at] = ' ';
    }
  };
  const auto after = [&](std::string_view what, std::size_t from) {
    const std::size_t found = text.find(what, from);
    return found == std::string_view::npos ? text.size() : found + what.size();
  };

  while (at < text.size()) {
    if (starts("//")) {
      blank_until(text.find('\n', at));
    } else if (starts("/*")) {
      blank_until(after("*/", at + 2));
    } else if (starts("R\"") && (at == 0 || !is_word(text[at - 1]))) {
      const std::size_t open = text.find('(', at);
      if (open == std::string_view::npos) break;
      const std::string close = ")" + std::string(text.substr(at + 2, open - at - 2)) + "\"";
      blank_until(after(close, open));
    } else if (text[at] == '"' || (text[at] == '\'' && (at == 0 || !is_word(text[at - 1])))) {
      // The second condition passes over the separators in 1'000.
      std::size_t end = at + 1;
      while (end < text.size() && text[end] != text[at] && text[end] != '\n')
        end += text[end] == '\\' ? 2 : 1;
      blank_until(end + 1);
    } else {
      ++at;
    }
  }
  return code;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

bool contains_word(std::string_view line, std::string_view word) {
  for (std::size_t at = line.find(word); at != std::string_view::npos;
       at = line.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || !is_word(line[at - 1]);
    const bool ends = !is_word(word.back()) || end == line.size() || !is_word(line[end]);
    if (begins && ends) return true;
  }
  return false;
}

/// The module a path below src/ belongs to, the innermost one; nothing if to none.
const Module* module_of(std::string_view path) {
  const Module* best = nullptr;
  for (const Module& module : picture()) {
    const bool inside =
        path.starts_with(module.name) && path.substr(module.name.size()).starts_with('/');
    if (inside && (best == nullptr || module.name.size() > best->name.size())) best = &module;
  }
  return best;
}

/// `from` and all that lies below it in the picture.
std::set<std::string_view> reachable(std::string_view from) {
  std::set<std::string_view> seen;
  std::vector<std::string_view> todo{from};
  while (!todo.empty()) {
    const std::string_view name = todo.back();
    todo.pop_back();
    if (!seen.insert(name).second) continue;
    const auto module = std::ranges::find(picture(), name, &Module::name);
    if (module != picture().end()) std::ranges::copy(module->may_include, std::back_inserter(todo));
  }
  return seen;
}

bool is_test(std::string_view file) {
  return file.starts_with("tests/") || file.ends_with("_test.cpp");
}

/// Why `file` may not have this include ("<vector>", "\"base/clock.hpp\""); empty if it may.
std::string include_fault(std::string_view file, std::string_view include) {
  const bool quoted = include.starts_with('"');
  const std::string_view target = include.substr(1, include.size() - 2);

  if (file.starts_with("include/")) {
    const bool standard = target.find_first_of("./") == std::string_view::npos;
    const bool listed = std::ranges::any_of(
        public_includes, [&](std::string_view allowed) { return target.starts_with(allowed); });
    if (!quoted && (standard || listed)) return "";
    return "a public header may include <semel/...>, std, Boost.Describe, Boost.JSON and "
           "Boost.Mp11, not " +
           std::string(include);
  }

  if (!file.starts_with("src/") || !quoted) return "";
  const std::string_view path = file.substr(4);
  const Module* self = module_of(path);
  if (self == nullptr) return "src/" + std::string(path) + " belongs to no module of the picture";
  if (is_test(file) && target.starts_with("tests/")) return "";  // fixtures
  const Module* other = module_of(target);
  if (other == nullptr) {
    return "\"" + std::string(target) + "\" names no module; write the path from src/ (\"" +
           std::string(self->name) + "/...\") or, for the public surface, <semel/...>";
  }
  if (reachable(self->name).contains(other->name)) return "";
  return std::string(self->name) + " may not include " + std::string(other->name) + " (" +
         std::string(target) + ")";
}

bool is_allowed(const Ban& ban, std::string_view file) {
  return std::ranges::any_of(ban.allowed_in, [&](std::string_view where) {
    return where.starts_with('*') ? file.ends_with(where.substr(1)) : file.starts_with(where);
  });
}

/// What is wrong in one file, given by its path in the project and its text.
std::vector<Finding> check(std::string_view file, std::string_view text) {
  std::vector<Finding> findings;
  const std::string code = code_only(text);
  const std::vector<std::string_view> lines = lines_of(text);
  const std::vector<std::string_view> code_lines = lines_of(code);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto report = [&](std::string rule) {
      findings.push_back({std::string(file), i + 1, std::move(rule)});
    };

    const std::size_t hash = code_lines[i].find_first_not_of(" \t");
    if (hash != std::string_view::npos && code_lines[i][hash] == '#' &&
        contains_word(code_lines[i], "include")) {
      const std::size_t open = lines[i].find_first_of("<\"");
      const std::size_t close =
          open == std::string_view::npos ? open : lines[i].find_first_of(">\"", open + 1);
      if (close == std::string_view::npos) {
        report("cannot read this include");
      } else if (std::string fault = include_fault(file, lines[i].substr(open, close - open + 1));
                 !fault.empty()) {
        report(std::move(fault));
      }
    }

    for (const Ban& ban : bans()) {
      if (contains_word(code_lines[i], ban.word) && !is_allowed(ban, file)) {
        report("no " + std::string(ban.word) + " here: " + std::string(ban.instead));
      }
    }
    if (contains_word(lines[i], forgotten)) report("a forgotten " + std::string(forgotten));
  }
  return findings;
}

// ---------------------------------------------------------------- the project

const std::filesystem::path root = SEMEL_SOURCE_DIR;

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

/// All C++ files of the project as paths from its root, sorted.
std::vector<std::string> project_files() {
  std::vector<std::string> files;
  for (const char* folder : {"include", "src", "tests", "examples"}) {
    if (!std::filesystem::exists(root / folder)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const auto extension = entry.path().extension();
      if (extension == ".cpp" || extension == ".hpp") {
        files.push_back(entry.path().lexically_relative(root).generic_string());
      }
    }
  }
  std::ranges::sort(files);
  return files;
}

/// Whether the nearest CMakeLists.txt at or above the file names it.
bool is_built(const std::string& file) {
  std::filesystem::path folder = (root / file).parent_path();
  while (folder != root && !std::filesystem::exists(folder / "CMakeLists.txt"))
    folder = folder.parent_path();
  const std::string list = read(folder / "CMakeLists.txt");
  const std::string name = (root / file).lexically_relative(folder).generic_string();
  // A function that takes the name of a program may add the ".cpp" itself.
  const std::string stem = name.substr(0, name.rfind('.'));
  return std::ranges::any_of(lines_of(list), [&](std::string_view line) {
    const std::string_view code = line.substr(0, line.find('#'));
    const std::size_t call = code.find("(" + stem);
    return contains_word(code, name) ||
           (call != std::string_view::npos && contains_word(code.substr(call + 1), stem));
  });
}

}  // namespace

TEST_CASE("the sources keep to the picture and to our bans") {
  const std::vector<std::string> files = project_files();

  REQUIRE(std::ranges::find(files, "include/semel/error.hpp") !=
          files.end());  // it looks in the right place
  for (const std::string& file : files) {
    for (const Finding& finding : check(file, read(root / file))) FAIL_CHECK(finding.text());
  }
}

TEST_CASE("every source is named in a CMakeLists.txt") {
  for (const std::string& file : project_files()) {
    if (file.ends_with(".cpp") && !is_built(file)) {
      FAIL_CHECK(Finding{file, 0, "the nearest CMakeLists.txt does not name this source"}.text());
    }
  }
}

TEST_CASE("what the pages quote from an example is what is there") {
  struct Page {
    const char* file;
    int quotes;
  };

  for (const Page& expected : {Page{"docs/duplicates.md", 6}, Page{"docs/http.md", 4}}) {
    INFO(expected.file);
    const std::string page = read(root / expected.file);
    const std::string fence = "```";
    std::string example;
    int quoted = 0;
    for (std::size_t at = 0; (at = page.find("```cpp\n", at)) != std::string::npos;) {
      const std::size_t begin = at + 7;
      const std::size_t end = page.find(fence, begin);
      const std::string code = page.substr(begin, end - begin);
      const std::string_view before = std::string_view(page).substr(0, at);
      const std::size_t name = before.rfind("`examples/") + 1;
      example = before.substr(name, before.find('`', name) - name);
      INFO(example);
      CHECK(read(root / example).find(code) != std::string::npos);
      ++quoted;
      at = end + fence.size();
    }
    CHECK(quoted == expected.quotes);
  }
}

// ---------------------------------------------------------------- the checker, checked

TEST_CASE("the checker finds what is wrong and names file, line and rule") {
  struct Case {
    const char* file;
    std::string text;
    const char* finding;
  };

  const std::vector<Case> cases{
      {"src/base/a.cpp", "#include \"journal/entry.hpp\"\n",
       "src/base/a.cpp:1: base may not include journal"},
      {"src/journal/a.cpp", "\n#include \"store/store.hpp\"\n",
       "src/journal/a.cpp:2: journal may not include store"},
      {"src/coro/a.hpp", "#include \"journal/entry.hpp\"\n", "coro may not include journal"},
      {"src/store/a.cpp", "#include \"store/sqlite/db.hpp\"\n",
       "store may not include store/sqlite"},
      {"src/engine/a.cpp", "#include \"store/sqlite/db.hpp\"\n",
       "engine may not include store/sqlite"},
      {"src/coro/a_test.cpp", "#include \"idempotency/key.hpp\"\n",
       "coro may not include idempotency"},
      {"src/idempotency/a.cpp", "#include \"engine/loop.hpp\"\n",
       "idempotency may not include engine"},
      {"src/http/a.cpp", "#  include \"app/app.hpp\"  // up\n", "http may not include app"},
      {"src/journal/a.cpp", "#include \"entry.hpp\"\n", "names no module"},
      {"src/journal/a.cpp", "#include \"semel/error.hpp\"\n", "names no module"},
      {"src/journal/a.cpp", "#include \"tests/fixture.hpp\"\n", "names no module"},
      {"src/new/a.cpp", "#include \"base/clock.hpp\"\n", "belongs to no module"},
      {"include/semel/a.hpp", "#include <fmt/format.h>\n", "a public header may include"},
      {"include/semel/a.hpp", "#include <boost/asio.hpp>\n", "not <boost/asio.hpp>"},
      {"include/semel/a.hpp", "#include \"error.hpp\"\n", "not \"error.hpp\""},
      {"include/semel/a.hpp", "#include <sqlite3.h>\n", "not <sqlite3.h>"},
      {"src/engine/a.cpp", "auto t = std::chrono::system_clock::now();\n",
       "no system_clock::now here"},
      {"src/engine/a_test.cpp", "x = system_clock::now();\n", "no system_clock::now here"},
      {"src/engine/a.cpp", "auto t = Clock{}, u = steady_clock::now();\n",
       "no steady_clock::now here"},
      {"include/semel/a.hpp", "int f() { return rand(); }\n", "no rand( here"},
      {"tests/crash/a.cpp", "std::this_thread::sleep_for(1s);\n", "no sleep_for here"},
      {"src/store/a.cpp", "const char* s = R\"sql(\n' \" )\" //\n)sql\"; rand();\n",
       "src/store/a.cpp:3: no rand("},
      {"src/store/a.cpp", "char c = '\"'; int n = 1'000; rand();  // \"\n", "no rand("},
      {"examples/a.cpp", "// " + std::string(forgotten) + ": later\n",
       "examples/a.cpp:1: a forgotten"},
  };

  for (const Case& c : cases) {
    CAPTURE(c.text);
    const std::vector<Finding> findings = check(c.file, c.text);
    REQUIRE(findings.size() == 1);
    CHECK_MESSAGE(findings[0].text().find(c.finding) != std::string::npos, findings[0].text());
  }
}

TEST_CASE("the checker leaves alone what is right") {
  struct Case {
    const char* file;
    const char* text;
  };

  const std::vector<Case> cases{
      {"src/base/a.cpp",
       "#include \"base/clock.hpp\"\n#include <openssl/rand.h>\n#include <semel/error.hpp>\n"},
      {"src/engine/a.cpp",
       "#include \"coro/task.hpp\"\n#include \"journal/entry.hpp\"\n#include \"base/clock.hpp\"\n"},
      {"src/engine/a_test.cpp", "#include \"tests/simulation/world.hpp\"\n"},
      {"src/store/sqlite/a.cpp", "#include \"store/sqlite/db.hpp\"\n#include <sqlite3.h>\n"},
      {"src/app/a.cpp",
       "#include \"store/sqlite/db.hpp\"\n#include \"engine/loop.hpp\"\n#include "
       "\"http/server.hpp\"\n"},
      {"include/semel/a.hpp",
       "#include <semel/error.hpp>\n#include <boost/json/value.hpp>\n#include <string_view>\n"},
      {"include/semel/a.hpp", "// #include <sqlite3.h>\n/* #include \"x\"\n#include \"y\" */\n"},
      {"tests/a.cpp",
       "#include \"store/sqlite/db.hpp\"\nauto t = std::chrono::steady_clock::now();\n"},
      {"src/base/clock.cpp", "auto t = std::chrono::system_clock::now();\n"},
      {"src/engine/a.cpp",
       "// never system_clock::now\nauto s = \"rand(\"; strand(); operand(1); sleep_forever();\n"},
      {"src/engine/a.cpp", "auto s = R\"(sleep_for \" rand()\n#include \"app/app.hpp\"\n)\";\n"},
  };

  for (const Case& c : cases) {
    CAPTURE(c.text);
    for (const Finding& finding : check(c.file, c.text)) FAIL_CHECK(finding.text());
  }
}
