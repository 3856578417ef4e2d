#include "serve/start_body.hpp"

#include "engine/calls.hpp"

#include <semel/value.hpp>

#include <boost/json.hpp>

#include <algorithm>
#include <array>

namespace semel::serve {

namespace {

/// What C++ calls an option, and what HTTP does.
struct Name {
  std::string_view option;
  std::string_view field;
};

constexpr auto names = std::to_array<Name>({{"/key", "/idempotencyKey"},
                                            {"/run_id", "/runId"},
                                            {"/key_ttl", "/keyTtl"},
                                            {"/token", "/token"},
                                            {"/delay", "/delay"},
                                            {"/deadline", "/deadline"},
                                            {"/attributes", "/attributes"}});

template <class To, class From>
To same(From from) {
  return static_cast<To>(static_cast<int>(from));
}

StartOptions options_of(const wire::StartOptions& body, const std::string& pointer) {
  StartOptions options;
  const auto duration = [&](const char* name, const std::optional<std::string>& text) {
    return text ? std::optional(duration_at(pointer + name, *text)) : std::nullopt;
  };
  options.key = body.idempotencyKey;
  options.key_ttl = duration("/keyTtl", body.keyTtl);
  options.run_id = body.runId;
  options.token = body.token;
  options.delay = duration("/delay", body.delay);
  if (body.onRunning) options.on_running = same<OnRunning>(*body.onRunning);
  if (body.afterDone) options.after_done = same<AfterDone>(*body.afterDone);
  if (body.fingerprint) options.fingerprint = same<Fingerprint>(*body.fingerprint);
  options.deadline = duration("/deadline", body.deadline);
  if (body.attributes) options.attributes = *body.attributes;
  return options;
}

/// A message that begins with an option's name in C++, told with the field's.
[[noreturn]] void throw_with_field(const Error& error, const std::string& pointer) {
  const std::string message = error.what();
  const std::size_t colon = message.find(": ");
  const auto* name = std::ranges::find(
      names, std::string_view{message}.substr(0, std::min(colon, message.size())), &Name::option);
  if (name == names.end()) throw error;
  throw ValidationError(pointer + std::string(name->field), message.substr(colon + 2));
}

}  // namespace

std::optional<Json> given_input(std::string_view body, std::string_view parent) {
  const Json parsed = value::from_text(body);
  const Json* object = parent.empty() ? &parsed : parsed.as_object().if_contains(parent);
  const Json* input = object == nullptr || !object->is_object()
                          ? nullptr
                          : object->get_object().if_contains("input");
  return input == nullptr ? std::nullopt : std::optional(*input);
}

engine::StartInput start_input(const Parts& parts, const std::string& workspace,
                               const std::string& workflow, const wire::StartOptions& options,
                               const std::optional<Json>& input, const std::string& pointer) {
  const bool is_list = !input || input->is_array();
  const Json arguments =
      !input ? Json(boost::json::array{}) : (is_list ? *input : Json(boost::json::array{*input}));
  StartOptions checked = options_of(options, pointer);
  try {
    return engine::start_input(
        *parts.registry, parts.limits, workspace,
        {std::move(checked), workflow, "", value::to_text(arguments), false});
  } catch (const ValidationError& error) {
    // An only argument is the first of the list; the client has sent no list.
    std::string path = error.path;
    if (!is_list && path.starts_with("/0")) path.erase(0, 2);
    const std::string message = error.what();
    const std::size_t colon = message.find(": ");
    throw ValidationError(pointer + "/input" + path,
                          colon == std::string::npos ? message : message.substr(colon + 2));
  } catch (const Error& error) {
    throw_with_field(error, pointer);
  }
}

}  // namespace semel::serve
