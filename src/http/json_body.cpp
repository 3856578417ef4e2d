#include "http/json_body.hpp"

#include "http/characters.hpp"
#include "http/problem.hpp"

namespace semel::http {

bool is_json(std::string_view content_type) {
  const std::string_view media = trimmed(content_type.substr(0, content_type.find(';')));
  constexpr std::string_view application = "application/";
  constexpr std::string_view suffix = "+json";
  if (media.size() <= application.size() ||
      !same_name(media.substr(0, application.size()), application))
    return false;
  return same_name(media.substr(application.size()), "json") ||
         (media.size() > application.size() + suffix.size() &&
          same_name(media.substr(media.size() - suffix.size()), suffix));
}

std::optional<Response> refuse_media(const Request& request) {
  const auto encoding = request.header("content-encoding");
  if (encoding && !encoding->empty() && !same_name(*encoding, "identity")) {
    return problem("UNSUPPORTED_MEDIA_TYPE", "this Content-Encoding is not understood");
  }
  const auto type = request.header("content-type");
  if (type ? !is_json(*type) : !request.body.empty()) {
    return problem("UNSUPPORTED_MEDIA_TYPE", "the Content-Type must be application/json");
  }
  return std::nullopt;
}

Response refuse_body(std::string_view text, const value::Misfit& misfit) {
  // Whether it is JSON at all comes before whether it is the right one.
  value::Reader reader{text, value::Mode::boundary};
  Json ignored;
  if (!reader.json(ignored) || !reader.finish()) {
    const value::Misfit fault = reader.misfit();
    if (fault.message.starts_with("nested too deeply"))
      return problem("PAYLOAD_TOO_LARGE", "the JSON is nested too deeply");
    return problem("MALFORMED", fault.message, {{"field", fault.path}});
  }
  return problem("VALIDATION_ERROR",
                 (misfit.path.empty() ? "/" : misfit.path) + ": " + misfit.message,
                 {{"field", misfit.path}});
}

}  // namespace semel::http
