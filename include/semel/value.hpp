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

#include <semel/error.hpp>

#include <boost/describe.hpp>
#include <boost/json/value.hpp>
#include <boost/mp11/algorithm.hpp>
#include <boost/mp11/list.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ratio>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace semel {

/// Binary data; a base64 string in JSON.
using Bytes = std::vector<std::byte>;

namespace value {

/// How strictly a text has to fit its type.
enum class Mode {
  boundary,  ///< from outside: no unknown members, and all that are not optional
  journal,   ///< our own: unknown members are ignored, absent ones keep their initial value
};

/// How deeply arrays and objects may be nested. What we write can be wrapped a few times and still
/// be read.
inline constexpr std::size_t boundary_depth_max = 64;
inline constexpr std::size_t written_depth_max = 128;
inline constexpr std::size_t journal_depth_max = 256;

constexpr std::size_t depth_max(Mode mode) {
  return mode == Mode::boundary ? boundary_depth_max : journal_depth_max;
}

/// Why a text does not fit a type.
struct Misfit {
  std::string path;     ///< JSON pointer of the bad place; empty for the whole value
  std::string message;  ///< for people: "expected a number"

  friend bool operator==(const Misfit&, const Misfit&) = default;
};

namespace detail {

/// What went wrong first, kept by a Reader or Writer while its callers return. They add the path on
/// their way out, so that success pays nothing for it.
struct Failure {
  const char* reason = nullptr;  ///< null: nothing went wrong
  std::string detail;            ///< what completes the reason
  std::string path;
  std::size_t at = 0;     ///< how far reading got
  bool is_final = false;  ///< no other alternative of a variant can help

  void in_member(std::string_view name);
  void in_element(std::size_t index);
  Misfit misfit() &&;
};

}  // namespace detail

/// Reads JSON text (RFC 8259, strictly) front to back. Each call answers whether it went well;
/// after the first "no" the failure is kept and the caller returns "no" as well. The text must
/// outlive the reader.
class Reader {
 public:
  Reader(std::string_view text, Mode mode, std::size_t depth_max)
      : begin_(text.data()),
        at_(begin_),
        end_(begin_ + text.size()),
        depth_left_(depth_max),
        mode_(mode) {}

  Reader(std::string_view text, Mode mode) : Reader(text, mode, value::depth_max(mode)) {}

  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Mode mode() const { return mode_; }

  bool null();
  bool boolean(bool& out);
  bool integer(std::int64_t& out, int bits);
  bool integer(std::uint64_t& out, int bits);
  bool number(double& out);
  bool number(float& out);
  bool string(std::string& out);
  bool bytes(Bytes& out);
  bool time(std::int64_t& seconds, std::int64_t& nanoseconds);
  bool json(Json& out);

  /// A string that is valid until the next call.
  bool string_view(std::string_view& out);

  /// The text of a number, from which nothing is lost.
  bool number_text(std::string_view& out);

  /// Any one value, unseen.
  bool skip();

  /// Whether null comes next.
  bool is_null();

  /// The first character of the value that comes next; 0 at the end.
  char peek();

  /// An array is `enter_array()`, then elements as long as `next_element(index)` holds, then
  /// `ok()`.
  bool enter_array();
  bool next_element(std::size_t index);

  /// An object is `enter_object()`, then values as long as `next_member(index, name)` holds, then
  /// `ok()`. The name is valid until the next call.
  bool enter_object();
  bool next_member(std::size_t index, std::string_view& name);

  /// If {"$alternative": index, "value": comes next, reads that far; `leave_alternative` reads the
  /// closing brace.
  std::optional<std::size_t> enter_alternative();
  bool leave_alternative();

  /// The text is over.
  bool finish();

  bool ok() const { return failure_.reason == nullptr; }

  bool fail(const char* reason) { return fail(reason, {}); }

  bool fail(const char* reason, std::string detail);

  /// The member that `next_member` named is one that nobody knows.
  bool fail_unexpected(std::string_view name);

  /// Says where the failure happened, from the inside out. Both return false.
  bool in_member(std::string_view name);
  bool in_element(std::size_t index);

  Misfit misfit() { return std::move(failure_).misfit(); }

  /// Whether the failure is one that reading the text as another type would meet as well.
  bool is_final() const { return failure_.is_final; }

  /// A place to come back to.
  struct Mark {
    const char* at;
    std::size_t depth_left;
  };

