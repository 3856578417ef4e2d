#include "http/client_transport.hpp"

#include <semel/error.hpp>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

#include <mutex>

namespace semel::http {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace ssl = boost::asio::ssl;
using Tcp = asio::ip::tcp;
using boost::system::error_code;
using Message = beast::http::request<beast::http::string_body>;
using Answer = beast::http::response_parser<beast::http::string_body>;

/// A connection with an event loop of its own: whoever calls drives it, and so it can be timed.
class Wire {
 public:
  Wire(ssl::context* tls, const Origin& origin) {
    if (tls == nullptr) {
      plain_.emplace(io_);
    } else {
      secure_.emplace(io_, *tls);
      SSL_set_tlsext_host_name(secure_->native_handle(), origin.host.c_str());
      secure_->set_verify_callback(ssl::host_name_verification(origin.host));
    }
  }

  /// From now on until `timeout` has passed, whatever is done.
  void begin_attempt(std::chrono::nanoseconds timeout) { lowest().expires_after(timeout); }

  error_code connect(const Origin& origin) {
    error_code error;
    Tcp::resolver resolver(io_);
    const auto addresses = resolver.resolve(origin.host, origin.port, error);
    if (error) return error;
    lowest().async_connect(addresses,
                           [&](error_code outcome, const Tcp::endpoint&) { error = outcome; });
    run();
    if (!error) lowest().socket().set_option(Tcp::no_delay(true), error);
    if (error || !secure_) return error;
    secure_->async_handshake(ssl::stream_base::client,
                             [&](error_code outcome) { error = outcome; });
    run();
    return error;
  }

  error_code exchange(const Message& message, Answer& answer) {
    return secure_ ? exchange_over(*secure_, message, answer)
                   : exchange_over(*plain_, message, answer);
  }

  /// The head of an answer; its body follows by `read_part`.
  error_code ask(const Message& message, Answer& answer) {
    return secure_ ? ask_over(*secure_, message, answer) : ask_over(*plain_, message, answer);
  }

  error_code read_part(Answer& answer) {
    return secure_ ? read_part_over(*secure_, answer) : read_part_over(*plain_, answer);
  }

  /// Whether the server has left an idle connection alone. What it says unasked is a farewell.
  bool is_fresh() {
    error_code error;
    lowest().socket().non_blocking(true, error);
    char byte = 0;
    lowest().socket().receive(asio::buffer(&byte, 1), Tcp::socket::message_peek, error);
    return error == asio::error::would_block && buffer_.size() == 0;
  }

 private:
  template <class Stream>
  error_code exchange_over(Stream& stream, const Message& message, Answer& answer) {
    error_code error;
    beast::http::async_write(stream, message,
                             [&](error_code outcome, std::size_t) { error = outcome; });
    run();
    // A server may refuse before it has read everything: what it said counts for more than that it stopped reading.
    if (error == beast::error::timeout) return error;
    const error_code while_writing = error;
    beast::http::async_read(stream, buffer_, answer,
                            [&](error_code outcome, std::size_t) { error = outcome; });
    run();
    return error && while_writing ? while_writing : error;
  }

  template <class Stream>
  error_code ask_over(Stream& stream, const Message& message, Answer& answer) {
    error_code error;
    beast::http::async_write(stream, message,
                             [&](error_code outcome, std::size_t) { error = outcome; });
    run();
    if (error) return error;
    beast::http::async_read_header(stream, buffer_, answer,
                                   [&](error_code outcome, std::size_t) { error = outcome; });
    run();
    return error;
  }

  template <class Stream>
  error_code read_part_over(Stream& stream, Answer& answer) {
    error_code error;
    beast::http::async_read_some(stream, buffer_, answer,
                                 [&](error_code outcome, std::size_t) { error = outcome; });
    run();
    return error;
  }

  beast::tcp_stream& lowest() { return secure_ ? beast::get_lowest_layer(*secure_) : *plain_; }

  void run() {
    io_.restart();
    io_.run();
  }

