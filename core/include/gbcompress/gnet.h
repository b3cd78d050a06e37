#pragma once
/// Specifications of g-nets, and banks: the g-nets of one shape, which are computed together. No
/// LibTorch.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/position_code.h"
#include "gbcompress/tensors.h"
#include "gbcompress/tile_grid.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

// Plain data: how a layer type generates one parameter. A specification is stored in the artifact,
// so that a file can be inspected without any plugin.

/// What a layer type gets of a parameter.
struct ParameterInfo {
  std::string name;         ///< full name, "layer1.0.conv1.weight"
  std::string local_name;   ///< inside its module, "weight"
  std::string module_path;  ///< "layer1.0.conv1"
  std::string module_type;  ///< "Conv2d": namespace and "Impl" removed; "" where unknown
  std::vector<std::int64_t> shape;
  DType dtype = DType::kF32;
  double std = 0;  ///< standard deviation (n - 1) of the initial values; 0 below 2 values

  std::int64_t elements() const noexcept;
};

/// How a tile is made. Kinds other than kGNet are chosen by settings; layer types need not know.
enum class Generator : std::uint8_t {
  kGNet,        ///< MLP, position code -> hidden... -> weight
  kStochastic,  ///< MLP with two outputs, mean and log of the deviation: training draws
                ///< mean + exp(log deviation) * normal, expansion takes the mean
  kLowRank,     ///< A B^T, A [rows, rank], B [cols * kernel, rank]
  kXox,         ///< X_out O X_in^T, X_out [rows, rank], O [rank, rank], X_in [cols * kernel, rank]
};
std::string_view generator_name(Generator generator) noexcept;  ///< "gnet", "low_rank", ...
/// True for kinds that multiply matrices instead of running an MLP over position codes.
constexpr bool is_product(Generator generator) noexcept {
  return generator == Generator::kLowRank || generator == Generator::kXox;
}

/// The user's options for a layer type, which chooses unset values. Options that a generator does
/// not use (codes and widths of a product, the rank of a g-net) have no effect.
struct GNetOptions {
  /// Weights of one tile, at least 1. torchGB's default.
  std::int64_t tile_weights = 10'000;
  /// Weights per g-net parameter, > 0. When set it replaces tile_weights: the tile side is solved
  /// from the exact parameter count of the g-net.
  std::optional<double> ratio;
  /// Widths of the hidden layers, each 1 to 65,536, 1 to 8 layers.
  std::vector<std::int64_t> hidden = {32};
  /// A pixel code makes tiles as long as its axis.
  std::optional<AxisCode> row_code, col_code;
  Generator generator = Generator::kGNet;
  /// Of kLowRank and kXox, 1 to 65,536. 0: whole matrices are tiles, and `ratio` sets the rank, to
  /// 128 / ratio in a matrix of 256 x 256; it changes with the fourth root of the shorter side.
  std::int64_t rank = 8;
};

/// How one parameter is generated.
struct GNetSpec {
  std::string type_id;              ///< set by the host: "linear", "conv", ...
  std::uint32_t type_revision = 1;  ///< set by the host
  /// Shape of what the tiles form together: the parameter's own, unless the layer type builds the
  /// parameter from something else (half of a symmetric matrix, say).
  std::vector<std::int64_t> shape;
  MatrixView view;
  std::int64_t tile_rows = 1;
  std::int64_t tile_cols = 1;
  AxisCode row_code, col_code;
  std::vector<AxisCode> kernel_codes;       ///< one for each kernel dimension; not trained ones
  std::vector<std::int64_t> hidden = {32};  ///< empty for kLowRank and kXox, which use no codes
  /// The g-net's output is multiplied by this: 2 * std of the initial weights in torchGB.
  float output_scale = 1;
  Generator generator = Generator::kGNet;
  std::int64_t rank = 0;  ///< kLowRank and kXox: at least 1; otherwise 0

  TileGrid grid() const { return TileGrid(shape, view, tile_rows, tile_cols); }
  bool operator==(const GNetSpec&) const = default;
};

