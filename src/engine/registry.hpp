// The workflows a program knows, by name and by function.
#pragma once

#include <semel/workflow.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>

namespace semel::engine {

/// Safe to use from any thread; entries are never removed, so pointers stay good.
class Registry {
 public:
  /// Throws Error "WORKFLOW_EXISTS" where the name is taken.
  void add(detail::WorkflowType type);

  /// Null if there is none.
  const detail::WorkflowType* find(std::string_view name) const;

  /// By name.
  std::vector<const detail::WorkflowType*> all() const;

  /// The name under which a function is registered. Throws WORKFLOW_NOT_FOUND if it is not, or under several names.
  std::string name_of(const std::string& function) const;

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::unique_ptr<detail::WorkflowType>, std::less<>> types_;
  std::map<std::string, std::set<std::string>> names_;
};

}  // namespace semel::engine
