// The one text of all JSON texts that mean the same.
#include "base/json_text.hpp"

#include <semel/value.hpp>

#include <algorithm>
#include <functional>
#include <list>

namespace semel::value {

std::string to_text(const Json& value) { return encode(value); }

Json from_text(std::string_view json) { return decode<Json>(json, Mode::journal); }

namespace {

/// Room for the deepest value we write with a tag at each of its levels.
constexpr std::size_t canonical_depth_max = 2 * journal_depth_max;

/// Most objects have no more.
constexpr std::size_t members_reserve = 8;

class Canonical {
 public:
  Canonical(std::string_view json, std::string& out)
      : json_(json), reader_(json, Mode::boundary, canonical_depth_max), out_(out), writer_(out) {
    out.reserve(out.size() + json.size());
  }

  bool write() { return value() && reader_.finish(); }

  Misfit misfit() { return reader_.misfit(); }

 private:
  /// A member where it was written: from `begin` to `end`, the comma behind it included.
  struct Member {
    std::string_view name;
    std::size_t begin;
    std::size_t end;
  };

  bool value();
  bool number();
  bool array();
  bool object();
  std::string_view lasting(std::string_view name);
  bool sort(std::span<Member> members);

  std::string_view json_;
  Reader reader_;
  std::string& out_;
  Writer writer_;
  std::vector<Member> members_;       // of all objects that are open, the innermost last
  std::list<std::string> unescaped_;  // names that the text has only in another form
};

bool Canonical::value() {
  std::string_view text;
  bool truth = false;
  switch (reader_.peek()) {
    case '{':
      return object();
    case '[':
      return array();
    case '"':
      return reader_.string_view(text) && writer_.string(text);
    case 't':
    case 'f':
      return reader_.boolean(truth) && writer_.boolean(truth);
    case 'n':
      return reader_.null() && writer_.null();
    default:
      return number();
  }
}

bool Canonical::number() {
  std::string_view token;
  if (!reader_.number_text(token)) return false;
  const bool is_short_integer = token.size() <= 20 && token.find_first_of(".eE") == token.npos;
  if (is_short_integer) {
    out_ += token == "-0" ? "0" : token;
    return true;
  }
  const auto decimal = base::exact_decimal(token);
  if (!decimal) return reader_.fail("the exponent is too large to compare");
  base::append_decimal(out_, *decimal);
  return true;
}

bool Canonical::array() {
  if (!reader_.enter_array()) return false;
  out_ += '[';
  for (std::size_t index = 0; reader_.next_element(index); ++index) {
    writer_.element(index);
    if (!value()) return reader_.in_element(index);
  }
  out_ += ']';
  return reader_.ok();
}

bool Canonical::object() {
  if (!reader_.enter_object()) return false;
  out_ += '{';
  if (members_.empty()) members_.reserve(members_reserve);
  const std::size_t first = members_.size();
  std::string_view name;
  for (std::size_t index = 0; reader_.next_member(index, name); ++index) {
    const Member member{.name = lasting(name), .begin = out_.size(), .end = 0};
    members_.push_back(member);
    writer_.member(0, member.name);
    if (!value()) return reader_.in_member(member.name);
    out_ += ',';
    members_[first + index].end = out_.size();
  }
  if (!reader_.ok() || !sort(std::span{members_}.subspan(first))) return false;
  if (members_.size() != first) out_.pop_back();
  out_ += '}';
  members_.resize(first);
  return true;
}

/// The reader's name as long as the text itself lives, or a copy of it.
std::string_view Canonical::lasting(std::string_view name) {
  const std::less_equal<const char*> no_later{};
  const bool is_in_text =
      no_later(json_.data(), name.data()) && no_later(name.data(), json_.data() + json_.size());
  return is_in_text ? name : unescaped_.emplace_back(name);
}

bool Canonical::sort(std::span<Member> members) {
  if (!std::ranges::is_sorted(members, {}, &Member::name)) {
    const std::size_t start = members.front().begin;
    std::ranges::sort(members, {}, &Member::name);
    std::string sorted;
    sorted.reserve(out_.size() - start);
    for (const Member& each : members) sorted.append(out_, each.begin, each.end - each.begin);
    out_.replace(start, out_.npos, sorted);
  }
  const auto repeated = std::ranges::adjacent_find(members, {}, &Member::name);
  if (repeated == members.end()) return true;
  return reader_.fail("member repeated") || reader_.in_member(repeated->name);
}

}  // namespace

std::string canonical(std::string_view json) {
  std::string out;
  Canonical text{json, out};
  if (!text.write()) detail::refuse(text.misfit());
  return out;
}

}  // namespace semel::value

namespace semel::base {

std::optional<std::string> try_canonical(std::string_view json, std::string_view begin) {
  std::string out{begin};
  if (!value::Canonical{json, out}.write()) return std::nullopt;
  return out;
}

}  // namespace semel::base
