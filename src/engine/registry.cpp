#include "engine/registry.hpp"

namespace semel::engine {

void Registry::add(detail::WorkflowType type) {
  if (type.name.empty() || type.name.size() > 255) {
    throw Error("VALIDATION_ERROR", "a workflow's name has 1 to 255 bytes");
  }
  const std::unique_lock lock(mutex_);
  if (types_.contains(type.name)) {
    throw Error("WORKFLOW_EXISTS", "a workflow named \"" + type.name + "\" is registered already");
  }
  names_[type.function].insert(type.name);
  const std::string name = type.name;
  types_.emplace(name, std::make_unique<detail::WorkflowType>(std::move(type)));
}

const detail::WorkflowType* Registry::find(std::string_view name) const {
  const std::shared_lock lock(mutex_);
  const auto found = types_.find(name);
  return found == types_.end() ? nullptr : found->second.get();
}

std::vector<const detail::WorkflowType*> Registry::all() const {
  const std::shared_lock lock(mutex_);
  std::vector<const detail::WorkflowType*> types;
  types.reserve(types_.size());
  for (const auto& [name, type] : types_) types.push_back(type.get());
  return types;
}

std::string Registry::name_of(const std::string& function) const {
  const std::shared_lock lock(mutex_);
  const auto found = names_.find(function);
  if (found == names_.end()) {
    throw Error("WORKFLOW_NOT_FOUND",
                "this workflow function is not registered: call add() with it first");
  }
  if (found->second.size() > 1) {
    throw Error("WORKFLOW_NOT_FOUND",
                "this workflow function is registered under several names: use the WorkflowRef "
                "that add() returned");
  }
  return *found->second.begin();
}

}  // namespace semel::engine
