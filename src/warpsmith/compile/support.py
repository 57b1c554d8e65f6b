"""Source text that Warpsmith adds to a build where the submission has none of its own."""

TAKE_ERROR_PATH = "warpsmith_take_error.cpp"

# The runtime is linked statically, so each library has its own: only code inside it sees its launch errors.
TAKE_ERROR = """\
#include <cuda_runtime_api.h>
#include <stdio.h>

extern "C" int warpsmith_take_error(char* message, unsigned long size) {
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) {
        snprintf(message, size, "%s: %s", cudaGetErrorName(error), cudaGetErrorString(error));
    }
    return static_cast<int>(error);
}
"""

SIM_RUNTIME_PATH = "warpsmith_sim_runtime.cpp"

# one copy of the simulator in each library, with its own `warpsmith_take_error`
SIM_RUNTIME = "#include <warpsmith_sim_exports.inc>\n"

REGISTRY_PATH = "binding_registry.h"

REGISTRY = """\
// Collects the functions that add bindings to the module `cuda_extension`.
//
//     static void bind_axpby(pybind11::module& m) { m.def("axpby", &axpby); }
//     REGISTER_BINDING(axpby, bind_axpby);
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

class __attribute__((visibility("hidden"))) BindingRegistry {
 public:
    using BindingFunction = std::function<void(pybind11::module&)>;

    static BindingRegistry& getInstance() {
        static BindingRegistry registry;
        return registry;
    }

    void registerBinding(const std::string& name, BindingFunction function) {
        entries_.emplace_back(name, std::move(function));
    }

    void applyBindings(pybind11::module& m) const {
        for (const auto& entry : entries_) {
            entry.second(m);
        }
    }

 private:
    BindingRegistry() = default;

    std::vector<std::pair<std::string, BindingFunction>> entries_;
};

struct __attribute__((visibility("hidden"))) BindingRegistrar {
    BindingRegistrar(const std::string& name, BindingRegistry::BindingFunction function) {
        BindingRegistry::getInstance().registerBinding(name, std::move(function));
    }
};

#define REGISTER_BINDING(name, func) \\
    static BindingRegistrar binding_registrar_##name(#name, [](pybind11::module& m) { func(m); })
"""

BINDING_PATH = "binding.cpp"

BINDING = """\
// The module `cuda_extension`: everything that REGISTER_BINDING registered.
#include "binding_registry.h"

PYBIND11_MODULE(cuda_extension, m) {
    BindingRegistry::getInstance().applyBindings(m);
}
"""
