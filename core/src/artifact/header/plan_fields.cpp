#include "artifact/header/plan_fields.h"

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
  if (result.size() < 2) in.corrupt("a plan needs a row code and a column code");
  return result;
}

}  // namespace

PlanFields read_plan(CborReader& in) {
  PlanFields fields;
  GNetPlan& plan = fields.plan;
  Keys keys(in, "imvhweuskr");
  while (const char key = keys.next()) switch (key) {
      case 'i':
        plan.type_id = in.text();
        if (plan.type_id.empty()) in.corrupt("a plan names no layer type");
        fields.usual_type = false;
        break;
      case 'm': {
        const std::vector<std::int64_t> tile = read_sizes(in, 2);
        if (tile.size() != 2) in.corrupt("a tile needs two sides");
        plan.tile_rows = tile[0];
        plan.tile_cols = tile[1];
        fields.usual_tile = false;
        break;
      }
      case 'v':
        plan.type_revision = read_revision(in);
        break;
      case 'h':
        plan.shape = read_sizes(in, 8);
        break;
      case 'w':
        plan.view = read_view(in);
        break;
      case 'e': {
        const std::vector<AxisCode> codes = read_codes(in);
        plan.row_code = codes[0];
        plan.col_code = codes[1];
        plan.kernel_codes.assign(codes.begin() + 2, codes.end());
        fields.usual_codes = false;
        break;
      }
      case 'k':
        plan.generator = static_cast<Generator>(read_choice(in, 4));
        break;
      case 'r':
        plan.rank = read_size(in);
        break;
      case 'u':
        plan.hidden = read_sizes(in, 8);
        break;
      default:
        plan.output_scale = in.float32();
    }
  if (is_product(plan.generator)) {
    if (keys.has('u')) in.corrupt("a product of matrices names hidden layers");
    plan.hidden.clear();
  }
  return fields;
}

GNetPlan complete_plan(PlanFields fields, const std::vector<std::int64_t>& shape) {
  GNetPlan& plan = fields.plan;
  if (plan.shape.empty()) plan.shape = shape;
  if (fields.usual_type) plan.type_id = usual_type(plan.shape);
  const MatrixSides sides = matrix_sides(plan.shape, plan.view);
  if (fields.usual_tile) {
    plan.tile_rows = sides.rows;
    plan.tile_cols = sides.cols;
  }
  if (fields.usual_codes) plan.kernel_codes.assign(sides.kernel_dims.size(), Encoding::kOneHot);
  validate(plan);
  return std::move(plan);
}

}  // namespace gbcompress
