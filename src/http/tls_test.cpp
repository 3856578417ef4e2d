// https, from a certificate made on the spot.
#include <semel/http.hpp>

#include <doctest/doctest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace semel::http {
namespace {

template <auto release>
struct Released {
  template <class T>
  void operator()(T* object) const {
    release(object);
  }
};

using Key = std::unique_ptr<EVP_PKEY, Released<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Released<X509_free>>;
using File = std::unique_ptr<std::FILE, Released<std::fclose>>;

/// A key and a certificate for 127.0.0.1 that vouches for itself, as files.
class SelfSigned {
 public:
  SelfSigned()
      : folder_(std::filesystem::temp_directory_path() /
                ("semel-tls-" + std::to_string(::getpid()) + "-" + std::to_string(made++))) {
    std::filesystem::create_directory(folder_);
    const Key key{EVP_EC_gen("P-256")};
    const Certificate certificate{X509_new()};
    X509_set_version(certificate.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
    X509_set_pubkey(certificate.get(), key.get());
    X509_NAME* name = X509_get_subject_name(certificate.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(certificate.get(), name);
    X509_EXTENSION* extension =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(certificate.get(), extension, -1);
    X509_EXTENSION_free(extension);
    X509_sign(certificate.get(), key.get(), EVP_sha256());

    const File certificate_out{std::fopen(certificate_file().c_str(), "w")};
    PEM_write_X509(certificate_out.get(), certificate.get());
    const File key_out{std::fopen(key_file().c_str(), "w")};
    PEM_write_PrivateKey(key_out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  }

  SelfSigned(const SelfSigned&) = delete;
  SelfSigned& operator=(const SelfSigned&) = delete;

  ~SelfSigned() { std::filesystem::remove_all(folder_); }

  std::string certificate_file() const { return (folder_ / "certificate.pem").string(); }

  std::string key_file() const { return (folder_ / "key.pem").string(); }

 private:
  static inline int made = 0;
  std::filesystem::path folder_;
};

const auto echo = put<std::string, std::string>("/echo");

ServerOptions with(const SelfSigned& identity) {
  ServerOptions options;
  options.certificate_file = identity.certificate_file();
  options.key_file = identity.key_file();
  return options;
}

TEST_CASE("a contract is served over https to those who trust its certificate") {
  const SelfSigned identity;
  Server server{with(identity)};
  server.handle(echo, [](const std::string& body, Call&) { return body; });
  server.start();
  const std::string url = "https://127.0.0.1:" + std::to_string(server.port());

  Client client{url, {.ca_file = identity.certificate_file()}};
  const std::string large(std::size_t{500} << 10U, 'x');
  for (int i = 0; i < 3; ++i) CHECK(client.call(echo, large, {.idempotency_key = "k"}) == large);

  const SelfSigned other;
  Client stranger{url, {.ca_file = other.certificate_file()}};
  CHECK_THROWS_AS(stranger.call(echo, "x"), Error);
  Client misled{"https://localhost:" + std::to_string(server.port()),
                {.ca_file = identity.certificate_file()}};
  CHECK_THROWS_AS(misled.call(echo, "x"), Error);
  Client unsafe{"http://127.0.0.1:" + std::to_string(server.port())};
  CHECK_THROWS_AS(unsafe.call(echo, "x"), Error);

  CHECK(client.call(echo, "still here") == "still here");
}

TEST_CASE("who sends too much is told so, over http and over https") {
  const SelfSigned identity;
  for (const bool is_secure : {false, true}) {
    CAPTURE(is_secure);
    Server server{is_secure ? with(identity) : ServerOptions{}};
    server.handle(echo, [](const std::string& body, Call&) { return body; });
    server.start();
    Client client{
        (is_secure ? "https://127.0.0.1:" : "http://127.0.0.1:") + std::to_string(server.port()),
        {.ca_file = identity.certificate_file()}};

    try {
      client.call(echo, std::string(std::size_t{8} << 20U, 'x'));
      FAIL("not thrown");
    } catch (const Error& error) {
      CHECK(error.code() == "PAYLOAD_TOO_LARGE");
    }
  }
}

TEST_CASE("a server does not start with a certificate or key that is not there or not its own") {
  const SelfSigned identity;
  const SelfSigned other;
  for (const auto& [certificate, key] : std::vector<std::pair<std::string, std::string>>{
           {identity.certificate_file(), ""},
           {"", identity.key_file()},
           {identity.key_file(), identity.key_file()},
           {identity.certificate_file(), other.key_file()},
           {"/nowhere", identity.key_file()}}) {
    CAPTURE(certificate);
    CAPTURE(key);
    ServerOptions options;
    options.certificate_file = certificate;
    options.key_file = key;
    Server server{options};
    CHECK_THROWS_AS(server.start(), Error);
  }
}

}  // namespace
}  // namespace semel::http