  asio::io_context io_{1};
  std::optional<beast::tcp_stream> plain_;
  std::optional<beast::ssl_stream<beast::tcp_stream>> secure_;
  beast::flat_buffer buffer_;
};

class WireTransport final : public ClientTransport {
 public:
  WireTransport(Origin origin, TransportOptions options)
      : origin_(std::move(origin)), options_(std::move(options)) {
    if (!origin_.is_tls) return;
    tls_ = std::make_unique<ssl::context>(ssl::context::tls_client);
    tls_->set_options(ssl::context::default_workarounds | ssl::context::no_tlsv1 |
                      ssl::context::no_tlsv1_1);
    tls_->set_verify_mode(ssl::verify_peer);
    error_code error;
    if (options_.ca_file.empty()) {
      tls_->set_default_verify_paths(error);
    } else {
      tls_->load_verify_file(options_.ca_file, error);
    }
    if (error) throw Error("VALIDATION_ERROR", "cannot read the certificates to trust");
  }

  std::variant<Response, NoAnswer> exchange(const Outgoing& request,
                                            std::chrono::nanoseconds timeout,
                                            bool may_reuse) override {
    std::unique_ptr<Wire> wire = may_reuse ? take_idle() : nullptr;
    const bool is_new = wire == nullptr;
    if (is_new) wire = std::make_unique<Wire>(tls_.get(), origin_);
    wire->begin_attempt(timeout);
    if (is_new) {
      if (const error_code error = wire->connect(origin_))
        return NoAnswer{"cannot connect: " + error.message()};
    }
    Answer answer;
    answer.body_limit(options_.answer_bytes_max);
    // Its answer has the length of a body that never comes.
    if (request.method == "HEAD") answer.skip(true);
    if (const error_code error = wire->exchange(message_of(request), answer))
      return NoAnswer{error.message()};
    const bool stays = answer.get().keep_alive();
    Response response = response_of(answer.release());
    if (stays) keep(std::move(wire));
    return response;
  }

  std::variant<Response, NoAnswer> follow(
      const Outgoing& request, std::chrono::nanoseconds silence,
      const std::function<bool(std::string_view)>& part) override {
    Wire wire(tls_.get(), origin_);
    wire.begin_attempt(silence);
    if (const error_code error = wire.connect(origin_))
      return NoAnswer{"cannot connect: " + error.message()};
    Answer answer;
    answer.body_limit(boost::none);
    if (const error_code error = wire.ask(message_of(request), answer))
      return NoAnswer{error.message()};
    const bool is_for_part = answer.get().result_int() == 200;
    while (!answer.is_done()) {
      wire.begin_attempt(silence);
      const error_code error = wire.read_part(answer);
      std::string& body = answer.get().body();
      const bool goes_on = !is_for_part || body.empty() || part(body);
      if (is_for_part) body.clear();
      if (!goes_on) break;
      if (error) return NoAnswer{error.message()};
      if (body.size() > options_.answer_bytes_max) return NoAnswer{"the answer is too large"};
    }
    return response_of(answer.release());
  }

 private:
  Message message_of(const Outgoing& request) const {
    Message message;
    message.method_string(request.method);
    message.target(origin_.base + request.target);
    message.version(11);
    message.set(beast::http::field::host, origin_.authority);
    for (const Header& header : request.headers) message.insert(header.name, header.value);
    if (request.has_body) {
      message.body() = request.body;
      message.prepare_payload();
    }
    return message;
  }

  static Response response_of(beast::http::response<beast::http::string_body> answer) {
    Response response{static_cast<int>(answer.result_int()), {}, std::move(answer.body())};
    for (const auto& field : answer)
      response.headers.push_back({std::string(field.name_string()), std::string(field.value())});
    return response;
  }

  std::unique_ptr<Wire> take_idle() {
    for (;;) {
      std::unique_ptr<Wire> wire;
      {
        const std::lock_guard lock(mutex_);
        if (idle_.empty()) return nullptr;
        wire = std::move(idle_.back());
        idle_.pop_back();
      }
      if (wire->is_fresh()) return wire;
    }
  }

  void keep(std::unique_ptr<Wire> wire) {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < options_.idle_connections_max) idle_.push_back(std::move(wire));
  }

  const Origin origin_;
  const TransportOptions options_;
  std::unique_ptr<ssl::context> tls_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Wire>> idle_;  ///< the one used last at the end
};

}  // namespace

std::unique_ptr<ClientTransport> ClientTransport::open(Origin origin, TransportOptions options) {
  return std::make_unique<WireTransport>(std::move(origin), std::move(options));
}

}  // namespace semel::http
