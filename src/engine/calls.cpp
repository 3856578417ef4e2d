#include "engine/calls.hpp"

#include "engine/start_options.hpp"
#include "idempotency/fingerprint.hpp"

namespace semel::engine {

StartInput start_input(const Registry& registry, const Limits& limits, std::string workspace,
                       detail::StartSpec spec) {
  check_start_options(spec.options);
  if (spec.workflow.empty()) spec.workflow = registry.name_of(spec.function);
  const detail::WorkflowType* type = registry.find(spec.workflow);
  if (type == nullptr) {
    throw Error("WORKFLOW_NOT_FOUND", "no workflow named \"" + spec.workflow + "\" is registered");
  }
  if (spec.input.size() > limits.payload_bytes_max) {
    throw Error("PAYLOAD_TOO_LARGE", "the input has " + std::to_string(spec.input.size()) +
                                         " bytes; the limit is " +
                                         std::to_string(limits.payload_bytes_max));
  }
  if (!spec.typed) spec.input = type->normalise(spec.input);
  StartInput input{std::move(workspace),
                   std::move(spec.workflow),
                   std::move(spec.input),
                   {},
                   std::move(spec.options)};
  if (input.options.key || input.options.run_id) {
    input.fingerprint =
        idempotency::start_fingerprint(input.workflow, value::canonical(input.input));
  }
  return input;
}

store::Deliver delivery(const Limits& limits, std::string workspace, const std::string& token,
                        std::string payload, const ResumeOptions& options) {
  detail::check_token(token);
  if (options.resume_id && (options.resume_id->empty() || options.resume_id->size() > 255))
    throw Error("VALIDATION_ERROR", "/resume_id: a resume id has 1 to 255 bytes");
  if (payload.size() > limits.payload_bytes_max) {
    throw Error("PAYLOAD_TOO_LARGE", "the payload has " + std::to_string(payload.size()) +
                                         " bytes; the limit is " +
                                         std::to_string(limits.payload_bytes_max));
  }
  store::Deliver deliver{.workspace = std::move(workspace),
                         .token = token,
                         .payload = std::move(payload),
                         .resume_id = options.resume_id,
                         .expected_version = options.expected_version};
  if (deliver.resume_id) {
    deliver.fingerprint = idempotency::start_fingerprint(token, value::canonical(deliver.payload));
  }
  return deliver;
}

}  // namespace semel::engine
