// The header as it is written. What reads it is in header.cpp and parse_header.cpp, which libgbz
// (sdk/c) has as well.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "artifact/header/encode_spec.h"
#include "artifact/header/header.h"
#include "artifact/integers/integers.h"
#include "gbcompress/decode.h"

namespace gbcompress {
namespace {

using nlohmann::json;
using Layout = std::vector<LayoutEntry>;

/// The layout of the header's architecture, where it is that of the tensors.
std::optional<Layout> fitting_layout(const Header& header) {
  auto layout = arch_layout(header.arch);
  if (!layout || layout->size() != header.tensors.size()) return {};
  for (std::size_t i = 0; i < layout->size(); ++i)
    if ((*layout)[i].name != header.tensors[i].name ||
        (*layout)[i].shape != header.tensors[i].shape)
      return {};
  return layout;
}

/// The number that stands for a tensor of a known layout, or -1.
int short_entry(const ArtifactTensor& tensor, const LayoutEntry& known) {
  if (tensor.dtype != known.dtype) return -1;
  const bool common = !tensor.grid.wide && !tensor.nibbles && tensor.axis < 0 && !tensor.on_base &&
                      !tensor.levels.used();
  if (tensor.kind == TensorKind::kQuantized && has_default_grid(tensor) && common) {
    if (tensor.mantissa_bits > 0) return tensor.mantissa_bits == kUsualMantissa ? kShortFloats : -1;
    return (tensor.row_steps ? 1 : 0) + (tensor.grid.dependent ? 4 : 0);
  }
  if (tensor.kind == TensorKind::kConstant)
    for (int value : {0, 1})
      if (tensor.element == simple_element(tensor.dtype, value)) return 2 + value;
  return -1;
}

int usual_entry(const LayoutEntry& known) { return known.buffer ? 2 + known.initial : 0; }

std::uint64_t as_number(const std::vector<std::byte>& element) {
  std::uint64_t number = 0;
  std::memcpy(&number, element.data(), element.size());
  return number;
}

void add_packing(json& entry, Packing packing, std::int64_t stored) {
  if (packing == Packing::kZstd) entry["z"] = stored;
  if (packing == Packing::kShuffledZstd) entry["y"] = stored;
  if (packing == Packing::kPlanes) entry["f"] = stored;
  if (packing == Packing::kBlocks) entry["w"] = stored;
}

json piece_entry(const TensorPiece& piece) {
  json entry = {{"i", piece.elements}};
  if (piece.source == TensorPiece::Source::kNone) {
    add_packing(entry, piece.packing, piece.stored);
    return entry;
  }
  const bool of_base = piece.source == TensorPiece::Source::kBase;
  if (of_base) entry["b"] = piece.base + 1;
  if (!piece.name.empty()) entry["n"] = piece.name;
  if (!of_base || piece.first > 0) entry["a"] = piece.first;
  if (piece.changed) entry["e"] = piece.stored;
  return entry;
}

/// Of blocks that are made of a tensor of a base.
void add_source(json& entry, const ArtifactTensor& tensor, const SectionEntry& section) {
  const BlockSource& source = tensor.source;
  entry["w"] = section.stored;
  entry["q"] = tensor.block_type;
  entry["j"] = {std::ranges::find(kSourceTypes, source.dtype) - kSourceTypes.begin(), source.first};
  for (const std::int64_t side : source.shape) entry["j"].push_back(side);
  if (tensor.base > 0) entry["b"] = tensor.base + 1;
  if (source.name != tensor.name) entry["s"] = source.name;
}

/// The keys of a tensor that is not tied, but name, shape and type.
void add_content(json& entry, const ArtifactTensor& tensor, const SectionEntry& section) {
  add_packing(entry, section.packing, section.stored);
  if (section.packing == Packing::kBlocks) entry["q"] = tensor.block_type;
  if (tensor.kind == TensorKind::kBlocks) add_source(entry, tensor, section);
  if (has_spec(tensor.kind)) entry["g"] = encode_spec(tensor.spec, tensor.shape);
  if (tensor.kind == TensorKind::kGenerated && tensor.coding != Coding::kI8)
    entry["c"] = static_cast<int>(tensor.coding);
  if (has_values(tensor)) {
    entry["k"] = (tensor.row_steps ? 1 : 0) + (tensor.grid.dependent ? 2 : 0) +
                 (tensor.grid.wide ? kWide : 0) + (tensor.nibbles ? kNibbles : 0);
    if (tensor.axis >= 0) entry["x"] = tensor.axis;
    if (tensor.on_base) entry["b"] = tensor.base + 1;
    if (tensor.levels.palette > 0) entry["l"] = {tensor.levels.palette};
    if (tensor.levels.positions > 0) entry["l"] = {tensor.levels.positions, tensor.levels.stride};
    if (tensor.levels.block_rows > 0)
      entry["l"] = {tensor.levels.block_rows, tensor.levels.block_cols,
                    tensor.levels.negative_zero};
    if (tensor.mantissa_bits > 0) entry["m"] = tensor.mantissa_bits;
    if (!has_default_grid(tensor))
      entry["i"] = {tensor.grid.rows, tensor.grid.cols, tensor.grid.stride};
  }
  if (tensor.kind == TensorKind::kConstant) entry["v"] = as_number(tensor.element);
  if (tensor.kind == TensorKind::kBase) entry["b"] = tensor.base + 1;
  if (tensor.kind == TensorKind::kChange) {
    entry["e"] = section.stored;
    if (tensor.base > 0) entry["b"] = tensor.base + 1;
  }
  if (tensor.kind == TensorKind::kPieces)
    for (const TensorPiece& piece : tensor.pieces) entry["p"].push_back(piece_entry(piece));
}

json encode_entries(const Header& header, const std::optional<Layout>& layout) {
  json entries = json::array();
  std::unordered_map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < header.tensors.size(); ++i) index[header.tensors[i].name] = i;
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    const ArtifactTensor& tensor = header.tensors[i];
    if (layout) {
      if (const int number = short_entry(tensor, (*layout)[i]); number >= 0) {
        entries.push_back(number);
        continue;
      }
    }
    json entry = json::object();
    if (!layout) entry["n"] = tensor.name;
    if (tensor.kind == TensorKind::kTied) {
      entry["r"] = index.at(tensor.tied_to);
    } else {
      if (!layout) entry["h"] = tensor.shape;
      if (tensor.dtype != (layout ? (*layout)[i].dtype : DType::kF32))
        entry["d"] = dtype_name(tensor.dtype);
      add_content(entry, tensor, header.sections[i]);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

json section_sizes(const Header& header) {
  json sizes = json::array();
  for (std::size_t i = 0; i < header.tensors.size(); ++i)
    if (has_values(header.tensors[i]) || has_coded_theta(header.tensors[i]))
      sizes.push_back(header.sections[i].stored);
  return sizes;
}

/// What `t` would be if it were left out.
json usual_entries(const Layout& layout) {
  json entries = json::array();
  for (const LayoutEntry& known : layout) entries.push_back(usual_entry(known));
  return entries;
}

}  // namespace

std::vector<std::byte> encode_header(const Header& header) {
  json top = json::object(), steps = json::array();
  if (!header.arch.empty()) top["a"] = header.arch;
  if (!header.bases.empty()) top["b"] = header.bases;
  if (!header.digest.empty()) top["d"] = header.digest;
  if (header.originals.stored > 0)
    top["o"] = json::array({header.originals.stored, header.originals.raw});
  if (header.part != FilePart::kAll) top["p"] = static_cast<int>(header.part) - 1;
  if (!header.settings.empty()) top["s"] = header.settings;
  const std::optional<Layout> layout = fitting_layout(header);
  json entries = encode_entries(header, layout);
  if (!layout || entries != usual_entries(*layout)) top["t"] = std::move(entries);
  StepPredictor predictor;
  const auto add_step = [&](const ArtifactTensor* tensor, int step) {
    steps.push_back(step - predictor.expected(tensor));
    predictor.saw(tensor, step);
  };
  for (const ArtifactTensor& tensor : header.tensors) {
    if (has_coded_theta(tensor))
      for (int step : tensor.theta_steps) add_step(nullptr, step);
    if (has_values(tensor)) add_step(&tensor, tensor.step);
  }
  if (!steps.empty()) top["u"] = std::move(steps);
  if (header.head_bytes > 0) {
    json index = json::array({header.head_bytes});
    for (const std::int64_t size : header.stripes) index.push_back(size);
    top["w"] = std::move(index);
    if (header.any_small_section()) top["x"] = section_sizes(header);
  }
  const std::vector<std::uint8_t> cbor = json::to_cbor(top);
  const auto* bytes = reinterpret_cast<const std::byte*>(cbor.data());
  return {bytes, bytes + cbor.size()};
}

}  // namespace gbcompress
