#pragma once
/// What the g-nets of a tensor need of Python: names, kernels, memory of torch's.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/coded_values.h"
#include "module.h"
#include "optim/gnet_layer.h"

namespace gbcompress::python {

/// "fp32", "fp16", "int8" or "coded". @throws Error(kUsage) for another name
Coding coding_of(const std::string& name);

/// "fused" or "reference". @throws Error(kUsage) for another name
std::unique_ptr<TileKernel> kernel_of(const std::string& name, int threads);

inline TileLayout layout_of(bool tiles) { return tiles ? TileLayout::kTiles : TileLayout::kTensor; }

/// NOLINTNEXTLINE(performance-no-int-to-ptr): torch tells addresses as numbers
inline float* memory(std::uintptr_t address) { return reinterpret_cast<float*>(address); }

inline Output<float> copied(std::span<const float> values) {
  return to_numpy<float>(std::vector<float>(values.begin(), values.end()));
}

/// What the g-nets of a tensor do in a step, but for its end.
/// @tparam Gnets  GnetLayer or CodedGnets
template <typename Gnets>
void bind_calls(nb::class_<Gnets>& bound) {
  bound.def("floats", [](const Gnets& gnets, bool tiles) { return gnets.floats(layout_of(tiles)); })
      .def("theta", [](Gnets& gnets) { return copied(gnets.theta()); })
      .def("gradient", [](const Gnets& gnets) { return copied(gnets.gradient()); })
      .def("zero_grad", &Gnets::zero_grad)
      // An address of `floats` contiguous float32 values of the host.
      .def(
          "predict",
          [](Gnets& gnets, std::uintptr_t address, std::size_t floats, bool tiles,
             std::optional<std::uint64_t> noise, const std::string& kernel, int threads) {
            const nb::gil_scoped_release release;
            gnets.predict(*kernel_of(kernel, threads), {memory(address), floats}, layout_of(tiles),
                          noise);
          },
          nb::arg("address"), nb::arg("floats"), nb::arg("tiles"), nb::arg("noise").none(),
          nb::arg("kernel"), nb::arg("threads"))
      .def(
          "backward",
          [](Gnets& gnets, std::uintptr_t address, std::size_t floats, bool tiles, float factor,
             const std::string& kernel, int threads) {
            const nb::gil_scoped_release release;
            gnets.backward(*kernel_of(kernel, threads), {memory(address), floats}, layout_of(tiles),
                           factor);
          },
          nb::arg("address"), nb::arg("floats"), nb::arg("tiles"), nb::arg("factor"),
          nb::arg("kernel"), nb::arg("threads"));
}

}  // namespace gbcompress::python
