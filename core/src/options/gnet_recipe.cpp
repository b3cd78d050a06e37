#include <algorithm>
#include <cmath>
#include <cstring>

#include "artifact/sections/float_code.h"
#include "base/random.h"
#include "gbcompress/error.h"
#include "gbcompress/recipe.h"
#include "search/bracket_search.h"

namespace gbcompress {
namespace {

/// Width of an MLP's hidden layer: on lenet-300-100 at 20x, widths 7 to 12 with small tiles end 1
/// point above width 32 with large ones.
constexpr std::int64_t kSizedHidden = 12;

/// Of products, whose parameters begin near 1/2; those of MLPs begin near 0.1. Chosen on 5,000
/// training digits of MNIST, which were held out.
constexpr double kProductRate = 0.03, kProductDecay = 0.01;

/// Above it g-nets of integers with few bits are worth the search for lambda: 784-800-10 at 320x.
constexpr double kCodedRatio = 50;
/// Below it exact biases take a few percent of the file, and short floats alone make files 4x
/// smaller.
constexpr double kCodedPlainRatio = 6;

/// G-nets of integers are sized for log2 of this range bits per parameter: a rate weight from the
/// start of training leaves 3.5 to 5, and the bits that remain go to finer steps. Products bear
/// fewer bits.
constexpr std::int32_t kCodedRange = 24, kCodedProductRange = 14;
/// One in so many quantized weights is not zero: about a bit each, which training under the rate
/// reaches at a small quality drop.
constexpr std::uint32_t kQuantizedZeros = 4;

/// Values of -0.5 to 0.5.
std::vector<float> uniform(std::size_t count, const RandomStream& noise) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(noise.bits(i)) * 0x1p-32f - 0.5f;
  return values;
}

void add_gnets(ArtifactWriter& writer, const ParameterInfo& info, const GNetSpec& spec,
               Coding coding, const RandomStream& noise) {
  const auto count = static_cast<std::size_t>(spec_parameters(spec));
  if (coding == Coding::kCoded) {
    CodedTheta integers{std::vector<int>(gnet_blocks(spec).size()), {}};
    const std::int32_t range = is_product(spec.generator) ? kCodedProductRange : kCodedRange;
    for (std::size_t i = 0; i < count; ++i)
      integers.integers.push_back(
          static_cast<std::int32_t>(noise.bits(i) % static_cast<std::uint32_t>(range)) - range / 2);
    writer.add_generated_coded(info.name, info.dtype, info.shape, spec, std::move(integers));
    return;
  }
  writer.add_generated(info.name, info.dtype, info.shape, spec, coding, uniform(count, noise));
}

void add_integers(ArtifactWriter& writer, const ParameterInfo& info, const RandomStream& noise) {
  CodedValues integers{.grid = default_grid(info.shape)};
  for (std::int64_t i = 0; i < info.elements(); ++i) {
    const std::uint32_t bits = noise.bits(static_cast<std::uint64_t>(i));
    integers.integers.push_back(bits % kQuantizedZeros ? 0 : (bits & 0x10000 ? 1 : -1));
  }
  writer.add_coded(info.name, info.dtype, info.shape, std::move(integers));
}

void add_tensor(ArtifactWriter& writer, const SizedTensor& tensor, const GNetOptions& gnet,
                Coding coding, const RandomStream& noise) {
  const ParameterInfo& info = tensor.info;
  if (!tensor.tied_to.empty()) {
    writer.add_tied(info.name, tensor.tied_to);
    return;
  }
  if (const auto spec = tensor.spec ? tensor.spec(gnet) : std::nullopt) {
    add_gnets(writer, info, *spec, coding, noise);
    return;
  }
  if (tensor.quantized) {
    add_integers(writer, info, noise);
    return;
  }
  if (tensor.code_plain && short_floats(info, tensor.values)) {
    // Other values than the tensor's, which are no longer those when the file is written: every
    // rank makes the same specifications.
    const std::vector<float> values = uniform(tensor.values.size() / sizeof(float), noise);
    writer.add_coded(info.name, info.dtype, info.shape,
                     *short_floats(info, std::as_bytes(std::span(values))));
    return;
  }
  writer.add_plain(info.name, info.dtype, info.shape, tensor.values);
}

}  // namespace

