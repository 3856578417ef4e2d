// The shape of a type's JSON, as text: what a payload must look like, for those who do not have the type. It is stored
// with a hook, so that whichever process receives a payload can refuse one that does not fit.
#pragma once

#include <semel/value.hpp>

#include <algorithm>
#include <string>
#include <typeindex>
#include <vector>

namespace semel {

/// Made by `type<T>()`.
struct PayloadType {
  std::string shape;  ///< JSON
};

namespace value::detail {

template <class T>
inline constexpr bool is_duration = false;
template <class Rep, class Period>
inline constexpr bool is_duration<std::chrono::duration<Rep, Period>> = true;
template <class T>
inline constexpr bool is_time_point = false;
template <class Duration>
inline constexpr bool is_time_point<std::chrono::time_point<std::chrono::system_clock, Duration>> =
    true;
template <class T>
inline constexpr bool is_variant = false;
template <class... T>
inline constexpr bool is_variant<std::variant<T...>> = true;
template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;
template <class T>
inline constexpr bool is_fixed_array = false;
template <class T, std::size_t length>
inline constexpr bool is_fixed_array<std::array<T, length>> = true;

/// Writes shapes. Structs are listed apart and referred to by number, because they may contain themselves.
class ShapeWriter {
 public:
  template <class T>
  std::string write() {
    std::string shape = R"({"shape":)" + of<T>();
    if (!types_.empty()) shape += R"(,"types":[)" + joined(types_) + "]";
    return shape + "}";
  }

 private:
  static std::string joined(const std::vector<std::string>& parts) {
    std::string all;
    for (const std::string& part : parts) all += (all.empty() ? "" : ",") + part;
    return all;
  }

  static std::string quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

  template <class T>
  std::string of() {
    if constexpr (std::same_as<T, bool>) {
      return R"({"is":"bool"})";
    } else if constexpr (Integer<T>) {
      return std::string(R"({"is":")") + (std::signed_integral<T> ? "integer" : "unsigned") +
             R"(","bits":)" + std::to_string(8 * sizeof(T)) + "}";
    } else if constexpr (OneOf<T, float, double>) {
      return std::same_as<T, float> ? R"({"is":"float"})" : R"({"is":"number"})";
    } else if constexpr (std::same_as<T, std::string>) {
      return R"({"is":"string"})";
    } else if constexpr (std::same_as<T, Bytes>) {
      return R"({"is":"bytes"})";
    } else if constexpr (std::same_as<T, Json>) {
      return R"({"is":"any"})";
    } else if constexpr (OneOf<T, std::monostate, std::nullptr_t>) {
      return R"({"is":"null"})";
    } else if constexpr (is_duration<T>) {
      return of<typename T::rep>();
    } else if constexpr (is_time_point<T>) {
      return R"({"is":"time"})";
    } else if constexpr (PlainEnum<T>) {
      return of<std::underlying_type_t<T>>();
    } else if constexpr (DescribedEnum<T>) {
      std::string names;
      for (const auto& each : Codec<T>::enumerators)
        names += (names.empty() ? "" : ",") + quoted(each.name);
      return R"({"is":"enum","names":[)" + names + "]}";
    } else if constexpr (is_optional<T>) {
      return std::string(R"({"is":"optional","tagged":)") +
             (may_be_null<typename T::value_type> ? "true" : "false") + R"(,"of":)" +
             of<typename T::value_type>() + "}";
    } else if constexpr (is_variant<T>) {
      return R"({"is":"variant","of":[)" + each_of(static_cast<T*>(nullptr)) + "]}";
    } else if constexpr (is_tuple<T>) {
      return R"({"is":"tuple","of":[)" + each_of(static_cast<T*>(nullptr)) + "]}";
    } else if constexpr (is_fixed_array<T>) {
      return R"({"is":"array","length":)" + std::to_string(std::tuple_size_v<T>) + R"(,"of":)" +
             of<typename T::value_type>() + "}";
    } else if constexpr (Map<T>) {
      if constexpr (std::same_as<typename T::key_type, std::string>) {
        return R"({"is":"map","of":)" + of<typename T::mapped_type>() + "}";
      } else {
        return R"({"is":"pairs","of":[)" + of<typename T::key_type>() + "," +
               of<typename T::mapped_type>() + "]}";
      }
    } else if constexpr (Set<T>) {
      return R"({"is":"set","of":)" + of<typename T::value_type>() + "}";
    } else if constexpr (Sequence<T>) {
      return R"({"is":"array","of":)" + of<typename T::value_type>() + "}";
    } else {
      static_assert(DescribedClass<T>);
      return R"({"is":"type","number":)" + std::to_string(number_of<T>()) + "}";
    }
  }

  template <template <class...> class List, class... Each>
  std::string each_of(List<Each...>*) {
    std::vector<std::string> parts;
    (parts.push_back(of<std::remove_const_t<Each>>()), ...);
    return joined(parts);
  }

  template <class T>
  std::size_t number_of() {
    const std::type_index type = typeid(T);
    const auto found = std::ranges::find(known_, type);
    if (found != known_.end()) return static_cast<std::size_t>(found - known_.begin());
    const std::size_t number = known_.size();
    known_.push_back(type);
    types_.emplace_back();
    namespace describe = boost::describe;
    using Members =
        describe::describe_members<T, describe::mod_any_access | describe::mod_inherited |
                                          describe::mod_hidden>;
    std::string members = members_of<T>(static_cast<Members*>(nullptr));
    types_[number] = "[" + std::move(members) + "]";
    return number;
  }

  /// Each member: its name, whether it must be there, its shape.
  template <class T, template <class...> class List, class... Each>
  std::string members_of(List<Each...>*) {
    std::vector<std::string> parts;
    (parts.push_back("[" + quoted(Each::name) +
                     (is_optional<typename Member<T, Each>::Type> ? ",false," : ",true,") +
                     of<typename Member<T, Each>::Type>() + "]"),
     ...);
    return joined(parts);
  }

  std::vector<std::type_index> known_;
  std::vector<std::string> types_;
};

}  // namespace value::detail

/// The shape of T, for `AddOptions::token_payload`.
template <value::Serialisable T>
PayloadType type() {
  static const std::string shape = value::detail::ShapeWriter{}.write<T>();
  return {shape};
}

}  // namespace semel
