#include "http/openapi.hpp"

#include "http/characters.hpp"
#include "http/json_schema.hpp"

#include <boost/json.hpp>

namespace semel::http {

namespace {

namespace json = boost::json;
using detail::ContractSpec;

/// Names of components are letters, digits, dots, dashes and underscores.
std::string component_name(std::string_view contract, std::string_view part) {
  std::string name;
  for (const char c : contract) {
    const bool stays = is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z') || c == '.' || c == '-';
    name += stays ? c : '_';
  }
  return name.append(".").append(part);
}

json::array parameters_of(const ContractSpec& contract) {
  json::array parameters;
  for (std::size_t at = 0; (at = contract.path.find('{', at)) != std::string::npos; ++at) {
    const std::size_t end = contract.path.find('}', at);
    parameters.emplace_back(json::object{{"name", contract.path.substr(at + 1, end - at - 1)},
                                         {"in", "path"},
                                         {"required", true},
                                         {"schema", {{"type", "string"}}}});
  }
  for (const std::string& name : contract.query) {
    parameters.emplace_back(
        json::object{{"name", name}, {"in", "query"}, {"schema", {{"type", "string"}}}});
  }
  if (contract.idempotency) {
    parameters.emplace_back(json::object{
        {"name", contract.idempotency->header},
        {"in", "header"},
        {"required", contract.idempotency->required},
        {"description",
         "Makes repeating this request safe: the same key with the same request is answered as the "
         "first was. Bare, or as a structured-field string."},
        {"schema", {{"type", "string"}, {"minLength", 1}, {"maxLength", 512}}}});
  }
  return parameters;
}

json::object content(std::string_view type, Json schema) {
  return {{type, {{"schema", std::move(schema)}}}};
}

json::object problem_answer(std::string_view description) {
  return {
      {"description", description},
      {"content", content("application/problem+json", {{"$ref", "#/components/schemas/Problem"}})}};
}

json::object answers_of(const ContractSpec& contract, json::object& schemas) {
  json::object success{{"description", "It went well."}};
  if (!contract.response_shape.empty()) {
    success["content"] =
        content("application/json",
                schema_of(contract.response_shape, component_name(contract.name, "response"),
                          Strictness::open, schemas));
  }
  if (contract.idempotency) {
    success["headers"] = {{"Idempotency-Replayed",
                           {{"description", "`true` on an answer that was given before."},
                            {"schema", {{"type", "string"}, {"enum", {"true"}}}}}}};
  }
  json::object answers{{contract.response_shape.empty() ? "204" : "2XX", std::move(success)}};
  answers["400"] = problem_answer(
      contract.idempotency
          ? "`MALFORMED`, `IDEMPOTENCY_KEY_INVALID`, or, where a key is required and missing, "
            "`IDEMPOTENCY_KEY_REQUIRED`."
          : "`MALFORMED`.");
  if (contract.idempotency) {
    answers["409"] = problem_answer(
        "`IDEMPOTENCY_CONFLICT`: the key was used for another request. `IDEMPOTENCY_IN_PROGRESS`: "
        "the first request with this key is not done; try again after `Retry-After`. "
        "`IDEMPOTENCY_RESPONSE_NOT_RETAINED`: it is done, and its answer is not kept.");
  }
  if (!contract.request_shape.empty()) {
    answers["413"] = problem_answer("`PAYLOAD_TOO_LARGE`.");
    answers["415"] = problem_answer("`UNSUPPORTED_MEDIA_TYPE`.");
    answers["422"] =
        problem_answer("`VALIDATION_ERROR`: `field` is the JSON pointer of what does not fit.");
  }
  answers["default"] = problem_answer("Any other error.");
  return answers;
}

json::object problem_schema() {
  const json::object text{{"type", "string"}};
  return {{"type", "object"},
          {"description", "RFC 9457. Decide by `code` and `retryable`; the rest is for people."},
          {"properties",
           {{"type", text},
            {"title", text},
            {"status", {{"type", "integer"}}},
            {"detail", text},
            {"code", text},
            {"retryable", {{"type", "boolean"}}},
            {"field", text}}},
          {"required", {"type", "title", "status", "detail", "code", "retryable"}}};
}

json::object operation_of(const ContractSpec& contract, json::object& schemas) {
  json::object operation{{"operationId", contract.name}};
  if (json::array parameters = parameters_of(contract); !parameters.empty())
    operation["parameters"] = std::move(parameters);
  if (!contract.request_shape.empty()) {
    operation["requestBody"] = {
        {"required", true},
        {"content", content("application/json", schema_of(contract.request_shape,
                                                          component_name(contract.name, "request"),
                                                          Strictness::closed, schemas))}};
  }
  operation["responses"] = answers_of(contract, schemas);
  return operation;
}

}  // namespace

std::string openapi_text(const std::vector<ContractSpec>& contracts, std::string_view title) {
  json::object schemas{{"Problem", problem_schema()}};
  json::object paths;
  for (const ContractSpec& contract : contracts) {
    std::string method = contract.method;
    for (char& c : method) c = lower(c);
    json::value& path = paths[contract.path];
    if (path.is_null()) path = json::object{};
    path.as_object()[method] = operation_of(contract, schemas);
  }
  return value::to_text(json::object{{"openapi", "3.1.0"},
                                     {"info", {{"title", title}, {"version", "1"}}},
                                     {"paths", std::move(paths)},
                                     {"components", {{"schemas", std::move(schemas)}}}});
}

}  // namespace semel::http
