// Matrices that an earlier run of the same call has placed.
#include <cinttypes>
#include <cstdio>

#include "base/digest.h"
#include "gbcompress/version.h"
#include "quantize/store.h"

namespace gbcompress {

std::string WeightsStore::key_of(std::size_t i, const char* target, double value) const {
  const TensorAllocation& tensor = allocation_.tensors()[i];
  if (!kept_ || !kept_->active() || profiles_[i] != CodecProfile::kLanes || tensor.base ||
      tensor.model)
    return "";
  const TensorEntry& source = *tensor.source;
  const std::vector<std::int32_t>& rows = tensor.facts.row_steps;
  char numbers[240];
  std::snprintf(numbers, sizeof numbers,
                " %016" PRIx64 " %016" PRIx64 " rows %" PRId64 " cols %" PRId64 " stride %" PRId64
                " axis %d share %a %s %a ",
                xxh3_64(source.bytes), xxh3_64(std::as_bytes(std::span(rows))), tensor.grid.rows,
                tensor.grid.cols, tensor.grid.stride, tensor.axis, tensor.share, target, value);
  std::string key = "gbcompress " GBC_VERSION_STRING " packed ";
  key += quantizer_name(options_.quantizer);
  key += " ";
  key += dtype_name(source.dtype);
  key += numbers;
  return key + source.name;
}

bool WeightsStore::put_kept(std::size_t i, const std::string& key) {
  if (key.empty()) return false;
  std::optional<KeptParts::Part> part = kept_->find(key);
  if (!part) return false;
  const TensorAllocation& tensor = allocation_.tensors()[i];
  CodedValues form;
  form.grid = tensor.grid;
  form.step = part->step;
  if (part->row_steps) form.row_steps.resize(static_cast<std::size_t>(tensor.grid.rows));
  form.axis = tensor.axis;
  form.grid.dependent = options_.quantizer == Quantizer::kTrellis;
  form.grid.lanes = form.grid.dependent;
  std::vector<IntegerGrid> grids = {form.grid};
  if (part->row_steps) grids.insert(grids.begin(), {1, form.grid.rows, 0});
  const auto blocks = split_blocks(part->section, grids);
  if (!blocks) return false;
  errors_[i] = part->error;
  put_packed(i, std::move(form), *blocks);
  return true;
}

}  // namespace gbcompress
