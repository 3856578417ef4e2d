// One journal per released format, decoded and replayed for ever. A file is never changed once its format was released;
// a new format gets a new file beside the old ones.
#include "engine/replay.hpp"
#include "tests/journals/workflows.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace semel::journals {

namespace {

using journal::ArrivalKind;
using journal::RequestKind;

struct Stored {
  std::string workflow;
  std::string input;
  std::vector<std::string> entries;
};

std::string from_hex(std::string_view hex) {
  const auto digit = [](char c) {
    return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  };
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(digit(hex[i]) << 4U | digit(hex[i + 1])));
  }
  return bytes;
}

/// By name. A line has a word and the rest: journal NAME, workflow NAME, input JSON, entry HEX; or begins with #.
std::map<std::string, Stored> read_file(const std::string& name) {
  std::ifstream in(std::filesystem::path(SEMEL_JOURNALS_DIR) / name);
  REQUIRE(in.good());
  std::map<std::string, Stored> journals;
  Stored* current = nullptr;
  for (std::string line; std::getline(in, line);) {
    const std::size_t space = line.find(' ');
    const std::string word = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (word == "journal") current = &journals[rest];
    if (word == "workflow") current->workflow = rest;
    if (word == "input") current->input = rest;
    if (word == "entry") current->entries.push_back(from_hex(rest));
  }
  return journals;
}

class Replayer {
 public:
  Replayer() {
    registry_.add(detail::workflow_type("helper", helper, 1, helper));
    registry_.add(detail::workflow_type("everything", everything, 1, everything));
    registry_.add(detail::workflow_type("careful", careful, 1, careful));
    registry_.add(detail::workflow_type("talk", talk, 1, talk));
  }

  /// The state the journal leaves, and what the code asks for behind it.
  std::pair<journal::RunState, std::vector<journal::Request>> replay(const Stored& stored) {
    auto records = journal::read_journal(stored.entries);
    REQUIRE_MESSAGE(records.has_value(), records.error().message);
    auto outcome =
        engine::replay(std::make_unique<engine::Frame>(registry_, random_, engine::FrameLimits{}),
                       *registry_.find(stored.workflow), stored.input, *records, TimePoint{});
    const auto* diverged = std::get_if<engine::Divergence>(&outcome);
    REQUIRE_MESSAGE(diverged == nullptr, (diverged == nullptr ? "" : diverged->message()));
    auto& replayed = std::get<engine::Replayed>(outcome);
    return {replayed.state, std::move(replayed.fresh)};
  }

 private:
  engine::Registry registry_;
  base::SeededRandom random_{1};
};

std::vector<journal::Entry> decoded(const Stored& stored) {
  std::vector<journal::Entry> entries;
  for (const std::string& bytes : stored.entries) {
    auto entry = journal::decode(bytes);
    REQUIRE_MESSAGE(entry.has_value(), entry.error().message);
    entries.push_back(std::move(*entry));
  }
  return entries;
}

std::vector<std::string> kinds(const Stored& stored) {
  std::vector<std::string> found;
  for (const journal::Entry& entry : decoded(stored)) {
    found.emplace_back(to_string(entry.arrival.kind));
  }
  return found;
}

const std::string format_1 = "format-1.txt";

}  // namespace

TEST_CASE("every journal of format 1 is replayed without a difference") {
  Replayer replayer;
  for (const auto& [name, stored] : read_file(format_1)) {
    CAPTURE(name);
    const auto [state, fresh] = replayer.replay(stored);

    CHECK(state.next == stored.entries.size());
    CHECK(fresh.empty());
    // A generation's end is not the run's.
    CHECK(state.ended == (name != "waiting" && name != "forked" && name != "talking"));
  }
}

TEST_CASE("the journals of format 1 have every kind of entry and of request") {
  std::set<int> arrivals;
  std::set<int> requests;
  for (const auto& [name, stored] : read_file(format_1)) {
    for (const journal::Entry& entry : decoded(stored)) {
      arrivals.insert(static_cast<int>(entry.arrival.kind));
      for (const auto& request : entry.requests) requests.insert(static_cast<int>(request.kind));
    }
  }

  for (int kind = 0; kind <= static_cast<int>(ArrivalKind::payload_arrived); ++kind) {
    CHECK_MESSAGE(arrivals.contains(kind), to_string(static_cast<ArrivalKind>(kind)));
  }
  for (int kind = 1; kind <= static_cast<int>(RequestKind::continue_as_new); ++kind) {
    CHECK_MESSAGE(requests.contains(kind), to_string(static_cast<RequestKind>(kind)));
  }
}

TEST_CASE("what is in the journal of a completed run of format 1 reads as it was written") {
  const auto journals = read_file(format_1);
  const auto entries = decoded(journals.at("completed"));

  const journal::Entry& first = entries.front();
  REQUIRE(first.requests.size() == 7);
  CHECK(first.requests[0].kind == RequestKind::version);
  CHECK(first.requests[0].name == "fraud-check");
  CHECK(first.requests[0].attempt == 2);
  CHECK(value::encode(first.requests[1].at) == "\"2030-01-01T00:00:00.000000000Z\"");
  CHECK(first.requests[4].name == "stage");
  CHECK(first.requests[4].value == "\"packing\"");
  CHECK(first.requests[6].name == "charge");
  CHECK(first.requests[6].hash == detail::hash_arguments(R"([{"id":"o7","count":2}])"));
  CHECK(entries[1].arrival.kind == ArrivalKind::attempt_failed);
  CHECK(entries[1].arrival.failure->message == "bank closed");
  CHECK(entries.back().requests.back().value == R"("charged o7233144!<text>5<a><b>.")");
}

TEST_CASE("the ends of format 1 are told apart") {
  const auto journals = read_file(format_1);

  CHECK(kinds(journals.at("cancelled")).back() == "cancelled");
  CHECK(kinds(journals.at("timed out")).back() == "timed_out");
  CHECK(kinds(journals.at("full")).back() == "limit_reached");
  CHECK(decoded(journals.at("cleaned up")).back().requests.back().kind == RequestKind::cancelled);
}

}  // namespace semel::journals
