#include "format/onnx/open.h"

#include <algorithm>
#include <map>

#include "base/checked.h"
#include "format/container.h"
#include "format/onnx/affine.h"
#include "format/onnx/model.h"
#include "format/onnx/names.h"
#include "format/onnx/neighbors.h"
#include "format/onnx/roles.h"
#include "format/onnx/types.h"
#include "format/onnx/view.h"
#include "format/payload.h"
#include "format/tensor_bundle.h"

namespace gbcompress::onnx {
namespace {

/// What of a file goes into the bundle.
struct Taken {
  std::size_t tensor = 0;  ///< of the model
  Shown shown;
  std::string name;
  std::span<const std::byte> bytes;
  std::optional<Affine> affine = {};  ///< of elements that are integers in the file
};

class Opener {
 public:
  Opener(std::span<const std::byte> bytes, const std::string& label, const ExternalFile& external)
      : label_(label), model_(parse(bytes, label)), files_{{"", bytes}} {
    find_external(external);
  }

  TensorBundle run(bool requantize) {
    take();
    if (requantize) dequantize();
    if (taken_.empty())
      throw Error(Errc::kUnsupported,
                  label_ +
                      " holds no weights: no constant of its graphs has 16 bytes "
                      "or more; there is nothing to compress");
    name();
    TensorBundle bundle;
    for (const Taken& each : taken_)
      bundle.tensors.push_back({each.name, each.shown.dtype, each.shown.shape, each.bytes});
    share_equal(bundle);
    add_container(bundle);
    for (const auto& [location, bytes] : files_)
      bundle.file_bytes += static_cast<std::int64_t>(bytes.size());
    describe(bundle, requantize);
    return bundle;
  }

  TensorHints hints() {
    std::vector<TensorHint> roles = onnx::roles(model_);
    look_around(
        model_, weight_uses(model_), [&](const Tensor& tensor) { return payload(tensor); }, roles);
    take();
    name();
    TensorHints hints;
    for (const Taken& each : taken_) hints[each.name] = std::move(roles[each.tensor]);
    return hints;
  }

  GraphView view() {
    std::vector<WeightUse> uses = weight_uses(model_);
    take();
    name();
    std::vector<const Taken*> taken(model_.tensors.size());
    for (const Taken& each : taken_) taken[each.tensor] = &each;
    GraphView view;
    for (WeightUse& use : uses) {
      const Taken* const found = taken[use.tensor];
      auto path = path_to(model_, use.graph);
      if (!found || !path) continue;
      ViewedUse seen{.tensor = found->name,
                     .graph = std::move(*path),
                     .node = use.node,
                     .input = use.input,
                     .transposed = use.transposed,
                     .reshaped = use.reshaped,
                     .computed = use.computed,
                     .rows = use.rows,
                     .payload = {}};
      const Tensor& tensor = model_.tensors[use.tensor];
      if (tensor.file == 0 && tensor.encoding == PayloadEncoding::kBytes)
        seen.payload = *tensor.payload;
      view.push_back(std::move(seen));
    }
    return view;
  }

 private:
  struct File {
    std::string location;
    std::span<const std::byte> bytes;
  };

  void find_external(const ExternalFile& external) {
    std::map<std::string, std::size_t, std::less<>> known;
    for (Tensor& tensor : model_.tensors) {
      if (!tensor.external) continue;
      const std::string location = inner_path(tensor.external->location);
      const std::string what = label_ + ": tensor " + shown_name(tensor.own_name);
      const auto [at, fresh] = known.emplace(location, files_.size());
      if (fresh) {
        check_location(location, what);
        files_.push_back({location, external(location)});
      }
      tensor.file = at->second;
      const std::uint64_t size = files_[tensor.file].bytes.size();
      const std::uint64_t offset = tensor.external->offset;
      const std::uint64_t length = tensor.external->length.value_or(0);
      if (offset > size || length > size - offset)
        throw Error(Errc::kTruncated, what + " ends at byte " + std::to_string(offset + length) +
                                          " of " + shown_name(location) + ", which has " +
                                          std::to_string(size) + "; load that file again");
      if (tensor.external->whole) tensor.payload = Range{offset, length};
    }
  }

  /// A file that no container holds could not be written again.
  void check_location(const std::string& location, const std::string& what) const {
    const std::string has = what + " has its data in " + shown_name(location) + ", ";
    if (!stays_inside(location))
      throw Error(Errc::kUnsupported,
                  has + "which leaves the model's folder; move the data beside the model");
    if (!is_file_name(location))
      throw Error(Errc::kUnsupported,
                  has + "whose name is longer than 4096 bytes or no printable UTF-8; rename it");
    if (files_.size() >= kMaxContainerFiles)
      throw Error(Errc::kUnsupported, label_ + " has its data in more than " +
                                          std::to_string(kMaxContainerFiles - 1) +
                                          " files; save it with one file of external data");
  }

