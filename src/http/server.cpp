#include "http/server_core.hpp"

#include <semel/http.hpp>

namespace semel::http {

Server::Server(ServerOptions options)
    : core_(std::make_unique<detail::ServerCore>(std::move(options))) {}

Server::~Server() = default;

void Server::add(detail::Endpoint endpoint) { core_->add(std::move(endpoint)); }

void Server::start() { core_->start(); }

void Server::stop() { core_->stop(); }

std::uint16_t Server::port() const { return core_->port(); }

}  // namespace semel::http
