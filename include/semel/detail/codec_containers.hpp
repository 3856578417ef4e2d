// How containers, tuples, optionals and variants are written and read.
#pragma once

#include <semel/detail/codec.hpp>

#include <algorithm>
#include <array>
#include <tuple>
#include <variant>

namespace semel::value::detail {

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

}  // namespace semel::value::detail