  Mark mark();

  /// After a failure: goes back to try something else, and keeps in `best` the failure that got
  /// furthest. False where trying on is pointless, as in text that is not JSON.
  bool back_to(const Mark& mark, detail::Failure& best);

  /// No alternative fitted.
  bool give_up(const Mark& mark, detail::Failure best);

 private:
  bool expected(const char* what);
  bool malformed(const char* why);
  bool literal(std::string_view word);
  bool enter(char bracket, const char* what);
  bool json_number(Json& out);
  bool scan_number(std::string_view& token, bool& is_integral);
  bool scan_string(std::string_view& out, std::string& buffer);
  bool scan_escape(std::string& out);
  bool scan_hex4(unsigned& out);
  template <class Float>
  bool floating(std::string_view token, Float& out);
  void skip_space();

  std::string_view rest() const { return {at_, static_cast<std::size_t>(end_ - at_)}; }

  const char* begin_;
  const char* at_;
  const char* end_;
  std::size_t depth_left_;
  std::size_t reread_ = 0;  ///< characters that `back_to` went back, in all
  Mode mode_;
  std::string scratch_;
  detail::Failure failure_;
};

/// Appends JSON text to a string. Answers and failures as in Reader.
class Writer {
 public:
  explicit Writer(std::string& out, std::size_t depth_max = written_depth_max)
      : out_(&out), depth_left_(depth_max) {}

  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  /// What was written so far; plain punctuation is appended to it directly.
  std::string& text() { return *out_; }

  const std::string& text() const { return *out_; }

  bool null();
  bool boolean(bool value);
  bool integer(std::int64_t value);
  bool integer(std::uint64_t value);
  bool number(double value);
  bool number(float value);
  bool string(std::string_view value);
  bool bytes(std::span<const std::byte> value);
  bool time(std::int64_t seconds, std::int64_t nanoseconds);
  bool json(const Json& value);

  /// Opens an array or object; `leave` closes it. An element is preceded by `element(index)`, a
  /// member by `member(index, name)`.
  bool enter(char bracket);
  bool leave(char bracket);
  void element(std::size_t index);
  bool member(std::size_t index, std::string_view name);

  bool fail(const char* reason);
  bool in_member(std::string_view name);
  bool in_element(std::size_t index);

  Misfit misfit() { return std::move(failure_).misfit(); }

 private:
  std::string* out_;
  std::size_t depth_left_;
  detail::Failure failure_;
};

namespace detail {

/// How a T is written and read: `static bool write(Writer&, const T&)` and `static bool
/// read(Reader&, T&)`. `read` is given a T in its initial state.
template <class T>
struct Codec;

}  // namespace detail

/// A type that can be a workflow's argument or result, a step's result or a hook's payload. A
/// struct has to be described before it is first asked about.
template <class T>
concept Serialisable =
    std::same_as<T, std::remove_cv_t<T>> && requires { sizeof(detail::Codec<T>); };

namespace detail {

[[noreturn]] void refuse(Misfit misfit);

template <class T, class... U>
concept OneOf = (std::same_as<T, U> || ...);

template <class T>
concept Integer = std::integral<T> && sizeof(T) <= sizeof(std::int64_t) &&
                  !OneOf<T, bool, char, wchar_t, char8_t, char16_t, char32_t>;

template <class T>
concept DescribedEnum = std::is_enum_v<T> && boost::describe::has_describe_enumerators<T>::value;

template <class T>
concept PlainEnum = std::is_enum_v<T> && !DescribedEnum<T>;

template <class T>
concept DescribedClass = std::is_class_v<T> && std::default_initializable<T> &&
                         boost::describe::has_describe_members<T>::value;

template <class T>
concept Container = std::is_class_v<T> && !DescribedClass<T> && std::default_initializable<T> &&
                    requires(T& values) {
                      typename T::value_type;
                      values.begin();
                      values.end();
                      values.size();
                      values.clear();
                    };

template <class T>
concept Sequence = Container<T> && Serialisable<typename T::value_type> && !requires {
  typename T::key_type;
} && requires(T& values, typename T::value_type value) { values.push_back(std::move(value)); };

template <class T>
concept Map = Container<T> && requires {
  typename T::key_type;
  typename T::mapped_type;
  requires std::same_as<typename T::value_type,
                        std::pair<const typename T::key_type, typename T::mapped_type>>;
  requires Serialisable<typename T::key_type> && Serialisable<typename T::mapped_type>;
} && requires(T& values, typename T::key_type key, typename T::mapped_type mapped) {
  { values.emplace(std::move(key), std::move(mapped)).second } -> std::convertible_to<bool>;
};

template <class T>
concept Set = Container<T> && Serialisable<typename T::value_type> && requires {
  typename T::key_type;
  requires std::same_as<typename T::value_type, typename T::key_type>;
} && requires(T& values, typename T::value_type value) {
  { values.insert(std::move(value)).second } -> std::convertible_to<bool>;
};

template <class T>
concept Unordered = requires { typename T::hasher; };

template <>
struct Codec<bool> {
  static bool write(Writer& writer, bool value) { return writer.boolean(value); }