/// Checks every bound of a specification, of whatever origin: ranks, sides, widths, codes, scale,
/// at most 2^20 inputs and 2^28 parameters a g-net.
/// @throws Error(kShapeMismatch) or Error(kLimit) with a sentence that names the field
void validate(const GNetSpec& spec);

/// "14-32-1", "14-32-2 stochastic", "low_rank 8": what makes one tile.
std::string generator_text(const GNetSpec& spec);
/// Inputs of each g-net: the widths of the row, column and kernel codes together; 0 for products.
std::int64_t gnet_inputs(const GNetSpec& spec);
/// Outputs of each g-net: 2 where it is stochastic, else 1.
constexpr std::int64_t gnet_outputs(Generator generator) noexcept {
  return generator == Generator::kStochastic ? 2 : 1;
}

/// Numbers of one kind inside the parameters of a g-net.
struct ParameterBlock {
  enum class Kind : std::uint8_t { kWeight, kBias, kLatent, kFactor };
  Kind kind;
  std::int64_t first, count;
};
/// The parameters of ONE g-net, in order and without gaps. MLPs: weight [outputs, inputs] row-major
/// and bias [outputs] of each layer, then trained codes [positions, size] of the rows, then of the
/// columns. Products: their matrices, row-major, as Generator lists them.
std::vector<ParameterBlock> gnet_blocks(const GNetSpec& spec);
/// Exact parameter count of ONE g-net.
std::int64_t gnet_parameters(const GNetSpec& spec);
/// Parameters of all g-nets of the specification: tiles * gnet_parameters.
std::int64_t spec_parameters(const GNetSpec& spec);

/// The common way to fill a specification: the output scale 2 * std, the tile side from
/// tile_weights (ceil(sqrt(tile_weights / kernel)), never beyond the matrix) or solved from
/// `ratio`, codes as set, else binary for rows and columns and one-hot for kernel axes.
/// @throws Error(kUsage) on options out of range
GNetSpec make_spec(const ParameterInfo& parameter, const MatrixView& view,
                   const GNetOptions& options);

// Banks: the g-nets of one shape, which are computed together; and the GPU that may compute them.

/// Everything that the g-nets of one bank have in common. gnet_blocks() says how the parameters of
/// one g-net lie; the first layer's inputs are row code, column code, kernel code.
struct BankShape {
  Generator generator = Generator::kGNet;
  TileCodes codes;  ///< of MLPs
  std::int64_t tile_rows = 1;
  std::int64_t tile_cols = 1;
  std::int64_t kernel = 1;
  std::vector<std::int64_t> hidden;
  std::int64_t rank = 0;
  std::vector<ParameterBlock> blocks;

  std::int64_t positions() const noexcept { return tile_rows * tile_cols * kernel; }
  std::int64_t parameters() const noexcept {  ///< of one g-net
    return blocks.back().first + blocks.back().count;
  }
  bool has_latents() const noexcept { return codes.rows.trained || codes.cols.trained; }
  std::int64_t row_latents() const noexcept;  ///< their offset, if rows are trained
  std::int64_t col_latents() const noexcept;

  /// One fully connected layer inside a g-net's parameters.
  struct Layer {
    std::int64_t inputs, outputs;
    std::int64_t weight;  ///< offset of weight [outputs, inputs]
    std::int64_t bias;    ///< offset of bias [outputs]
  };
  /// Hidden layers in order, then the output layer. MLPs only.
  std::vector<Layer> layers() const;
};

/// @throws as validate(spec)
BankShape bank_shape(const GNetSpec& spec);

/// What this machine has for g-nets on a GPU, in words.
struct CudaStatus {
  std::string module;   ///< "0.2.0, nvcc 13.0 for sm_80, sm_90, FILE"; empty: there is none
  std::string problem;  ///< the module is there and cannot be used
  std::vector<std::string> gpus;  ///< "NVIDIA H200, sm_90, 139 GiB"
  std::string no_gpu;             ///< why `gpus` is empty
};
CudaStatus cuda_status(const std::filesystem::path& module = {});

}  // namespace gbcompress
