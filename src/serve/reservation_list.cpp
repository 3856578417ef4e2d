#include "serve/reservation_list.hpp"

#include "http/problem.hpp"
#include "http/server_core.hpp"
#include "serve/action.hpp"
#include "serve/own_rows.hpp"
#include "serve/text.hpp"
#include "serve/view.hpp"

#include <boost/json.hpp>

#include <charconv>
#include <limits>
#include <vector>

namespace semel::serve {

namespace {

namespace json = boost::json;

/// There is no index by workspace: a commit under a key would cost one more page.
constexpr std::int64_t rows_at_once = 2000;

/// "5:actor=" and "3:ann;": the length, the text, and what ends it.
std::optional<std::string> take_part(std::string_view& text, char end) {
  std::size_t length = 0;
  const auto [colon, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  const auto at = static_cast<std::size_t>(colon - text.data());
  if (error != std::errc{} || at >= text.size() || text[at] != ':') return std::nullopt;
  if (length >= text.size() - at - 1 || text[at + 1 + length] != end) return std::nullopt;
  std::string part(text.substr(at + 1, length));
  text.remove_prefix(at + length + 2);
  return part;
}

std::string time_in(const sql::Value& value) {
  return time_text(TimePoint{std::chrono::duration_cast<TimePoint::duration>(
      std::chrono::nanoseconds{std::get<std::int64_t>(value)})});
}

json::object view_of(const sql::Row& row) {
  json::object scope;
  for (const auto& [name, part] : scope_parts(text_in(row, 5))) scope[name] = part;
  const std::int64_t state = std::get<std::int64_t>(row.values[1]);
  json::object item{{"namespace", text_in(row, 4)},
                    {"key", text_in(row, 6)},
                    {"scope", std::move(scope)},
                    {"state", word_of(static_cast<store::ReservationState>(state))},
                    {"fence", std::to_string(std::get<std::int64_t>(row.values[0]))}};
  if (static_cast<store::ReservationState>(state) == store::ReservationState::in_progress)
    item["leaseUntil"] = time_in(row.values[2]);
  item["expiresAt"] = time_in(row.values[3]);
  return item;
}

class List final : public store::Work {
 public:
  explicit List(ReservationQuery query) : query_(std::move(query)) {}

  std::string run(store::UnitOfWork& unit) override {
    page_ = {};
    json::array items;
    std::optional<std::int64_t> last;
    std::int64_t rows = 0;
    bool is_full = false;
    const auto now =
        std::chrono::duration_cast<std::chrono::nanoseconds>(unit.now().time_since_epoch()).count();
    unit.run_own(
        "SELECT r.fence, r.state, r.lease_until, r.expires_at, r.ns, r.scope, r.key, w.name"
        " FROM semel_reservation r CROSS JOIN semel_workspace w WHERE r.fence < ?1"
        " AND w.workspace = r.workspace ORDER BY r.fence DESC LIMIT ?2",
        std::vector<sql::Value>{query_.before.value_or(std::numeric_limits<std::int64_t>::max()),
                                rows_at_once},
        [&](const sql::Row& row) {
          if (is_full) return;
          ++rows;
          const bool is_wanted = text_in(row, 7) == query_.workspace &&
                                 std::get<std::int64_t>(row.values[3]) > now &&
                                 (!query_.ns || text_in(row, 4) == *query_.ns);
          if (is_wanted && items.size() == query_.limit) {
            is_full = true;
            return;
          }
          if (is_wanted) items.emplace_back(view_of(row));
          last = std::get<std::int64_t>(row.values[0]);
        });
    if (last && (is_full || rows == rows_at_once)) page_["nextCursor"] = cursor_text(*last);
    page_["items"] = std::move(items);
    return {};
  }

  const json::object& page() const { return page_; }

 private:
  const ReservationQuery query_;
  json::object page_;
};

}  // namespace

std::map<std::string, std::string> scope_parts(std::string_view text) {
  std::map<std::string, std::string> parts;
  while (!text.empty()) {
    auto name = take_part(text, '=');
    auto part = name ? take_part(text, ';') : std::nullopt;
    if (!part) return {};
    parts.emplace(*std::move(name), *std::move(part));
  }
  return parts;
}

void list_reservations(engine::Driver& driver, ReservationQuery query,
                       std::shared_ptr<http::Responder> client) {
  using Reply = std::variant<engine::TransactReply, engine::Refusal>;
  const auto work = std::make_shared<List>(std::move(query));
  const bool posted = driver.post([work, client](engine::Loop& loop, TimePoint now) {
    loop.transact(
        work,
        [work, client](const Reply& reply) {
          if (const auto* refusal = std::get_if<engine::Refusal>(&reply)) {
            client->answer(refused(*refusal));
          } else if (const auto& error = std::get<engine::TransactReply>(reply).error) {
            client->answer(http::detail::answer_to(error));
          } else {
            client->answer(json_answer(200, work->page()));
          }
        },
        now);
  });
  if (!posted) client->answer(http::problem("STORE_UNAVAILABLE", "the engine has stopped"));
}

}  // namespace semel::serve
