// Frames of byte streams whose elements nobody names (docs/reference/checkpoints.md).
#include <nanobind/stl/string.h>

#include <algorithm>
#include <vector>

#include "artifact/sections/packing.h"
#include "artifact/sections/planes.h"
#include "gbcompress/error.h"
#include "module.h"

namespace gbcompress::python {
namespace {

/// Bytes that are packed to choose the element size of a frame; from its middle.
constexpr std::size_t kSample = std::size_t{1} << 16;
/// Multiple of every element size.
constexpr std::size_t kLargestElement = 8;

/// 2, 4 or 8: floats of that size pack smallest as planes; 1: zstd is smaller than all of them.
std::size_t element_size_of(std::span<const std::byte> frame) {
  if (frame.size() % kLargestElement != 0) return 1;
  const std::size_t count = std::min(frame.size(), kSample);
  const std::size_t first = (frame.size() - count) / 2 / kLargestElement * kLargestElement;
  const auto sample = frame.subspan(first, count);
  std::size_t best = 1, least = compress_fast(sample).size();
  for (const std::size_t size : {2u, 4u, 8u}) {
    const std::size_t packed = pack_planes(sample, size).size();
    if (packed < least) best = size, least = packed;
  }
  return best;
}

/// @return packing, element size in bytes, packed bytes: at most as many as the frame has
nb::tuple pack_frame(const Bytes& frame) {
  const auto raw = std::as_bytes(span_of(frame));
  std::size_t size = 1;
  auto packing = Packing::kRaw;
  std::vector<std::byte> packed;
  {
    const nb::gil_scoped_release release;
    size = element_size_of(raw);
    packing = size > 1 ? Packing::kPlanes : Packing::kZstd;
    packed = size > 1 ? pack_planes(raw, size) : compress_fast(raw);
    if (packed.size() >= raw.size()) {
      packing = Packing::kRaw;
      packed.assign(raw.begin(), raw.end());
    }
  }
  return nb::make_tuple(static_cast<int>(packing), static_cast<int>(size),
                        to_numpy<std::uint8_t>(std::move(packed)));
}

/// @param raw_bytes  of the frame; the caller has bounded it
Output<std::uint8_t> unpack_frame(const Bytes& stored, int packing, std::int64_t raw_bytes,
                                  std::int64_t element_bytes, const std::string& label) {
  const bool planes = packing == static_cast<int>(Packing::kPlanes);
  if ((packing != static_cast<int>(Packing::kRaw) && packing != static_cast<int>(Packing::kZstd) &&
       !planes) ||
      (planes && (element_bytes < 2 || element_bytes > 8 || (element_bytes & (element_bytes - 1)) ||
                  raw_bytes % element_bytes != 0)))
    throw Error(Errc::kUnsupported,
                label + " has a packing that is unknown; upgrade gbcompress to read it");
  std::vector<std::byte> raw;
  {
    const nb::gil_scoped_release release;
    raw = unpack(std::as_bytes(span_of(stored)), static_cast<Packing>(packing), raw_bytes,
                 element_bytes, label);
  }
  return to_numpy<std::uint8_t>(std::move(raw));
}

}  // namespace

void bind_stream(nb::module_& module) {
  module.def("pack_frame", &pack_frame, nb::arg("frame"));
  module.def("unpack_frame", &unpack_frame, nb::arg("stored"), nb::arg("packing"),
             nb::arg("raw_bytes"), nb::arg("element_bytes"), nb::arg("label"));
}

}  // namespace gbcompress::python
