#include "artifact/header/encode_spec.h"

#include <nlohmann/json.hpp>

#include "artifact/header/spec_fields.h"

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

}  // namespace

json encode_spec(const GNetSpec& spec, const std::vector<std::int64_t>& shape) {
  json entry = json::object();
  if (spec.type_id != usual_type(spec.shape)) entry["i"] = spec.type_id;
  const MatrixSides sides = matrix_sides(spec.shape, spec.view);
  if (spec.tile_rows != sides.rows || spec.tile_cols != sides.cols)
    entry["m"] = {spec.tile_rows, spec.tile_cols};
  if (spec.type_revision != 1) entry["v"] = spec.type_revision;
  if (spec.shape != shape) entry["h"] = spec.shape;
  const MatrixView& view = spec.view;
  if (view != MatrixView{})
    entry["w"] = {view.row_dim, view.col_dim, view.row_splits, view.col_splits};
  const std::vector<AxisCode> usual(spec.kernel_codes.size(), Encoding::kOneHot);
  if (spec.row_code != AxisCode() || spec.col_code != AxisCode() || spec.kernel_codes != usual) {
    json& list = entry["e"] = json::array();
    add_code(list, spec.row_code);
    add_code(list, spec.col_code);
    for (const AxisCode& code : spec.kernel_codes) add_code(list, code);
  }
  if (spec.generator != Generator::kGNet) entry["k"] = static_cast<int>(spec.generator);
  if (is_product(spec.generator))
    entry["r"] = spec.rank;
  else if (spec.hidden != std::vector<std::int64_t>{32})
    entry["u"] = spec.hidden;
  if (spec.output_scale != 1) entry["s"] = spec.output_scale;
  return entry;
}

}  // namespace gbcompress