  static bool read(Reader& reader, bool& out) { return reader.boolean(out); }
};

template <Integer T>
struct Codec<T> {
  using Wide = std::conditional_t<std::signed_integral<T>, std::int64_t, std::uint64_t>;

  static bool write(Writer& writer, T value) { return writer.integer(Wide{value}); }

  static bool read(Reader& reader, T& out) {
    Wide wide = 0;
    if (!reader.integer(wide, 8 * static_cast<int>(sizeof(T)))) return false;
    out = static_cast<T>(wide);
    return true;
  }
};

template <OneOf<float, double> T>
struct Codec<T> {
  static bool write(Writer& writer, T value) { return writer.number(value); }

  static bool read(Reader& reader, T& out) { return reader.number(out); }
};

template <>
struct Codec<std::string> {
  static bool write(Writer& writer, const std::string& value) { return writer.string(value); }

  static bool read(Reader& reader, std::string& out) { return reader.string(out); }
};

template <>
struct Codec<Bytes> {
  static bool write(Writer& writer, const Bytes& value) { return writer.bytes(value); }

  static bool read(Reader& reader, Bytes& out) { return reader.bytes(out); }
};

template <>
struct Codec<Json> {
  static bool write(Writer& writer, const Json& value) { return writer.json(value); }

  static bool read(Reader& reader, Json& out) { return reader.json(out); }
};

template <OneOf<std::monostate, std::nullptr_t> T>
struct Codec<T> {
  static bool write(Writer& writer, T) { return writer.null(); }

  static bool read(Reader& reader, T&) { return reader.null(); }
};

template <class Rep, class Period>
  requires Integer<Rep> || OneOf<Rep, float, double>
struct Codec<std::chrono::duration<Rep, Period>> {
  using Duration = std::chrono::duration<Rep, Period>;

  static bool write(Writer& writer, Duration value) {
    return Codec<Rep>::write(writer, value.count());
  }

  static bool read(Reader& reader, Duration& out) {
    Rep count{};
    if (!Codec<Rep>::read(reader, count)) return false;
    out = Duration{count};
    return true;
  }
};

template <std::signed_integral Rep, class Period>
  requires(Period::num == 1 && std::nano::den % Period::den == 0)
struct Codec<
    std::chrono::time_point<std::chrono::system_clock, std::chrono::duration<Rep, Period>>> {
  using Duration = std::chrono::duration<Rep, Period>;
  using Time = std::chrono::time_point<std::chrono::system_clock, Duration>;
  static constexpr std::int64_t tick = std::nano::den / Period::den;  // in nanoseconds

  static bool write(Writer& writer, Time value) {
    // By hand: chrono's floor overflows for the earliest times.
    const std::int64_t count = value.time_since_epoch().count();
    const std::int64_t rest = count % Period::den;
    const bool is_past = rest < 0;
    return writer.time(count / Period::den - (is_past ? 1 : 0),
                       (rest + (is_past ? Period::den : 0)) * tick);
  }

  static bool read(Reader& reader, Time& out) {
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    if (!reader.time(seconds, nanoseconds)) return false;
    if (nanoseconds % tick != 0) return reader.fail("finer than this time is kept");

    // Before 1970 both parts count back from the second's end, so that no intermediate result is
    // out of range.
    const bool is_past = seconds < 0;
    Rep count = 0;
    const std::int64_t part = nanoseconds / tick - (is_past ? Period::den : 0);
    if (__builtin_mul_overflow(seconds + (is_past ? 1 : 0), Period::den, &count) ||
        __builtin_add_overflow(count, part, &count)) {
      return reader.fail("not in range of a time");
    }
    out = Time{Duration{count}};
    return true;
  }
};

template <PlainEnum T>
  requires Integer<std::underlying_type_t<T>>
struct Codec<T> {
  using Number = std::underlying_type_t<T>;