GNetRecipe gnet_recipe(const GNetOptions& given, bool chooses, double target_ratio) {
  const GNetOptions usual;
  GNetRecipe recipe{.gnet = given};
  recipe.code_plain = target_ratio >= kCodedPlainRatio;
  if (target_ratio > kCodedRatio) recipe.coding = Coding::kCoded;
  if (chooses) recipe.gnet.generator = Generator::kLowRank;
  if (is_product(recipe.gnet.generator)) {
    if (given.rank == usual.rank) recipe.gnet.rank = 0;
    recipe.lr = kProductRate;
    recipe.weight_decay = kProductDecay;
  } else if (given.hidden == usual.hidden) {
    recipe.gnet.hidden = {kSizedHidden};
  }
  return recipe;
}

std::int64_t expected_bytes(const std::vector<SizedTensor>& tensors, const GNetOptions& gnet,
                            const SizedFile& file) {
  ArtifactWriter writer(file.arch, file.settings);
  const RandomStream noise(0, "planned_bytes");
  for (const SizedTensor& tensor : tensors) add_tensor(writer, tensor, gnet, file.coding, noise);
  return static_cast<std::int64_t>(writer.encode().size());
}

SizedGNets gnets_for_size(const std::vector<SizedTensor>& tensors, const GNetOptions& gnet,
                          const SizedFile& file, std::int64_t max_bytes) {
  SizedGNets sized{.gnet = gnet};
  const auto bytes_at = [&](double ratio) {
    sized.gnet.ratio = ratio;
    sized.expected_bytes = expected_bytes(tensors, sized.gnet, file);
    sized.fits = sized.expected_bytes <= max_bytes;
    return sized.expected_bytes;
  };
  // Weights per g-net parameter: from barely worth it to a g-net for a whole large layer. The size
  // falls with the ratio but for the small steps of the tile sides.
  const BracketState bracket{.holds = 1e6, .fails = 1.05};
  if (bytes_at(*bracket.holds) > max_bytes) return sized;
  if (bytes_at(*bracket.fails) <= max_bytes) return sized;
  BracketSearch search({.scale = Scale::kLog, .cuts = 24, .resolution = 1.001}, bracket);
  while (const auto ratio = search.next()) search.tried(*ratio, bytes_at(*ratio) <= max_bytes);
  bytes_at(*search.holds());
  return sized;
}

std::int64_t bytes_for_ratio(const std::vector<SizedTensor>& tensors, double ratio) {
  if (!(std::isfinite(ratio) && ratio > 1))
    throw Error(Errc::kUsage, "the target ratio must be a number above 1, got " +
                                  std::to_string(ratio) +
                                  "; 20 makes the file 20x smaller than the tensors");
  std::int64_t bytes = 0;
  for (const SizedTensor& tensor : tensors)
    if (tensor.tied_to.empty()) bytes += static_cast<std::int64_t>(tensor.values.size());
  return static_cast<std::int64_t>(static_cast<double>(bytes) / ratio);
}

std::optional<CodedValues> short_floats(const ParameterInfo& info,
                                        std::span<const std::byte> values) {
  if (info.dtype != DType::kF32 || info.shape.empty() || values.empty()) return std::nullopt;
  std::vector<float> numbers(values.size() / sizeof(float));
  std::memcpy(numbers.data(), values.data(), numbers.size() * sizeof(float));
  const bool finite =
      std::all_of(numbers.begin(), numbers.end(), [](float x) { return std::isfinite(x); });
  if (!finite || !fits_short_floats(numbers)) return std::nullopt;
  return float_coded(default_grid(info.shape), numbers, kPlainMantissaBits);
}

}  // namespace gbcompress