  std::span<const std::byte> payload(const Tensor& tensor) const {
    return files_[tensor.file].bytes.subspan(tensor.payload->offset, tensor.payload->size);
  }

  static bool is_large_enough(const Shown& shown, std::uint64_t elements_bytes) {
    return elements_bytes >= (is_real(shown.dtype) ? kLeastFloats : kLeastBytes);
  }

  /// Payloads that overlap others stay where they are, but for the first of those in one place.
  void take() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < model_.tensors.size(); ++i)
      if (model_.tensors[i].payload && model_.tensors[i].payload->size > 0) order.push_back(i);
    const auto place = [&](std::size_t i) {
      const Tensor& tensor = model_.tensors[i];
      return std::tuple(tensor.file, tensor.payload->offset, tensor.payload->size, i);
    };
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
    for (std::size_t first = 0; first < order.size();) {
      const Tensor& tensor = model_.tensors[order[first]];
      std::uint64_t end = tensor.payload->end();
      bool alike = true;
      std::size_t last = first + 1;
      for (; last < order.size(); ++last) {
        const Tensor& other = model_.tensors[order[last]];
        if (other.file != tensor.file || other.payload->offset >= end) break;
        alike = alike && *other.payload == *tensor.payload && other.type == tensor.type;
        end = std::max(end, other.payload->end());
      }
      if (alike) take_one(order[first]);
      first = last;
    }
  }

  void take_one(std::size_t index) {
    const Tensor& tensor = model_.tensors[index];
    Taken taken{index, shown_as(tensor), {}, payload(tensor)};
    if (tensor.encoding == PayloadEncoding::kVarint) {
      const auto elements = checked_elements(taken.shown.shape, "a tensor");
      auto bytes = from_varints(taken.bytes, taken.shown.dtype, elements);
      if (!bytes) return;
      auto owned = std::make_shared<std::vector<std::byte>>(std::move(*bytes));
      taken.bytes = *owned;
      owned_.push_back(std::move(owned));
    }
    if (is_large_enough(taken.shown, taken.bytes.size())) taken_.push_back(std::move(taken));
  }

  /// Integers that stand for real numbers become these.
  void dequantize() {
    const auto affine =
        affine_weights(model_, [&](const Tensor& tensor) { return payload(tensor); });
    for (Taken& each : taken_) {
      if (!affine[each.tensor] || model_.tensors[each.tensor].encoding != PayloadEncoding::kBytes)
        continue;
      auto values = from_affine(each.bytes, *affine[each.tensor]);
      if (!values) continue;
      auto owned = std::make_shared<std::vector<float>>(std::move(*values));
      each.shown.dtype = DType::kF32;
      each.bytes = std::as_bytes(std::span(*owned));
      each.affine = affine[each.tensor];
      owned_.push_back(std::move(owned));
    }
  }

  void name() {
    UniqueNames names;
    // The main graph's names stay as they are.
    std::stable_partition(taken_.begin(), taken_.end(), [&](const Taken& each) {
      const Graph& graph = model_.graphs[model_.tensors[each.tensor].graph];
      return !graph.parent && !graph.is_function;
    });
    for (Taken& each : taken_) each.name = names.take(model_, each.tensor);
    std::sort(taken_.begin(), taken_.end(),
              [](const Taken& a, const Taken& b) { return a.name < b.name; });
  }

  void add_container(TensorBundle& bundle) {
    const auto at = std::lower_bound(taken_.begin(), taken_.end(), kContainerName,
                                     [](const Taken& a, std::string_view b) { return a.name < b; });
    const auto place = static_cast<std::size_t>(at - taken_.begin());
    std::vector<std::vector<std::size_t>> of_files(files_.size());
    for (std::size_t i = 0; i < taken_.size(); ++i)
      of_files[model_.tensors[taken_[i].tensor].file].push_back(i);
    Container container{"onnx", {}};
    for (std::size_t file = 0; file < files_.size(); ++file)
      container.files.push_back(without_payloads(file, of_files[file], place));
    auto owned = std::make_shared<std::vector<std::byte>>(container.encode());
    TensorEntry entry{std::string(kContainerName),
                      DType::kU8,
                      {static_cast<std::int64_t>(owned->size())},
                      *owned};
    bundle.tensors.insert(bundle.tensors.begin() + static_cast<std::ptrdiff_t>(place),
                          std::move(entry));
    owned_.push_back(std::move(owned));
    bundle.owners.assign(owned_.begin(), owned_.end());
  }

