// The part of structs and variants that does not depend on their types.
#include "base/json_text.hpp"

#include <semel/value.hpp>

#include <array>

namespace semel::value::detail {

namespace {

constexpr std::size_t not_found = static_cast<std::size_t>(-1);

/// Members usually come in the order in which they are declared.
std::size_t find_field(std::span<const Field> fields, std::string_view name, std::size_t likely) {
  if (likely < fields.size() && fields[likely].name == name) return likely;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
  }
  return not_found;
}

class Seen {
 public:
  bool contains(std::size_t index) const { return (words_[index / 64] >> (index % 64) & 1U) != 0; }

  void add(std::size_t index) { words_[index / 64] |= std::uint64_t{1} << (index % 64); }

 private:
  std::array<std::uint64_t, fields_max / 64> words_{};
};

bool leave_out(const Reader& reader, void* object, const Field& field) {
  if (field.set_absent != nullptr) {
    field.set_absent(object);
    return true;
  }
  return reader.mode() == Mode::journal;
}

}  // namespace

bool read_fields(Reader& reader, void* object, std::span<const Field> fields) {
  if (!reader.enter_object()) return false;
  Seen seen;
  std::size_t likely = 0;
  std::string_view name;
  for (std::size_t index = 0; reader.next_member(index, name); ++index) {
    const std::size_t found = find_field(fields, name, likely);
    if (found == not_found) {
      if (reader.mode() == Mode::boundary) return reader.fail_unexpected(name);
      if (!reader.skip()) return false;
      continue;
    }
    const Field& field = fields[found];
    if (seen.contains(found)) return reader.fail("member repeated") || reader.in_member(field.name);
    seen.add(found);
    likely = found + 1;
    if (!field.read(reader, object)) return reader.in_member(field.name);
  }
  if (!reader.ok()) return false;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (seen.contains(i) || leave_out(reader, object, fields[i])) continue;
    return reader.fail("required") || reader.in_member(fields[i].name);
  }
  return true;
}

bool write_fields(Writer& writer, const void* object, std::span<const Field> fields) {
  if (!writer.enter('{')) return false;
  std::size_t index = 0;
  for (const Field& field : fields) {
    if (field.is_left_out != nullptr && field.is_left_out(object)) continue;
    writer.element(index++);
    writer.text()
        .append(1, '"')
        .append(field.name)
        .append("\":");  // an identifier needs no escapes
    if (!field.write(writer, object)) return writer.in_member(field.name);
  }
  return writer.leave('}');
}

bool looks_tagged(const Writer& writer, std::size_t start) {
  return std::string_view{writer.text()}.substr(start).starts_with(base::alternative_start);
}

bool tag_alternative(Writer& writer, std::size_t start, std::size_t index) {
  std::string& text = writer.text();
  text.insert(start, std::string{base::alternative_start} + std::to_string(index) + ",\"value\":");
  text += '}';
  return true;
}

}  // namespace semel::value::detail