  static bool write(Writer& writer, T value) {
    return Codec<Number>::write(writer, static_cast<Number>(value));
  }

  static bool read(Reader& reader, T& out) {
    Number number{};
    if (!Codec<Number>::read(reader, number)) return false;
    out = static_cast<T>(number);
    return true;
  }
};

template <class T>
struct Enumerator {
  T value;
  std::string_view name;
};

template <class T, template <class...> class List, class... Each>
constexpr auto enumerators_in(List<Each...>*) {
  return std::array<Enumerator<T>, sizeof...(Each)>{Enumerator<T>{Each::value, Each::name}...};
}

bool fail_unknown(Reader& reader, std::string_view name);

template <DescribedEnum T>
struct Codec<T> {
  static constexpr auto enumerators =
      enumerators_in<T>(static_cast<boost::describe::describe_enumerators<T>*>(nullptr));

  static bool write(Writer& writer, T value) {
    for (const auto& each : enumerators) {
      if (each.value == value) return writer.string(each.name);
    }
    return writer.fail("not one of the described values");
  }

  static bool read(Reader& reader, T& out) {
    std::string_view name;
    if (!reader.string_view(name)) return false;
    for (const auto& each : enumerators) {
      if (each.name == name) return out = each.value, true;
    }
    return fail_unknown(reader, name);
  }
};

/// A member of a described struct, with its type erased so that the work on objects is compiled
/// once.
struct Field {
  std::string_view name;
  bool (*read)(Reader&, void* object);
  bool (*write)(Writer&, const void* object);
  bool (*is_left_out)(
      const void* object);           ///< null for a member that is always written and required
  void (*set_absent)(void* object);  ///< the same
};

bool read_fields(Reader& reader, void* object, std::span<const Field> fields);
bool write_fields(Writer& writer, const void* object, std::span<const Field> fields);

inline constexpr std::size_t fields_max = 256;

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T, class Descriptor>
struct Member {
  using Type = std::remove_cvref_t<decltype(std::declval<T&>().*Descriptor::pointer)>;
  static_assert(Serialisable<Type>,
                "semel: a member of this struct has a type that has no JSON form; describe the "
                "member's type with "
                "BOOST_DESCRIBE_STRUCT or BOOST_DESCRIBE_ENUM, or use one of the types listed in "
                "semel/value.hpp");

  static bool read(Reader& reader, void* object) {
    return Codec<Type>::read(reader, static_cast<T*>(object)->*Descriptor::pointer);
  }

  static bool write(Writer& writer, const void* object) {
    return Codec<Type>::write(writer, static_cast<const T*>(object)->*Descriptor::pointer);
  }

  static bool starts_empty() {
    static const bool is_empty = !(T{}.*Descriptor::pointer).has_value();
    return is_empty;
  }

  /// An empty optional that starts with a value is written as null: left out, it would read back as
  /// that value.
  static bool is_left_out(const void* object) {
    return starts_empty() && !(static_cast<const T*>(object)->*Descriptor::pointer).has_value();
  }

  /// Whoever holds the T may have given the optional a value to start with; left out, it was empty
  /// all the same.
  static void set_absent(void* object) {
    if (starts_empty()) (static_cast<T*>(object)->*Descriptor::pointer).reset();
  }

  static constexpr Field field() {
    if constexpr (is_optional<Type>) {
      return {Descriptor::name, &read, &write, &is_left_out, &set_absent};
    } else {
      return {Descriptor::name, &read, &write, nullptr, nullptr};
    }
  }
};

template <class T, template <class...> class List, class... Each>
constexpr auto fields_in(List<Each...>*) {
  return std::array<Field, sizeof...(Each)>{Member<T, Each>::field()...};
}

template <std::size_t count>
constexpr bool are_names_distinct(const std::array<Field, count>& fields) {
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (fields[i].name == fields[j].name) return false;
    }
  }
  return true;
}

