#include "stored_table.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace gbcompress::cli {
namespace {

constexpr std::size_t kWorst = 3;

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
                    [](const auto* a, const auto* b) { return a->error > b->error; });
  for (std::size_t i = 0; i < shown; ++i)
    table.row({i == 0 ? "worst tensors" : "", printable(worst[i]->name),
               "error " + short_number(worst[i]->error)});
}

std::string stored_listing(const std::vector<StoredTensor>& tensors) {
  Table table(3);
  table.row({"tensor", "shape", "stored", "step", "bits", "bytes", "error"});
  for (const StoredTensor& tensor : tensors) {
    const std::string step =
        tensor.step > 0 ? short_number(tensor.step) + (tensor.row_steps ? " by row" : "") : "";
    table.row({printable(tensor.name), shape_text(tensor.shape), tensor.stored, step,
               fixed(tensor.bits(), 2), with_commas(std::llround(tensor.bytes)),
               tensor.error > 0 ? short_number(tensor.error) : "0"});
  }
  return table.text();
}

nlohmann::ordered_json stored_json(const std::vector<StoredTensor>& tensors) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const StoredTensor& tensor : tensors)
    list.push_back({{"name", tensor.name},
                    {"dtype", dtype_name(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"stored", tensor.stored},
                    {"step", tensor.step},
                    {"row_steps", tensor.row_steps},
                    {"bits", tensor.bits()},
                    {"bytes", tensor.bytes},
                    {"error", tensor.error}});
  return list;
}

}  // namespace gbcompress::cli
