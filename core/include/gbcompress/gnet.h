#pragma once
/// What g-nets are made from: tiles of a tensor, position codes, plans, banks. Plain data,
/// LibTorch-free.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

// How one parameter is seen as matrices, and how a matrix is cut into tiles.

/// Which dimensions of a tensor are the rows (outputs) and columns (inputs) of its matrix. All
/// other dimensions are kernel positions, and they must come last in memory.
///   linear [out, in]          rows 0, cols 1
///   conv [out, in, k...]      rows 0, cols 1      transposed conv [in, out, k...]  rows 1, cols 0
///   in_proj [3E, E]           rows 0, cols 1, row_splits 3: three matrices, each with its own
///   tiles a vector [n]              rows 0, cols -1
struct MatrixView {
  int row_dim = 0;
  int col_dim = 1;              ///< -1: the tensor has no column dimension
  std::int64_t row_splits = 1;  ///< the row dimension holds this many matrices, one after another
  std::int64_t col_splits = 1;

  bool operator==(const MatrixView&) const = default;
};

/// Where one tile lies in the contiguous tensor, in elements. Positions (i, j, k) of the tile map
/// to `offset + i * row_stride + j * col_stride + k`, for i < rows, j < cols, k < kernel.
struct TileExtent {
  std::int64_t offset = 0;
  std::int64_t row_stride = 0;
  std::int64_t col_stride = 0;
  std::int64_t rows = 0;  ///< rows that exist: the last tile of a matrix may be cropped
  std::int64_t cols = 0;
};

/// The exact partition of a tensor into equal tiles, the last ones cropped.
/// Tiles are numbered matrix by matrix (row splits outer, column splits inner), then by rows of
/// tiles, then by columns of tiles.
class TileGrid {
 public:
  /// @param shape  1 to 8 dimensions, each >= 1, product below 2^62
  /// @param tile_rows, tile_cols  1 <= side <= the matrix's own side
  /// @throws Error(kShapeMismatch) where view, shape and tile sides do not fit together
  TileGrid(std::vector<std::int64_t> shape, MatrixView view, std::int64_t tile_rows,
           std::int64_t tile_cols);

  const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  std::int64_t rows() const noexcept { return rows_; }      ///< of one matrix
  std::int64_t cols() const noexcept { return cols_; }      ///< of one matrix
  std::int64_t kernel() const noexcept { return kernel_; }  ///< kernel positions, at least 1
  std::int64_t tile_rows() const noexcept { return tile_rows_; }
  std::int64_t tile_cols() const noexcept { return tile_cols_; }
  std::int64_t tiles() const noexcept { return matrices_ * grid_rows_ * grid_cols_; }
  /// Positions of one uncropped tile: tile_rows * tile_cols * kernel.
  std::int64_t positions() const noexcept { return tile_rows_ * tile_cols_ * kernel_; }
  std::int64_t elements() const noexcept { return elements_; }
  TileExtent extent(std::int64_t tile) const;

 private:
  std::vector<std::int64_t> shape_;
  MatrixView view_;
  std::int64_t rows_, cols_, kernel_, tile_rows_, tile_cols_;
  std::int64_t matrices_, grid_rows_, grid_cols_, elements_;
  std::int64_t row_stride_, col_stride_;
};

/// The matrix a view makes of a shape. @throws Error(kShapeMismatch)
struct MatrixSides {
  std::int64_t rows = 0, cols = 0, kernel = 0;
  std::vector<std::int64_t> kernel_dims;
};
MatrixSides matrix_sides(const std::vector<std::int64_t>& shape, const MatrixView& view);

/// Copies a tensor into tiles [tiles, tile_rows, tile_cols, kernel]; cropped positions become 0.
void disassemble(const TileGrid& grid, const float* tensor, float* tiles);
/// The exact inverse: copies tiles into the tensor, cropped positions dropped.
void assemble(const TileGrid& grid, const float* tiles, float* tensor);

// Position codes: the inputs of a g-net for a weight's position in its tile.

enum class Encoding : std::uint8_t {
  kBinary,   ///< max(1, ceil(log2 n)) bits, most significant first
  kGray,     ///< the same width; neighbors differ in one bit
  kOneHot,   ///< n inputs
  kFourier,  ///< `size` pairs of sine and cosine, 1 to `size` periods along the axis
  kPixel,    ///< the axis is an image of `sides`; `size` cosines of each coordinate
  kLatent,   ///< `size` numbers of each position, trained with the g-net and part of it
};
std::string_view encoding_name(Encoding encoding) noexcept;  ///< "binary", "one_hot", "latent", ...

/// The code of one axis.
struct AxisCode {
  Encoding encoding = Encoding::kBinary;
  std::int64_t size = 0;            ///< kFourier, kPixel, kLatent: 1 to 1024; otherwise 0
  std::vector<std::int64_t> sides;  ///< kPixel: 1 to 8 sides in memory order; otherwise empty

