#include "artifact/direct_values.h"

#include <algorithm>

#include "artifact/integers/integers.h"
#include "artifact/sections/elements.h"
#include "base/parallel.h"
#include "gbcompress/error.h"

namespace gbcompress {

bool DirectValues::fits(const ArtifactReader& artifact, std::size_t tensor) noexcept {
  const ArtifactTensor& form = artifact.tensors()[tensor];
  return in_stripes(form) && form.kind == TensorKind::kQuantized && is_real(form.dtype) &&
         form.mantissa_bits == 0 && form.axis < 0 && !form.on_base && !form.levels.used();
}

DirectValues::DirectValues(const ArtifactReader& artifact, std::size_t tensor)
    : artifact_(artifact),
      tensor_(tensor),
      own_(artifact.tensors()[tensor].dtype),
      parts_(artifact.lanes()->parts(tensor)) {}

const DirectValues::Scales& DirectValues::scales() const {
  std::call_once(read_, [this] { scales_ = read_scales(); });
  return scales_;
}

DirectValues::Scales DirectValues::read_scales() const {
  const ArtifactTensor& form = artifact_.tensors()[tensor_];
  const auto scale_of = [&](int step) {
    return form.grid.dependent ? step_size(step) / 2 : step_size(step);
  };
  Scales scales{scale_of(form.step), {}};
  if (!form.row_steps) return scales;
  for (const std::int32_t offset : artifact_.lanes()->offsets(tensor_)) {
    if (offset < kMinStep - form.step || offset > kMaxStep - form.step)
      throw Error(Errc::kCorrupt, "a row has a step out of range");
    scales.rows.push_back(scale_of(form.step + offset));
  }
  if (scales.rows.size() == 1) scales = {scales.rows[0], {}};
  return scales;
}

void DirectValues::read(std::size_t part, DType dtype, std::span<std::byte> bytes) const {
  const LanesPart& values = parts_[part];
  const LanesReader& lanes = *artifact_.lanes();
  try {
    lanes.prepare(values);
    const auto& [scale, rows] = scales();
    if (dtype == DType::kF32 && own_ == DType::kF32)
      return lanes.read_part(tensor_, values, scale, rows, reinterpret_cast<float*>(bytes.data()));
#ifndef GBC_FREESTANDING  // libgbz has less code instead
    if (dtype == DType::kBF16 && (own_ == DType::kF32 || own_ == DType::kBF16))
      return lanes.read_part(tensor_, values, scale, rows,
                             reinterpret_cast<codec::lanes::Bfloat16*>(bytes.data()));
    if (dtype == DType::kF16 && (own_ == DType::kF32 || own_ == DType::kF16))
      return lanes.read_part(tensor_, values, scale, rows,
                             reinterpret_cast<codec::lanes::Float16*>(bytes.data()));
#endif
#ifndef GBC_FREESTANDING  // where memory belongs to a handle, not to a thread
    thread_local
#endif
        std::vector<float>
            buffer;
    buffer.resize(static_cast<std::size_t>(values.size));
    lanes.read_part(tensor_, values, scale, rows, buffer.data());
    // Rounded to the tensor's own type first, which F32 leaves as it is.
    const DType first = own_ == DType::kF32 ? dtype : own_;
    convert_elements(elements_of(buffer, first), first, dtype, bytes);
  } catch (const Error& error) {
    throw Error(error.code(), printable(artifact_.tensors()[tensor_].name) +
                                  ": the coded integers are wrong: " + error.what());
  }
}

void DirectValues::read_all(DType dtype, std::span<std::byte> bytes, int threads) const {
  const auto size = static_cast<std::size_t>(dtype_bits(dtype) / 8);
  parallel_tasks(threads, static_cast<std::int64_t>(parts_.size()), [&](std::int64_t i) {
    const LanesPart& part = parts_[static_cast<std::size_t>(i)];
    read(static_cast<std::size_t>(i), dtype,
         bytes.subspan(static_cast<std::size_t>(part.first) * size,
                       static_cast<std::size_t>(part.size) * size));
  });
}

void convert_elements(std::span<const std::byte> from, DType own, DType dtype,
                      std::span<std::byte> to) {
  if (own == dtype) {
    std::copy(from.begin(), from.end(), to.begin());
    return;
  }
  std::vector<float> floats(from.size() / static_cast<std::size_t>(dtype_bits(own) / 8));
  floats_of(from, own, floats);
  const std::vector<std::byte> made = elements_of(floats, dtype);
  std::copy(made.begin(), made.end(), to.begin());
}

}  // namespace gbcompress