template <class T>
constexpr auto fields_of() {
  namespace describe = boost::describe;
  using Members = describe::describe_members<T, describe::mod_any_access | describe::mod_inherited |
                                                    describe::mod_hidden>;
  constexpr auto fields = fields_in<T>(static_cast<Members*>(nullptr));
  static_assert(fields.size() <= fields_max, "semel: too many members in one struct; nest them");
  static_assert(are_names_distinct(fields),
                "semel: two members of this struct, inherited ones included, have the same name");
  return fields;
}

template <DescribedClass T>
struct Codec<T> {
  static bool write(Writer& writer, const T& value) {
    static constexpr auto fields = fields_of<T>();
    return write_fields(writer, &value, fields);
  }

  static bool read(Reader& reader, T& out) {
    static constexpr auto fields = fields_of<T>();
    return read_fields(reader, &out, fields);
  }
};

/// An array of as many elements as there are.
template <class Element, class Values>
bool write_elements(Writer& writer, const Values& values) {
  if (!writer.enter('[')) return false;
  std::size_t index = 0;
  for (const auto& value : values) {
    writer.element(index);
    if (!Codec<Element>::write(writer, value)) return writer.in_element(index);
    ++index;
  }
  return writer.leave(']');
}

/// The same with the elements sorted by their text: equal values have equal texts, whatever order
/// they come in.
template <class Element, class Values>
bool write_sorted(Writer& writer, const Values& values) {
  if (!writer.enter('[')) return false;
  std::string& text = writer.text();
  const std::size_t start = text.size();
  std::vector<std::string> elements;
  elements.reserve(values.size());
  for (const auto& value : values) {
    if (!Codec<Element>::write(writer, value)) return writer.in_element(elements.size());
    elements.push_back(text.substr(start));
    text.resize(start);
  }
  std::ranges::sort(elements);
  for (std::size_t index = 0; index < elements.size(); ++index) {
    writer.element(index);
    text += elements[index];
  }
  return writer.leave(']');
}

/// Hands each element to `take`, which says what is wrong with it, or null.
template <class Element, class Take>
bool read_elements(Reader& reader, Take take) {
  if (!reader.enter_array()) return false;
  for (std::size_t index = 0; reader.next_element(index); ++index) {
    Element element{};
    if (!Codec<Element>::read(reader, element)) return reader.in_element(index);
    if (const char* wrong = take(std::move(element))) {
      return reader.fail(wrong) || reader.in_element(index);
    }
  }
  return reader.ok();
}

template <Sequence T>
struct Codec<T> {
  using Element = typename T::value_type;

  static bool write(Writer& writer, const T& values) {
    return write_elements<Element>(writer, values);
  }

  static bool read(Reader& reader, T& out) {
    out.clear();
    return read_elements<Element>(reader, [&out](Element&& element) -> const char* {
      out.push_back(std::move(element));
      return nullptr;
    });
  }
};

template <Set T>
struct Codec<T> {
  using Element = typename T::value_type;

  static bool write(Writer& writer, const T& values) {
    if constexpr (Unordered<T>) {
      return write_sorted<Element>(writer, values);
    } else {
      return write_elements<Element>(writer, values);
    }
  }

  static bool read(Reader& reader, T& out) {
    out.clear();
    return read_elements<Element>(reader, [&out](Element&& element) {
      return out.insert(std::move(element)).second ? nullptr : "repeated";
    });
  }
};

template <Map T>
  requires std::same_as<typename T::key_type, std::string>
struct Codec<T> {
  using Value = typename T::mapped_type;

  static bool write(Writer& writer, const T& values) {
    if (!writer.enter('{')) return false;
    std::size_t index = 0;
    if constexpr (Unordered<T>) {
      std::vector<const typename T::value_type*> members;
      members.reserve(values.size());
      for (const auto& member : values) members.push_back(&member);
      std::ranges::sort(members, {},
                        [](const auto* member) -> const auto& { return member->first; });
      for (const auto* member : members) {
        if (!write_member(writer, index++, *member)) return false;
      }
    } else {
      for (const auto& member : values) {
        if (!write_member(writer, index++, member)) return false;
      }
    }
    return writer.leave('}');
  }

  static bool read(Reader& reader, T& out) {
    out.clear();
    if (!reader.enter_object()) return false;
    std::string_view view;
    for (std::size_t index = 0; reader.next_member(index, view); ++index) {
      std::string name{view};
      Value value{};
      if (!Codec<Value>::read(reader, value)) return reader.in_member(name);
      const auto [place, is_new] = out.emplace(std::move(name), std::move(value));
      if (!is_new) return reader.fail("member repeated") || reader.in_member(place->first);
    }
    return reader.ok();
  }