  AxisCode() = default;
  AxisCode(Encoding e, std::int64_t n = 0,
           std::vector<std::int64_t> image = {})  // NOLINT: implicit
      : encoding(e), size(n), sides(std::move(image)) {}
  bool operator==(const AxisCode&) const = default;
};

/// As the configuration writes it: "gray", "fourier:4", "pixel:28x28:6", "latent:3".
std::string code_text(const AxisCode& code);
/// Nothing where the text is not a code. A size may be left out: fourier 4, pixel 4, latent 2.
std::optional<AxisCode> parse_code(std::string_view text);

/// Inputs that an axis of n positions needs.
/// @throws Error(kUsage) when n < 1, when the sizes are out of range, or when the sides of an image
///         do not multiply to n
std::int64_t code_width(const AxisCode& code, std::int64_t n);

/// Row-major table [count, width] of one axis (or of all kernel axes together). Trained codes have
/// no values here: they are parameters of each g-net.
struct CodeTable {
  std::int64_t count = 1;
  std::int64_t width = 0;
  bool trained = false;
  std::vector<float> values;
};

/// Codes 0 and 1, not normalized; waves with mean 0 and mean square 1 along the axis: sqrt(2) times
/// cos or sin, computed in double in one fixed way (artifact-format.md), rounded once.
/// @throws Error(kLimit) above 2^28 values, Error(kUsage) as code_width
CodeTable encode_axis(const AxisCode& code, std::int64_t n);

/// The codes of a whole tile. The input of position (i, j, k) is the concatenation of row i, column
/// j and kernel position k. Kernel axes are combined in row-major order of their positions.
struct TileCodes {
  CodeTable rows;
  CodeTable cols;
  CodeTable kernel;  ///< width 0 where the tensor has no kernel dimensions

  std::int64_t inputs() const noexcept { return rows.width + cols.width + kernel.width; }
};

/// Encodes each axis, then normalizes the codes of 0 and 1 together: over every position and every
/// such input the mean becomes 0 and the standard deviation (with n - 1, as torch.std) becomes 1.
/// Mean and deviation are computed in double, and each value is (code - mean) / deviation rounded
/// once to float. A tile whose codes are all equal is only centered. Waves and trained codes have
/// that mean and deviation by themselves.
/// @param kernel_codes  none of them trained
TileCodes encode_tile(const AxisCode& row_code, std::int64_t tile_rows, const AxisCode& col_code,
                      std::int64_t tile_cols, const std::vector<AxisCode>& kernel_codes,
                      const std::vector<std::int64_t>& kernel_dims);

// Plain data: how a layer type plans one parameter. A plan is stored in the artifact, so that
// a file can be inspected without any plugin.

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
std::optional<Generator> parse_generator(std::string_view name) noexcept;
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
  std::optional<AxisCode> row_code, col_code, kernel_code;
  Generator generator = Generator::kGNet;
  std::int64_t rank = 8;  ///< of kLowRank and kXox, 1 to 65,536
};

/// How one parameter is generated.
struct GNetPlan {
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
  bool operator==(const GNetPlan&) const = default;
};

/// Checks every bound of a plan, of whatever origin: ranks, sides, widths, codes, scale, at most
/// 2^20 inputs and 2^28 parameters a g-net.
/// @throws Error(kShapeMismatch) or Error(kLimit) with a sentence that names the field
void validate(const GNetPlan& plan);

/// "14-32-1", "14-32-2 stochastic", "low_rank 8": what makes one tile.
std::string generator_text(const GNetPlan& plan);
/// Inputs of each g-net: the widths of the row, column and kernel codes together; 0 for products.
std::int64_t gnet_inputs(const GNetPlan& plan);
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
std::vector<ParameterBlock> gnet_blocks(const GNetPlan& plan);
/// Exact parameter count of ONE g-net.
std::int64_t gnet_parameters(const GNetPlan& plan);
/// Parameters of all g-nets of the plan: tiles * gnet_parameters.
std::int64_t plan_parameters(const GNetPlan& plan);

/// The common way to fill a plan: the output scale 2 * std, the tile side from tile_weights
/// (ceil(sqrt(tile_weights / kernel)), never beyond the matrix) or solved from `ratio`, codes as
/// set, else binary for rows and columns and one-hot for kernel axes.
/// @throws Error(kUsage) on options out of range
GNetPlan make_plan(const ParameterInfo& parameter, const MatrixView& view,
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

/// @throws as validate(plan)
BankShape bank_shape(const GNetPlan& plan);

/// What this machine has for g-nets on a GPU, in words.
struct CudaStatus {
  std::string module;   ///< "0.2.0, nvcc 13.0 for sm_80, sm_90, FILE"; empty: there is none
  std::string problem;  ///< the module is there and cannot be used
  std::vector<std::string> gpus;  ///< "NVIDIA H200, sm_90, 139 GiB"
  std::string no_gpu;             ///< why `gpus` is empty
};
CudaStatus cuda_status(const std::filesystem::path& module = {});

}  // namespace gbcompress
