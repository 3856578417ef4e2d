// What a proxy changes about the messages it passes on.
#pragma once

#include "http/answer_reader.hpp"
#include "http/origin.hpp"

#include <semel/detail/http_message.hpp>

#include <cstddef>
#include <optional>
#include <string>

namespace semel::http {

/// How the body of a forwarded request is framed.
struct ForwardedBody {
  std::optional<std::uint64_t> length{};
  bool is_chunked = false;
};

/// The head of `request` as it goes upstream. What belongs to the client's connection stays behind: hop-by-hop headers, those
/// that Connection names, Upgrade, Expect. `Host` is the client's; who the client is, is appended to X-Forwarded-For and
/// -Proto; Idempotency-Replayed is nobody's to send.
std::string forwarded_head(const Request& request, const Origin& origin, const ForwardedBody& body);

/// A GET of `origin` with the credentials of `request`: Authorization, Cookie, and `scope_header` where there is one.
std::string auth_check_head(const Request& request, const Origin& origin,
                            const std::string& scope_header);

/// An answer of the upstream without what belongs to its connection, and without a claim to be a replay.
Response passed_on(AnswerHead head);

}  // namespace semel::http