 private:
  static bool write_member(Writer& writer, std::size_t index,
                           const typename T::value_type& member) {
    const auto& [name, value] = member;
    if (!writer.member(index, name)) return false;
    return Codec<Value>::write(writer, value) || writer.in_member(name);
  }
};

template <Map T>
  requires(!std::same_as<typename T::key_type, std::string>)
struct Codec<T> {
  using Element = std::pair<typename T::key_type, typename T::mapped_type>;

  static bool write(Writer& writer, const T& values) {
    using Written =
        typename T::value_type;  // the key is const, which makes no difference to the text
    if constexpr (Unordered<T>) {
      return write_sorted<Written>(writer, values);
    } else {
      return write_elements<Written>(writer, values);
    }
  }

  static bool read(Reader& reader, T& out) {
    out.clear();
    return read_elements<Element>(reader, [&out](Element&& element) {
      return out.emplace(std::move(element.first), std::move(element.second)).second ? nullptr
                                                                                     : "repeated";
    });
  }
};

template <class T>
bool write_element(Writer& writer, std::size_t index, const T& value) {
  writer.element(index);
  return Codec<T>::write(writer, value) || writer.in_element(index);
}

bool fail_length(Reader& reader, std::size_t length);

/// One element of an array that has `length` of them.
template <class T>
bool read_element(Reader& reader, std::size_t index, std::size_t length, T& out) {
  if (!reader.next_element(index)) return reader.ok() && fail_length(reader, length);
  return Codec<T>::read(reader, out) || reader.in_element(index);
}

inline bool read_end(Reader& reader, std::size_t length) {
  return reader.next_element(length) ? fail_length(reader, length) : reader.ok();
}

template <Serialisable T, std::size_t length>
struct Codec<std::array<T, length>> {
  static bool write(Writer& writer, const std::array<T, length>& values) {
    return write_elements<T>(writer, values);
  }

  static bool read(Reader& reader, std::array<T, length>& out) {
    if (!reader.enter_array()) return false;
    std::size_t index = 0;
    for (T& element : out) {
      if (!read_element(reader, index++, length, element)) return false;
    }
    return read_end(reader, length);
  }
};

/// What std::pair and std::tuple share.
template <class Tuple, class... T>
struct TupleCodec {
  static bool write(Writer& writer, const Tuple& values) {
    return writer.enter('[') && write_all(writer, values, std::index_sequence_for<T...>{}) &&
           writer.leave(']');
  }

  static bool read(Reader& reader, Tuple& out) {
    return reader.enter_array() && read_all(reader, out, std::index_sequence_for<T...>{}) &&
           read_end(reader, sizeof...(T));
  }

 private:
  template <std::size_t... index>
  static bool write_all([[maybe_unused]] Writer& writer, [[maybe_unused]] const Tuple& values,
                        std::index_sequence<index...>) {
    return (write_element<std::remove_const_t<T>>(writer, index, std::get<index>(values)) && ...);
  }

  template <std::size_t... index>
  static bool read_all([[maybe_unused]] Reader& reader, [[maybe_unused]] Tuple& out,
                       std::index_sequence<index...>) {
    return (read_element(reader, index, sizeof...(T), std::get<index>(out)) && ...);
  }
};

template <class A, class B>
  requires Serialisable<std::remove_const_t<A>> && Serialisable<B>
struct Codec<std::pair<A, B>> : TupleCodec<std::pair<A, B>, A, B> {};

template <Serialisable... T>
struct Codec<std::tuple<T...>> : TupleCodec<std::tuple<T...>, T...> {};

/// Whether the text from `start` would be taken for a tagged alternative.
bool looks_tagged(const Writer& writer, std::size_t start);

/// Turns the text from `start` into {"$alternative": index, "value": text}.
bool tag_alternative(Writer& writer, std::size_t start, std::size_t index);

bool fail_alternative(Reader& reader, std::size_t index);

/// Reads what follows the tag of an alternative.
template <class T>
bool read_tagged(Reader& reader, T& out) {
  return Codec<T>::read(reader, out) ? reader.leave_alternative() : reader.in_member("value");
}

template <class T>
inline constexpr bool may_be_null = OneOf<T, Json, std::monostate, std::nullptr_t>;
template <class T>
inline constexpr bool may_be_null<std::optional<T>> = true;
template <class... T>
inline constexpr bool may_be_null<std::variant<T...>> = (may_be_null<T> || ...);

