// How single values, enums and described structs are written and read. semel/value.hpp has the whole list.
#pragma once

#include <semel/detail/json.hpp>

#include <boost/describe.hpp>
#include <boost/mp11/algorithm.hpp>
#include <boost/mp11/list.hpp>

#include <array>
#include <chrono>
#include <concepts>
#include <ratio>
#include <type_traits>
#include <variant>

namespace semel::value {

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

/// A literal, up to its end: only written.
template <std::size_t n>
struct Codec<char[n]> {
  static bool write(Writer& writer, const char (&value)[n]) { return writer.string(value); }
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

}  // namespace detail
}  // namespace semel::value
