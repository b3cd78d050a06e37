#include "artifact/header/encode_plan.h"

#include <nlohmann/json.hpp>

#include "artifact/header/plan_fields.h"

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

json encode_plan(const GNetPlan& plan, const std::vector<std::int64_t>& shape) {
  json entry = json::object();
  if (plan.type_id != usual_type(plan.shape)) entry["i"] = plan.type_id;
  const MatrixSides sides = matrix_sides(plan.shape, plan.view);
  if (plan.tile_rows != sides.rows || plan.tile_cols != sides.cols)
    entry["m"] = {plan.tile_rows, plan.tile_cols};
  if (plan.type_revision != 1) entry["v"] = plan.type_revision;
  if (plan.shape != shape) entry["h"] = plan.shape;
  const MatrixView& view = plan.view;
  if (view != MatrixView{})
    entry["w"] = {view.row_dim, view.col_dim, view.row_splits, view.col_splits};
  const std::vector<AxisCode> usual(plan.kernel_codes.size(), Encoding::kOneHot);
  if (plan.row_code != AxisCode() || plan.col_code != AxisCode() || plan.kernel_codes != usual) {
    json& list = entry["e"] = json::array();
    add_code(list, plan.row_code);
    add_code(list, plan.col_code);
    for (const AxisCode& code : plan.kernel_codes) add_code(list, code);
  }
  if (plan.generator != Generator::kGNet) entry["k"] = static_cast<int>(plan.generator);
  if (is_product(plan.generator))
    entry["r"] = plan.rank;
  else if (plan.hidden != std::vector<std::int64_t>{32})
    entry["u"] = plan.hidden;
  if (plan.output_scale != 1) entry["s"] = plan.output_scale;
  return entry;
}

}  // namespace gbcompress
