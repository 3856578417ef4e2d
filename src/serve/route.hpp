// How routes of one kind are added.
#pragma once

#include "serve/api.hpp"

#include <semel/value.hpp>

namespace semel::serve {

/// A body that may be left out is one whose members may all be.
template <class Req>
std::optional<value::Misfit> decode_body(std::string_view text, std::shared_ptr<const void>& out) {
  auto body = std::make_shared<Req>();
  if constexpr (requires { typename Req::may_be_empty; }) {
    if (text.empty()) {
      out = std::move(body);
      return std::nullopt;
    }
  }
  if (auto misfit = value::try_decode(text, *body, value::Mode::boundary)) return misfit;
  out = std::move(body);
  return std::nullopt;
}

template <class Res>
void Api::look(const std::string& path, const std::string& name, Needs needs,
               std::vector<std::string> query, Look look) {
  http::detail::Endpoint endpoint;
  endpoint.spec = http::get<Res>(path).named(name).spec();
  endpoint.spec.query = query;
  endpoint.run_blocking = [query = std::move(query), look = std::move(look)](const void*,
                                                                             http::Call& call) {
    check_query(call, query);
    return value::to_text(look(call));
  };
  core_.add(std::move(endpoint));
  needs_[name] = needs;
}

template <class Req, class Res>
void Api::act(const std::string& path, const std::string& name, Needs needs, Act<Req> act,
              Kept kept) {
  http::detail::Endpoint endpoint;
  endpoint.spec = http::post<Req, Res>(path).named(name).idempotent({}).spec();
  endpoint.decode = decode_body<Req>;
  core_.add_whole(std::move(endpoint), false,
                  [this, kept, act = std::move(act)](
                      const http::Request& request, const http::Call& call,
                      const std::shared_ptr<const void>& body, http::Responder responder) {
                    Effect effect;
                    try {
                      check_query(call, {});
                      effect = act(request, call, *static_cast<const Req*>(body.get()));
                    } catch (...) {
                      responder.answer(http::detail::answer_to(std::current_exception()));
                      return;
                    }
                    actions_.perform({request, call.actor, call.tenant, shared_from_this()},
                                     std::move(effect), std::move(responder), kept);
                  });
  acts_.insert(name);
  needs_[name] = needs;
}

}  // namespace semel::serve
