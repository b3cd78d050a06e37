#include "artifact/header/spec_fields.h"

#include <limits>

#include "artifact/header/header_keys.h"

namespace gbcompress {
namespace {

std::uint32_t read_revision(CborReader& in) {
  const std::uint64_t n = in.unsigned_number();
  if (n > std::numeric_limits<std::uint32_t>::max()) in.corrupt("a revision beyond 2^32");
  return static_cast<std::uint32_t>(n);
}

MatrixView read_view(CborReader& in) {
  if (in.array() != 4) in.corrupt("a view needs four values");
  const std::int64_t row = in.integer(), col = in.integer();
  if (row < 0 || row > 7 || col < -1 || col > 7) in.corrupt("a view of unknown dimensions");
  MatrixView view{.row_dim = static_cast<int>(row), .col_dim = static_cast<int>(col)};
  view.row_splits = read_size(in);
  view.col_splits = read_size(in);
  return view;
}

std::vector<AxisCode> read_codes(CborReader& in) {
  std::int64_t left = in.array();
  const auto next = [&] {
    if (left-- <= 0) in.corrupt("an encoding ends too early");
    return read_size(in);
  };
  std::vector<AxisCode> result;
  while (left > 0) {
    if (result.size() == 9) in.corrupt("more encodings than dimensions");
    --left;
    AxisCode code(static_cast<Encoding>(read_choice(in, 6)));
    if (code.encoding >= Encoding::kFourier) code.size = next();
    if (code.encoding == Encoding::kPixel) {
      const std::int64_t sides = next();
      if (sides > 8) in.corrupt("an image of more than 8 sides");
      for (std::int64_t d = 0; d < sides; ++d) code.sides.push_back(next());
    }
    result.push_back(std::move(code));
  }
  if (result.size() < 2) in.corrupt("a specification needs a row code and a column code");
  return result;
}

}  // namespace

SpecFields read_spec(CborReader& in) {
  SpecFields fields;
  GNetSpec& spec = fields.spec;
  Keys keys(in, "imvhweuskr");
  while (const char key = keys.next()) switch (key) {
      case 'i':
        spec.type_id = in.text();
        if (spec.type_id.empty()) in.corrupt("a specification names no layer type");
        fields.usual_type = false;
        break;
      case 'm': {
        const std::vector<std::int64_t> tile = read_sizes(in, 2);
        if (tile.size() != 2) in.corrupt("a tile needs two sides");
        spec.tile_rows = tile[0];
        spec.tile_cols = tile[1];
        fields.usual_tile = false;
        break;
      }
      case 'v':
        spec.type_revision = read_revision(in);
        break;
      case 'h':
        spec.shape = read_sizes(in, 8);
        break;
      case 'w':
        spec.view = read_view(in);
        break;
      case 'e': {
        const std::vector<AxisCode> codes = read_codes(in);
        spec.row_code = codes[0];
        spec.col_code = codes[1];
        spec.kernel_codes.assign(codes.begin() + 2, codes.end());
        fields.usual_codes = false;
        break;
      }
      case 'k':
        spec.generator = static_cast<Generator>(read_choice(in, 4));
        break;
      case 'r':
        spec.rank = read_size(in);
        break;
      case 'u':
        spec.hidden = read_sizes(in, 8);
        break;
      default:
        spec.output_scale = in.float32();
    }
  if (is_product(spec.generator)) {
    if (keys.has('u')) in.corrupt("a product of matrices names hidden layers");
    spec.hidden.clear();
  }
  return fields;
}

GNetSpec complete_spec(SpecFields fields, const std::vector<std::int64_t>& shape) {
  GNetSpec& spec = fields.spec;
  if (spec.shape.empty()) spec.shape = shape;
  if (fields.usual_type) spec.type_id = usual_type(spec.shape);
  const MatrixSides sides = matrix_sides(spec.shape, spec.view);
  if (fields.usual_tile) {
    spec.tile_rows = sides.rows;
    spec.tile_cols = sides.cols;
  }
  if (fields.usual_codes) spec.kernel_codes.assign(sides.kernel_dims.size(), Encoding::kOneHot);
  validate(spec);
  return std::move(spec);
}

}  // namespace gbcompress
