// Values and their JSON text: what may cross a workflow's border, and how it is written there.
//
//   bool, integers, float, double    true, 42 (64 bits exact), 1.5, 2.0 (shortest exact text)
//   std::string, Bytes               a string that is UTF-8; base64
//   optional, monostate, nullptr_t   the value or null; an empty optional member is left out
//   vector, array, deque, list, set  arrays; unordered sets are written sorted
//   pair, tuple                      arrays of exactly that length
//   map, unordered_map               objects if the key is a string, else arrays of [key, value];
//                                    in the map's order, or sorted if it has none
//   variant                          the alternative itself, read as the first one that fits;
//                                    where an earlier one would fit as well:
//                                    {"$alternative": index, "value": ...}
//   enums                            described: the enumerator's name; others: their integer
//   structs, classes                 described (BOOST_DESCRIBE_STRUCT), bases included: objects,
//                                    member names verbatim
//   chrono durations                 their count
//   system_clock time points         "2026-01-31T12:00:00.000000000Z"
//   Json                             itself; integers stay integers, doubles doubles
//
// A struct may grow: members that a journal does not have keep their initial value, and members
// that the struct no longer has are ignored. A variant may grow at its end.
#pragma once

#include <semel/detail/codec.hpp>
#include <semel/detail/codec_containers.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace semel::value {

namespace detail {

/// Reads the whole of `reader` as one T.
template <class T>
bool read_whole(Reader& reader, T& out) {
  return Codec<T>::read(reader, out) && reader.finish();
}

}  // namespace detail

/// Appends the JSON text of `value`. Throws ValidationError and leaves `out` as it was where there
/// is none: NaN, infinity, a string that is not UTF-8. Equal values have equal texts.
template <Serialisable T>
void encode_to(std::string& out, const T& value) {
  const std::size_t start = out.size();
  Writer writer{out};
  if (detail::Codec<T>::write(writer, value)) return;
  out.resize(start);
  detail::refuse(writer.misfit());
}

template <Serialisable T>
std::string encode(const T& value) {
  std::string out;
  encode_to(out, value);
  return out;
}

/// The value whose text is `json`. Throws ValidationError where it does not fit.
template <Serialisable T>
T decode(std::string_view json, Mode mode) {
  T out{};
  Reader reader{json, mode};
  if (!detail::read_whole(reader, out)) detail::refuse(reader.misfit());
  return out;
}

/// The same without exceptions: a misfit is returned, and `out` is then as it was.
template <Serialisable T>
std::optional<Misfit> try_decode(std::string_view json, T& out, Mode mode) {
  T fresh{};
  Reader reader{json, mode};
  if (!detail::read_whole(reader, fresh)) return reader.misfit();
  out = std::move(fresh);
  return std::nullopt;
}

/// The text of a Json and back, exactly. Boost.JSON's own functions change one double in eight. A
/// uint64 that an int64 can hold is read back as an int64; integers beyond 64 bits are read as
/// doubles.
std::string to_text(const Json& value);
Json from_text(std::string_view json);

/// The one text of all texts that mean the same: members sorted by the bytes of their names, no
/// spaces, strings escaped only where they must be, numbers compared as exact decimals (1, 1.0 and
/// 10e-1 agree, 9007199254740993 and 9007199254740992 do not, -0 is 0). Throws ValidationError for
/// text that is not JSON or repeats a member's name.
std::string canonical(std::string_view json);

/// What two values have in common if they are the same input, whether they came from C++ or as
/// text: 1.0 and 1 agree, an empty optional and an absent one as well.
template <Serialisable T>
std::string canonical_of(const T& value) {
  return canonical(encode(value));
}

}  // namespace semel::value