  /// @param tensors    those of the file, indices of taken_
  /// @param container  the index of the container among the bundle's tensors
  ContainerFile without_payloads(std::size_t file, const std::vector<std::size_t>& tensors,
                                 std::size_t container) const {
    ContainerFile result{files_[file].location, {}, {}};
    std::vector<std::pair<std::uint64_t, std::size_t>> order;
    for (const std::size_t i : tensors)
      order.emplace_back(model_.tensors[taken_[i].tensor].payload->offset, i);
    std::sort(order.begin(), order.end());
    const auto bytes = files_[file].bytes;
    // Where places of the file lie in the skeleton.
    std::vector<std::pair<std::uint64_t, std::uint64_t>>
        removed;  // offset, bytes removed up to there
    std::uint64_t from = 0, gone = 0;
    for (const auto& [offset, i] : order) {
      const Tensor& tensor = model_.tensors[taken_[i].tensor];
      Hole hole{i < container ? i : i + 1, offset - from, tensor.encoding, {}};
      for (const std::uint64_t place : tensor.frames)
        hole.frames.push_back(place - gone_before(removed, place));
      if (taken_[i].affine) {
        hole.encoding = PayloadEncoding::kAffine;
        hole.affine = *taken_[i].affine;
      }
      result.holes.push_back(std::move(hole));
      append(result.skeleton, bytes.subspan(from, offset - from));
      from = tensor.payload->end();
      gone += tensor.payload->size;
      removed.emplace_back(offset, gone);
    }
    append(result.skeleton, bytes.subspan(from));
    return result;
  }

  static void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
    if (to.size() + bytes.size() > kMaxSkeleton)
      throw Error(Errc::kLimit, "a model has more than 4 GiB beside its tensors");
    to.insert(to.end(), bytes.begin(), bytes.end());
  }

  static std::uint64_t gone_before(
      const std::vector<std::pair<std::uint64_t, std::uint64_t>>& removed, std::uint64_t place) {
    const auto at =
        std::upper_bound(removed.begin(), removed.end(), std::pair(place, ~std::uint64_t{0}));
    return at == removed.begin() ? 0 : std::prev(at)->second;
  }

  void describe(TensorBundle& bundle, bool requantize) const {
    std::string opsets;
    for (const auto& [domain, version] : model_.opsets)
      opsets += (opsets.empty() ? "" : ", ") + (domain.empty() ? "ai.onnx" : domain) + " " +
                std::to_string(version);
    bundle.metadata["opset"] = opsets;
    bundle.metadata["IR version"] = std::to_string(model_.ir_version);
    if (!model_.producer.empty()) bundle.metadata["producer"] = model_.producer;
    if (const std::size_t kept = model_.tensors.size() - taken_.size(); kept > 0)
      bundle.metadata["constants in the graph"] = std::to_string(kept);
    const bool integers =
        std::any_of(model_.graphs.begin(), model_.graphs.end(), [](const Graph& graph) {
          return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
            return node.op == "DequantizeLinear" || node.op.starts_with("QLinear") ||
                   node.op.ends_with("Integer");
          });
        });
    std::int64_t whole = 0, all = 0;
    bool any = false;
    for (const Taken& each : taken_) {
      any = any || each.affine;
      all += static_cast<std::int64_t>(each.bytes.size());
      if (each.shown.dtype == DType::kI8 || each.shown.dtype == DType::kU8)
        whole += static_cast<std::int64_t>(each.bytes.size());
    }
    if (integers && 2 * whole > all)
      bundle.notes.push_back(
          "the weights are quantized integers, which are kept exact; the float model gives a "
          "smaller file of the same quality, and `requantize` compresses the real values that they "
          "stand for");
    if (requantize && !any)
      bundle.notes.push_back(
          "warning: `requantize` has no effect: no weights are integers with constant scales");
  }

  const std::string& label_;
  ModelFile model_;
  std::vector<File> files_;
  std::vector<Taken> taken_;
  std::vector<std::shared_ptr<const void>> owned_;
};

}  // namespace

TensorBundle read_model(std::span<const std::byte> bytes, const std::string& label,
                        const ExternalFile& external, bool requantize) {
  return Opener(bytes, label, external).run(requantize);
}

TensorHints read_hints(std::span<const std::byte> bytes, const std::string& label,
                       const ExternalFile& external) {
  return Opener(bytes, label, external).hints();
}

GraphView view_graph(std::span<const std::byte> bytes, const std::string& label,
                     const ExternalFile& external) {
  return Opener(bytes, label, external).view();
}

}  // namespace gbcompress::onnx
