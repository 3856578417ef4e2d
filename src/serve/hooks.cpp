// Hooks: resuming runs, by those who have a key and by those who only have the token.
#include "base/base64.hpp"
#include "base/utf8.hpp"
#include "engine/calls.hpp"
#include "http/problem.hpp"
#include "serve/route.hpp"
#include "serve/start_body.hpp"
#include "serve/text.hpp"
#include "serve/view.hpp"
#include "serve/wire.hpp"

#include <semel/hook.hpp>

#include <boost/json.hpp>

#include <span>

namespace semel::serve {

namespace {

namespace json = boost::json;

http::Response no_hook() { return http::problem("HOOK_NOT_FOUND", "nobody has this token"); }

http::Response not_delivered(const std::string& token, const store::Answer& answer,
                             const std::string& pointer) {
  if (std::holds_alternative<store::HookMissing>(answer)) return no_hook();
  if (const auto* refusal = std::get_if<store::StartRefused>(&answer))
    return refused(engine::refusal_of(*refusal));
  engine::Refusal refusal = engine::delivery_refusal(token, answer);
  if (refusal.code == "VALIDATION_ERROR") refusal.path = pointer + refusal.path;
  return refused(refusal);
}

/// What came in by the public form, as the payload of a `webhook()`.
WebhookRequest webhook_payload(const http::Request& request, const http::Call& call) {
  WebhookRequest payload{.method = std::string(request.method),
                         .headers = call.headers,
                         .query = call.query,
                         .body = std::string(request.body),
                         .bodyBase64 = {},
                         .answerId = {}};
  // Header values may be any bytes; JSON has none that are not UTF-8.
  std::erase_if(payload.headers, [](const auto& header) { return !base::is_utf8(header.second); });
  if (!base::is_utf8(payload.body)) {
    payload.bodyBase64.emplace();
    base::append_base64(*payload.bodyBase64, std::as_bytes(std::span{request.body}));
    payload.body.clear();
  }
  return payload;
}

const std::string& token_in(const http::Call& call) {
  constexpr std::size_t token_bytes_max = 255;
  const std::string& token = call.path.at("token");
  if (token.size() > token_bytes_max) throw ValidationError("token", "a token has 1 to 255 bytes");
  return token;
}

}  // namespace

void Api::add_hooks() {
  act<Json, wire::Resumed>(
      "/api/v1/hooks/{token}/resume", "hooks.resume", Needs::write,
      [this](const http::Request& request, const http::Call& call, const Json& body) {
        ResumeOptions options;
        options.expected_version = expected_version(request);
        const store::Deliver wanted = engine::delivery(parts_.limits, call.tenant, token_in(call),
                                                       value::to_text(body), options);
        return [wanted](Unit& unit) {
          store::Deliver deliver = wanted;
          deliver.now = unit.store.now();
          const store::Answer answer = unit.store.execute(deliver);
          const auto* done = std::get_if<store::Delivered>(&answer);
          if (done == nullptr) return not_delivered(deliver.token, answer, "");
          return json_answer(200, {{"runId", done->run_id}, {"hookId", done->hook_id}});
        };
      });

  act<wire::ResumeOrStart, wire::ResumedOrStarted>(
      "/api/v1/hooks/{token}/resume-or-start", "hooks.resumeOrStart", Needs::write,
      [this](const http::Request& request, const http::Call& call,
             const wire::ResumeOrStart& body) {
        const wire::StartOptions options = body.start.value_or(wire::StartOptions{});
        if (options.token)
          throw ValidationError("/start/token", "the token is the one in the path");
        if (options.idempotencyKey)
          throw ValidationError("/start/idempotencyKey", "the token decides, there is no key");
        const std::string& token = token_in(call);
        engine::StartInput input = start_input(parts_, call.tenant, body.workflow, options,
                                               given_input(request.body, "start"), "/start");
        input.options.token = token;
        const store::Deliver wanted =
            engine::delivery(parts_.limits, call.tenant, token, value::to_text(body.payload), {});
        return [this, wanted, input](Unit& unit) {
          thread_local base::SystemRandom random;
          thread_local base::IdSource ids(random);
          const TimePoint now = unit.store.now();
          store::ResumeOrStart command{
              wanted, engine::new_run(input, *parts_.registry, unit.store.new_run_key(),
                                      ids.next(now), now, parts_.retention)};
          command.deliver.now = now;
          store::Answer answer;
          const auto* done = std::get_if<store::Delivered>(&answer);
          const std::size_t bytes = input.input.size() + wanted.payload.size();
          within_limits(unit, wanted.workspace, bytes, [&] {
            answer = unit.store.execute(command);
            done = std::get_if<store::Delivered>(&answer);
            return done != nullptr && done->started;
          });
          if (done == nullptr) return not_delivered(wanted.token, answer, "/payload");
          return json_answer(done->started ? 201 : 200,
                             {{"runId", done->run_id}, {"started", done->started}});
        };
      });

  look<wire::Hook>("/api/v1/hooks/{token}", "hooks.get", Needs::read, {}, [this](http::Call& call) {
    const auto hook =
        value_or_throw(parts_.driver->reader()->hook(call.tenant, call.path.at("token")));
    if (!hook) throw HookNotFoundError("HOOK_NOT_FOUND", "nobody has this token");
    return view(*hook);
  });

  look<wire::HookList>("/api/v1/hooks", "hooks.list", Needs::read, {"runId", "limit", "cursor"},
                       [this](http::Call& call) {
                         store::HookFilter filter;
                         filter.workspace = call.tenant;
                         filter.limit = limit_of(call) + 1;
                         if (const auto run = call.query.find("runId"); run != call.query.end())
                           filter.run_id = run->second;
                         if (const auto cursor = call.query.find("cursor");
                             cursor != call.query.end())
                           filter.before = read_number_cursor(cursor->second);
                         auto hooks = value_or_throw(parts_.driver->reader()->hooks(filter));
                         json::object page;
                         if (hooks.size() == filter.limit) {
                           hooks.pop_back();
                           page["nextCursor"] = cursor_text(std::stoll(hooks.back().id));
                         }
                         json::array items;
                         for (const store::HookRecord& hook : hooks) items.emplace_back(view(hook));
                         page["items"] = std::move(items);
                         return page;
                       });
}

void Api::add_webhooks() {
  http::detail::Endpoint endpoint;
  endpoint.spec = http::post<std::monostate, std::monostate>("/hooks/{token}")
                      .named("webhook")
                      .idempotent({})
                      .spec();
  core_.add_whole(std::move(endpoint), true,
                  [this](const http::Request& request, const http::Call& call,
                         const std::shared_ptr<const void>&, http::Responder responder) {
                    const auto client = std::make_shared<http::Responder>(std::move(responder));
                    core_.submit([this, &request, call, client] {
                      try {
                        answer_webhook(request, call, client);
                      } catch (...) {
                        client->answer(http::detail::answer_to(std::current_exception()));
                      }
                    });
                  });
}

/// Throws before `client` is answered, or not at all.
void Api::answer_webhook(const http::Request& request, const http::Call& call,
                         const std::shared_ptr<http::Responder>& client) {
  const std::string& token = call.path.at("token");
  const auto reader = parts_.driver->reader();
  const auto found = value_or_throw(reader->public_hook(token));
  if (!found) throw HookNotFoundError("HOOK_NOT_FOUND", "nobody has this token");
  const WebhookPlan plan = plan_of(found->hook.shape);
  WebhookRequest payload = webhook_payload(request, call);
  http::Response accepted = plan.fixed ? response_of(*plan.fixed) : http::Response{202, {}, ""};
  if (plan.within) {
    const auto run = value_or_throw(reader->find(found->workspace, found->hook.run_id));
    const AnswerPlace place{.run_id = found->hook.run_id,
                            .answer_id = new_answer_id(),
                            .from = run && run->version ? *run->version : 0,
                            .within = *plan.within};
    payload.answerId = place.answer_id;
    accepted = promise_of(place);
  }
  const store::Deliver wanted =
      engine::delivery(parts_.limits, found->workspace, token, value::encode(payload), {});
  actions_.perform(
      {request, "webhook:" + token, wanted.workspace, shared_from_this()},
      [wanted, accepted](Unit& unit) -> http::Response {
        store::Deliver deliver = wanted;
        deliver.now = unit.store.now();
        const store::Answer answer = unit.store.execute(deliver);
        if (!std::holds_alternative<store::Delivered>(answer))
          return not_delivered(deliver.token, answer, "");
        return accepted;
      },
      // Also a replay: what was promised then is in the journal, or will be.
      [answers = answers_, client, workspace = wanted.workspace](http::Response answer) {
        answers->keep(workspace, std::move(answer), std::move(*client));
      });
}

}  // namespace semel::serve
