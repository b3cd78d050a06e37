#pragma once
/// The recipe of g-nets: which generator and sizes a target size gives, and how they are trained.
/// The C++ class, the Python class and the command line share it. No LibTorch.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/artifact.h"
#include "gbcompress/gnet.h"
#include "gbcompress/schedule.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// Of parameters without g-nets that a file holds as short floats: a relative error of at most
/// 1/32.
inline constexpr int kPlainMantissaBits = 4;

/// What g-nets are made of and trained with, but for their sizes.
struct GNetRecipe {
  GNetOptions gnet;
  double lr = 0.01;  ///< of the g-nets, AdamW
  double weight_decay = 0.1;
  Schedule schedule = Schedule::kOneCycle;  ///< a warm-up, then a cosine
  bool code_plain = false;                  ///< BottleneckOptions::code_plain: from 6x on
  /// kCoded at high ratios, where the rate is in the loss; C++ and Python classes keep theirs.
  Coding coding = Coding::kI8;
};

/// @param given   generator, widths, rank and codes that the user chose
/// @param chooses the user chose none of them: products of two matrices, whose rank the ratio sets.
///                Else the generator stands: MLPs get hidden layers of 12 where `given` has the
///                usual 32, products the rank of the ratio where it has the usual 8
/// @param target_ratio  bytes of the model over bytes of the file; 0: unknown
GNetRecipe gnet_recipe(const GNetOptions& given, bool chooses, double target_ratio);

/// A tensor of the model, for the size of its file.
struct SizedTensor {
  ParameterInfo info;
  std::string tied_to;      ///< as NamedParameter::tied_to
  bool quantized = false;   ///< integers, where it has no g-nets
  bool code_plain = false;  ///< short floats, where it has no g-nets and short_floats() allows it
  std::span<const std::byte> values;  ///< contiguous, of the type info.dtype; must stay
  /// Its specification under such options; nothing where it has no g-nets. May be empty.
  std::function<std::optional<GNetSpec>(const GNetOptions&)> spec;
};
/// What a file has beside its tensors, and how it stores g-nets.
struct SizedFile {
  Coding coding = Coding::kI8;
  std::string arch, settings;
};

/// Bytes that a file of these g-nets has if nothing of them packs any smaller: an upper bound
/// within a few bytes, found by writing a file of incompressible g-nets.
std::int64_t expected_bytes(const std::vector<SizedTensor>& tensors, const GNetOptions& gnet,
                            const SizedFile& file);

struct SizedGNets {
  GNetOptions gnet;  ///< with the ratio
  std::int64_t expected_bytes = 0;
  bool fits = true;  ///< false: this is the smallest file there is, and it is above the target
};
/// The largest g-nets whose file has at most `max_bytes`.
SizedGNets gnets_for_size(const std::vector<SizedTensor>& tensors, const GNetOptions& gnet,
                          const SizedFile& file, std::int64_t max_bytes);

/// The size that a ratio names: bytes of all tensors, tied ones once, over bytes of the file.
/// @throws Error(kUsage) for a ratio that is not above 1
std::int64_t bytes_for_ratio(const std::vector<SizedTensor>& tensors, double ratio);

/// A float32 parameter as floats of kPlainMantissaBits, which are entropy-coded; nothing for other
/// types, and for values that are not finite or all 0.
/// @param values  contiguous
std::optional<CodedValues> short_floats(const ParameterInfo& info,
                                        std::span<const std::byte> values);

}  // namespace gbcompress
