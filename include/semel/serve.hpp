// Your program is the server: the engine over HTTP (docs/serve.md), in the background of a program or as its main.
//
//   int main(int argc, char** argv) {
//     semel::App app;
//     app.add("process-order", process_order);
//     return app.main(argc, argv);  // your-program serve --store sqlite:orders.db
//   }
#pragma once

#include <semel/engine.hpp>
#include <semel/http.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace semel {

namespace http {

/// What each workspace may use of a server; 0: as much as it likes. Beyond it: 429 RATE_LIMITED, which says which limit.
struct WorkspaceLimits {
  double requests_per_second = 0;      ///< a second's worth at once; replays are free
  std::uint64_t active_runs_max = 0;   ///< pending, running or waiting, where one more is started
  std::uint64_t stored_bytes_max = 0;  ///< of inputs, outputs and journals, the same
};

/// Serves runs, hooks, keys and the rest, as `semel serve` does. Listens when it returns and stops when it is destroyed;
/// the engine outlives it. Who may ask is decided by the engine's API keys: `authenticate` and `authorise` are not looked
/// at. Throws Error: LISTEN_FAILED, or VALIDATION_ERROR where it would listen beyond this machine and there are no keys.
std::unique_ptr<Server> serve(semel::Engine& engine, ServerOptions options = {},
                              const WorkspaceLimits& workspace = {});

}  // namespace http

/// Workflows with semel's command line: `serve`, `runs`, `journal`, `doctor`, `proxy`, `bench`.
class App {
 public:
  /// As `Engine::add`.
  template <WorkflowFunction F>
  WorkflowRef<F> add(std::string name, F workflow, AddOptions options = {}) {
    WorkflowRef<F> reference{name};
    workflows_.emplace_back([name = std::move(name), workflow, options = std::move(options)](
                                Engine& engine) { engine.add(name, workflow, options); });
    return reference;
  }

  template <WorkflowFunction F, class C>
  WorkflowRef<F> add(std::string name, F workflow, C* object, AddOptions options = {}) {
    WorkflowRef<F> reference{name};
    workflows_.emplace_back(
        [name = std::move(name), workflow, object, options = std::move(options)](Engine& engine) {
          engine.add(name, workflow, object, options);
        });
    return reference;
  }

  /// The exit code: 0 all is well, 1 it is not, 2 the command was not understood. Never throws.
  int main(int count, char** arguments);

 private:
  std::vector<std::function<void(Engine&)>> workflows_;
};

}  // namespace semel
