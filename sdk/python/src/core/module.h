#pragma once
/// The parts of gbcompress._core. Arguments that Python's side checks are checked here only where
/// memory depends on them.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gbcompress::python {

namespace nb = nanobind;

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Input = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using InOut = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Output = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <typename T>
std::span<T> span_of(const nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>& array) {
  return {array.data(), array.size()};
}

/// A NumPy array that owns what was computed; not copied.
template <typename T, typename From>
Output<T> to_numpy(std::vector<From> values) {
  static_assert(sizeof(T) == sizeof(From));
  auto* kept = new std::vector<From>(std::move(values));
  const nb::capsule owner(kept,
                          [](void* p) noexcept { delete static_cast<std::vector<From>*>(p); });
  return Output<T>(reinterpret_cast<T*>(kept->data()), {kept->size()}, owner);
}

void bind_calibrate(nb::module_& module);
void bind_coded_gnets(nb::module_& module);
void bind_decoding(nb::module_& module);
void bind_errors(nb::module_& module);
void bind_files(nb::module_& module);
void bind_fixed_width(nb::module_& module);
void bind_gnets(nb::module_& module);
void bind_onnx(nb::module_& module);
void bind_search(nb::module_& module);
void bind_save(nb::module_& module);
void bind_writer(nb::module_& module);
void bind_rate(nb::module_& module);
void bind_step(nb::module_& module);
void bind_stream(nb::module_& module);

}  // namespace gbcompress::python
