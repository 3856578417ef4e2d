// Commands and answers as text: compared by the differential test, read by whoever looks into a failure.
#pragma once

#include "store/answer.hpp"
#include "store/command.hpp"

#include <string>

namespace semel::store {

std::string describe(const RunRecord& record);
std::string describe(const InboxItem& item);
std::string describe(const PayloadItem& item);
std::string describe(const Timer& timer);
std::string describe(const Answer& answer);
/// Without what is the same in all commands the tests make.
std::string describe(const Command& command);
std::string describe_entry(const std::string& bytes);

}  // namespace semel::store
