#include "artifact/header.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "artifact/coding.h"
#include "base/byte_reader.h"
#include "base/checked.h"

namespace gbcompress {
namespace {

using nlohmann::json;

/// Appends the code's kind, and what it is described by.
void add_code(json& list, const AxisCode& code) {
  list.push_back(static_cast<int>(code.encoding));
  if (code.size != 0) list.push_back(code.size);
  if (code.encoding != Encoding::kPixel) return;
  list.push_back(code.sides.size());
  for (std::int64_t side : code.sides) list.push_back(side);
}

json encode_plan(const GNetPlan& plan, const std::vector<std::int64_t>& shape) {
  json entry = {{"i", plan.type_id}, {"m", {plan.tile_rows, plan.tile_cols}}};
  if (plan.type_revision != 1) entry["v"] = plan.type_revision;
  if (plan.shape != shape) entry["h"] = plan.shape;
  const MatrixView& view = plan.view;
  if (view != MatrixView{})
    entry["w"] = {view.row_dim, view.col_dim, view.row_splits, view.col_splits};
  const std::vector<AxisCode> usual(plan.kernel_codes.size(), Encoding::kOneHot);
  if (plan.row_code != AxisCode() || plan.col_code != AxisCode() || plan.kernel_codes != usual) {
    json& list = entry["e"] = json::array();
    add_code(list, plan.row_code);
    add_code(list, plan.col_code);
    for (const AxisCode& code : plan.kernel_codes) add_code(list, code);
  }
  if (plan.generator != Generator::kGNet) entry["k"] = static_cast<int>(plan.generator);
  if (is_product(plan.generator))
    entry["r"] = plan.rank;
  else if (plan.hidden != std::vector<std::int64_t>{32})
    entry["u"] = plan.hidden;
  if (plan.output_scale != 1) entry["s"] = plan.output_scale;
  return entry;
}

}  // namespace

Prelude read_prelude(std::span<const std::byte> file, const ArtifactLimits& limits,
                     const std::string& label) {
  const auto size = static_cast<std::int64_t>(file.size());
  const std::size_t n = std::min(file.size(), kMagic.size());
  if (!std::equal(kMagic.begin(), kMagic.begin() + static_cast<std::ptrdiff_t>(n),
                  reinterpret_cast<const char*>(file.data())))
    throw Error(Errc::kCorrupt, label + " is not a .gbz file");
  ByteReader reader(file, label);
  reader.take(kMagic.size());
  const auto version = reader.read<std::uint32_t>();
  if (version == 0) throw Error(Errc::kCorrupt, label + " has version 0, which does not exist");
  if (version > kArtifactVersion)
    throw Error(Errc::kUnsupported, label + " has version " + std::to_string(version) +
                                        ", this gbcompress reads up to " +
                                        std::to_string(kArtifactVersion) +
                                        "; upgrade gbcompress to read it");
  const auto declared = reader.read<std::uint64_t>();
  if (declared > static_cast<std::uint64_t>(size))
    throw Error(Errc::kTruncated, label + " has " + std::to_string(size) + " of its " +
                                      std::to_string(declared) + " bytes; copy it again");
  if (declared < static_cast<std::uint64_t>(size))
    throw Error(Errc::kCorrupt, label + " has bytes behind its end");
  if (size > limits.file_bytes)
    throw Error(Errc::kLimit, label + " has " + std::to_string(size) + " bytes, at most " +
                                  std::to_string(limits.file_bytes) + " are read");
  Prelude prelude;
  prelude.header_stored = reader.read<std::uint32_t>();
  prelude.header_raw = reader.read<std::uint32_t>();
  if (prelude.header_raw > limits.header_bytes)
    throw Error(Errc::kLimit, label + " declares a header of " +
                                  std::to_string(prelude.header_raw) + " bytes, at most " +
                                  std::to_string(limits.header_bytes) + " are read");
  if (prelude.header_stored > prelude.header_raw)
    throw Error(Errc::kCorrupt, label + " has a header that is larger packed than unpacked");
  if (prelude.header_stored > size - kPreludeBytes - kDigestBytes)
    throw Error(Errc::kCorrupt, label + " has a header that goes beyond its end");
  return prelude;
}

std::int64_t tensor_bytes(const std::vector<std::int64_t>& shape, DType dtype) {
  const std::int64_t bits =
      checked_mul(checked_elements(shape, "a tensor"), dtype_bits(dtype), "a tensor");
  if (bits % 8 != 0)
    throw Error(Errc::kCorrupt,
                "a tensor of " + std::string(dtype_name(dtype)) + " does not fill whole bytes");
  return bits / 8;
}

std::int64_t plane_bytes(const ArtifactTensor& tensor) {
  if (tensor.kind == TensorKind::kGenerated) return element_bytes(tensor.coding);
  return std::max(1, dtype_bits(tensor.dtype) / 8);
}

std::vector<std::byte> encode_header(const Header& header) {
  json entries = json::array();
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    const ArtifactTensor& tensor = header.tensors[i];
    const SectionEntry& section = header.sections[i];
    json entry = {{"n", tensor.name}};
    if (tensor.kind == TensorKind::kTied) {
      const auto target =
          std::find_if(header.tensors.begin(), header.tensors.end(),
                       [&](const ArtifactTensor& other) { return other.name == tensor.tied_to; });
      entry["r"] = target - header.tensors.begin();
      entries.push_back(std::move(entry));
      continue;
    }
    if (tensor.dtype != DType::kF32) entry["d"] = dtype_name(tensor.dtype);
    entry["h"] = tensor.shape;
    entry["x"] = section.xxh3;
    if (section.packing == Packing::kZstd) entry["z"] = section.stored;
    if (section.packing == Packing::kShuffledZstd) entry["y"] = section.stored;
    if (tensor.kind == TensorKind::kGenerated) {
      entry["g"] = encode_plan(tensor.plan, tensor.shape);
      if (tensor.coding != Coding::kI8) entry["c"] = static_cast<int>(tensor.coding);
    }
    entries.push_back(std::move(entry));
  }
  json top = {{"o", header.output_bytes}, {"t", std::move(entries)}};
  if (!header.arch.empty()) top["a"] = header.arch;
  if (!header.settings.empty()) top["s"] = header.settings;
  const std::vector<std::uint8_t> cbor = json::to_cbor(top);
  const auto* bytes = reinterpret_cast<const std::byte*>(cbor.data());
  return {bytes, bytes + cbor.size()};
}

}  // namespace gbcompress
