#include "stored_bases.h"

#include <algorithm>

#include "table.h"

namespace gbcompress::cli {
namespace {

using nlohmann::ordered_json;
using Source = TensorPiece::Source;

bool is_of_base(const ArtifactTensor& tensor) {
  return tensor.kind == TensorKind::kBase || tensor.kind == TensorKind::kChange ||
         tensor.kind == TensorKind::kBlocks || tensor.on_base;
}

struct BaseUse {
  std::int64_t tensors = 0, bytes = 0;
};

std::vector<BaseUse> uses_of(const ArtifactReader& artifact) {
  std::vector<BaseUse> uses(artifact.bases().size());
  if (uses.empty()) return uses;  // an exact part refers to its draft
  for (const ArtifactTensor& tensor : artifact.tensors()) {
    std::vector<std::int64_t> elements(uses.size());
    if (is_of_base(tensor)) elements[tensor.base] = tensor_elements(tensor.shape);
    for (const TensorPiece& piece : tensor.pieces)
      if (piece.source == Source::kBase) elements[piece.base] += piece.elements;
    for (std::size_t i = 0; i < uses.size(); ++i) {
      uses[i].tensors += elements[i] > 0;
      uses[i].bytes += elements[i] * dtype_bits(tensor.dtype) / 8;
    }
  }
  return uses;
}

}  // namespace

ordered_json bases_json(const ArtifactReader& artifact, const std::vector<ChainLink>& chain) {
  ordered_json list = ordered_json::array();
  const std::vector<BaseUse> uses = uses_of(artifact);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::string& digest = artifact.bases()[i];
    const auto link = std::ranges::find(chain, digest, &ChainLink::digest);
    const bool found = link != chain.end() && !link->file.empty();
    list.push_back({{"digest", digest},
                    {"file", found ? ordered_json(link->file.string()) : ordered_json()},
                    {"tensors", uses[i].tensors},
                    {"element_bytes", uses[i].bytes}});
  }
  return list;
}

std::string bases_text(const ArtifactReader& artifact) {
  std::string text;
  const std::vector<BaseUse> uses = uses_of(artifact);
  for (std::size_t i = 0; i < uses.size(); ++i)
    text += "\nbase   " + artifact.bases()[i] + ", " + with_commas(uses[i].tensors) +
            (uses[i].tensors == 1 ? " tensor, " : " tensors, ") + with_commas(uses[i].bytes) +
            " bytes of elements";
  return text;
}

ordered_json sources_json(const ArtifactTensor& tensor) {
  ordered_json entry = ordered_json::object();
  if (is_of_base(tensor)) entry["base"] = tensor.base;
  for (const TensorPiece& piece : tensor.pieces) {
    ordered_json one = {{"elements", piece.elements}, {"stored_bytes", piece.stored}};
    if (piece.source == Source::kBase) {
      one["base"] = piece.base;
      one["tensor"] = piece.name.empty() ? tensor.name : piece.name;
    }
    if (piece.source != Source::kNone) {
      one["first"] = piece.first;
      one["changed"] = piece.changed;
    }
    entry["pieces"].push_back(std::move(one));
  }
  return entry;
}

std::string sources_text(const ArtifactReader& artifact, const ArtifactTensor& tensor) {
  if (is_of_base(tensor))
    return artifact.bases().size() > 1 ? "base " + std::to_string(tensor.base + 1) : "";
  if (tensor.pieces.empty()) return "";
  const auto found = std::ranges::count_if(
      tensor.pieces, [](const TensorPiece& piece) { return piece.source != Source::kNone; });
  return std::to_string(tensor.pieces.size()) +
         (tensor.pieces.size() == 1 ? " piece, " : " pieces, ") + std::to_string(found) +
         " found elsewhere";
}

}  // namespace gbcompress::cli