template <Serialisable T>
struct Codec<std::optional<T>> {
  static bool write(Writer& writer, const std::optional<T>& value) {
    if (!value) return writer.null();
    const std::size_t start = writer.text().size();
    if (!Codec<T>::write(writer, *value)) return false;
    if constexpr (may_be_null<T>) {
      if (is_ambiguous(writer, start)) return tag_alternative(writer, start, 1);
    }
    return true;
  }

  static bool read(Reader& reader, std::optional<T>& out) {
    if constexpr (may_be_null<T>) {
      if (const auto index = reader.enter_alternative()) {
        return *index == 1 ? read_tagged(reader, out.emplace()) : fail_alternative(reader, *index);
      }
    }
    if (reader.is_null()) {
      out.reset();
      return reader.null();
    }
    return Codec<T>::read(reader, out.emplace());
  }

 private:
  /// A value that is null itself is told from no value as the variant<nullptr_t, T> would.
  static bool is_ambiguous(Writer& writer, std::size_t start) {
    return std::string_view{writer.text()}.substr(start) == "null" || looks_tagged(writer, start);
  }
};

/// Whether T might accept `text`. Only journals are asked: whatever fits at a boundary fits there
/// as well. What cannot be judged (it is nested too deeply) counts as accepted.
template <class T>
bool might_accept(std::string_view text) {
  Reader reader{text, Mode::journal};
  T value{};
  return (Codec<T>::read(reader, value) && reader.finish()) || reader.is_final();
}

template <Serialisable... T>
  requires(std::default_initializable<T> && ...)
struct Codec<std::variant<T...>> {
  using Variant = std::variant<T...>;
  template <std::size_t index>
  using Alternative = std::variant_alternative_t<index, Variant>;

  static bool write(Writer& writer, const Variant& value) {
    if (value.valueless_by_exception()) return writer.fail("a variant without a value");
    return boost::mp11::mp_with_index<sizeof...(T)>(value.index(), [&](auto which) {
      constexpr std::size_t index = which;
      const std::size_t start = writer.text().size();
      if (!Codec<Alternative<index>>::write(writer, *std::get_if<index>(&value))) return false;
      const auto text = std::string_view{writer.text()}.substr(start);
      const bool needs_tag =
          looks_tagged(writer, start) || would_misread(text, std::make_index_sequence<index>{});
      return needs_tag ? tag_alternative(writer, start, index) : true;
    });
  }

  static bool read(Reader& reader, Variant& out) {
    if (const auto index = reader.enter_alternative()) return read_tagged_as(reader, *index, out);
    const Reader::Mark start = reader.mark();
    Failure best;
    return read_first_fit(reader, start, best, out, std::index_sequence_for<T...>{});
  }

 private:
  /// Whether an alternative before the written one would be taken for it.
  template <std::size_t... earlier>
  static bool would_misread([[maybe_unused]] std::string_view text,
                            std::index_sequence<earlier...>) {
    return (might_accept<Alternative<earlier>>(text) || ...);
  }

  static bool read_tagged_as(Reader& reader, std::size_t index, Variant& out) {
    if (index >= sizeof...(T)) return fail_alternative(reader, index);
    return boost::mp11::mp_with_index<sizeof...(T)>(
        index, [&](auto which) { return read_tagged(reader, out.template emplace<which>()); });
  }

  enum class Fit { yes, no, final_no };

  template <std::size_t index>
  static Fit try_alternative(Reader& reader, const Reader::Mark& start, Failure& best,
                             Variant& out) {
    Alternative<index> candidate{};
    if (Codec<Alternative<index>>::read(reader, candidate)) {
      out.template emplace<index>(std::move(candidate));
      return Fit::yes;
    }
    return reader.back_to(start, best) ? Fit::no : Fit::final_no;
  }

  template <std::size_t... index>
  static bool read_first_fit(Reader& reader, const Reader::Mark& start, Failure& best, Variant& out,
                             std::index_sequence<index...>) {
    Fit fit = Fit::no;
    (void)(((fit = try_alternative<index>(reader, start, best, out)) == Fit::no) && ...);
    return fit == Fit::no ? reader.give_up(start, std::move(best)) : fit == Fit::yes;
  }
};

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

}  // namespace value
}  // namespace semel
