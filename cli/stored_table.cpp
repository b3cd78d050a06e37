#include "stored_table.h"

#include <algorithm>
#include <cmath>

#include "gbcompress/error.h"

namespace gbcompress::cli {

using nlohmann::ordered_json;

namespace {

constexpr std::size_t kWorst = 3;

std::string step_text(const StoredTensor& tensor) {
  return tensor.step > 0 ? short_number(tensor.step) + (tensor.row_steps ? " by row" : "") : "";
}

/// That which a target bounds.
double worst_error(const StoredTensor& tensor) {
  return tensor.in_base ? tensor.change_error : tensor.error;
}

}  // namespace

void add_stored_rows(Table& table, const std::vector<StoredTensor>& tensors) {
  if (tensors.empty()) return;
  std::vector<const StoredTensor*> worst;
  std::int64_t exact = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.error > 0)
      worst.push_back(&tensor);
    else
      ++exact;
  }
  table.row({"exact tensors", "",
             with_commas(exact) + " of " + with_commas(static_cast<std::int64_t>(tensors.size()))});
  const std::size_t shown = std::min(kWorst, worst.size());
  std::partial_sort(worst.begin(), worst.begin() + static_cast<std::ptrdiff_t>(shown), worst.end(),
                    [](const auto* a, const auto* b) { return worst_error(*a) > worst_error(*b); });
  for (std::size_t i = 0; i < shown; ++i)
    table.row({i == 0 ? "worst tensors" : "", printable(worst[i]->name),
               "error " + short_number(worst_error(*worst[i])) +
                   (worst[i]->in_base ? " of its change" : "")});
}

std::string stored_listing(const std::vector<StoredTensor>& tensors) {
  const bool delta = std::any_of(tensors.begin(), tensors.end(),
                                 [](const StoredTensor& tensor) { return tensor.in_base; });
  Table table(3);
  std::vector<std::string> head = {"tensor", "shape", "stored",  "profile", "step",
                                   "bits",   "bytes", "seconds", "error"};
  if (delta) head.emplace_back("of its change");
  table.row(head);
  for (const StoredTensor& tensor : tensors) {
    std::vector<std::string> row = {printable(tensor.name),
                                    shape_text(tensor.shape),
                                    tensor.stored,
                                    tensor.profile,
                                    step_text(tensor),
                                    fixed(tensor.bits(), 2),
                                    with_commas(std::llround(tensor.bytes)),
                                    tensor.compared ? short_number(tensor.seconds) : "-",
                                    error_text(tensor)};
    if (delta) row.push_back(tensor.in_base ? short_number(tensor.change_error) : "-");
    table.row(row);
  }
  return table.text();
}

std::string error_text(const StoredTensor& tensor) {
  if (!tensor.compared) return "-";
  return tensor.error > 0 ? short_number(tensor.error) : "0";
}

ordered_json error_json(const StoredTensor& tensor) {
  if (!tensor.compared) return {{"error", nullptr}, {"energy", nullptr}};
  return {{"error", tensor.error}, {"energy", tensor.energy}};
}

ordered_json stored_json(const std::vector<StoredTensor>& tensors) {
  ordered_json list = ordered_json::array();
  for (const StoredTensor& tensor : tensors) {
    ordered_json entry = {{"name", tensor.name},       {"dtype", dtype_name(tensor.dtype)},
                          {"shape", tensor.shape},     {"stored", tensor.stored},
                          {"step", tensor.step},       {"row_steps", tensor.row_steps},
                          {"profile", tensor.profile}, {"bits", tensor.bits()},
                          {"bytes", tensor.bytes}};
    entry.update(error_json(tensor));
    if (tensor.compared) entry["decode_seconds"] = tensor.seconds;
    if (tensor.in_base) entry["change_error"] = tensor.change_error;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace gbcompress::cli
