#include "store/answering.hpp"

namespace semel::store {

namespace {

struct ReadsOnly {
  bool operator()(const LoadRun&) const { return true; }

  bool operator()(const ReadInbox&) const { return true; }

  bool operator()(const FindDue&) const { return true; }

  bool operator()(const FindWork&) const { return true; }

  bool operator()(const FindRun&) const { return true; }

  bool operator()(const FindReservation&) const { return true; }

  bool operator()(const FindEnded&) const { return true; }

  template <class Writing>
  bool operator()(const Writing&) const {
    return false;
  }
};

}  // namespace

bool writes(const Command& command) { return !std::visit(ReadsOnly{}, command); }

}  // namespace semel::store
