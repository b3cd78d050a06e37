#include "artifact/direct_values.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "artifact/integers/integers.h"
#include "artifact/sections/elements.h"
#include "base/parallel.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Elements that are converted at a time, by way of float32.
constexpr std::size_t kConverted = 1024;

std::size_t element_bytes(DType dtype) { return static_cast<std::size_t>(dtype_bits(dtype) / 8); }

/// Numbers as elements of a type, rounded to another one before.
void round_elements(std::span<const float> values, DType first, DType dtype,
                    std::span<std::byte> to) {
  std::array<std::byte, kConverted * sizeof(double)> rounded;
  for (std::size_t at = 0; at < values.size(); at += kConverted) {
    const std::size_t count = std::min(kConverted, values.size() - at);
    const auto chunk = std::span(rounded).first(count * element_bytes(first));
    put_elements(values.subspan(at, count), first, chunk);
    convert_elements(chunk, first, dtype,
                     to.subspan(at * element_bytes(dtype), count * element_bytes(dtype)));
  }
}

[[noreturn]] void rethrow_named(const Error& error, const ArtifactTensor& tensor) {
  throw Error(error.code(),
              printable(tensor.name) + ": the coded integers are wrong: " + error.what());
}

#ifndef GBC_FREESTANDING
/// A part in the tensor's own 16-bit type, then as another one.
template <typename Own>
void read_converted(const LanesReader& lanes, std::size_t tensor, const LanesPart& part,
                    float scale, std::span<const float> rows, std::pair<DType, DType> types,
                    std::span<std::byte> to) {
  thread_local std::vector<Own> values;
  values.resize(static_cast<std::size_t>(part.size));
  lanes.read_part(tensor, part, scale, rows, values.data());
  convert_elements(std::as_bytes(std::span(values)), types.first, types.second, to);
}
#endif

}  // namespace

bool DirectValues::fits(const ArtifactReader& artifact, std::size_t tensor) noexcept {
  const ArtifactTensor& form = artifact.tensors()[tensor];
#ifdef GBC_FREESTANDING  // libgbz decodes other tensors whole, which takes less code
  if (!is_real(form.dtype)) return false;
#endif
  return in_stripes(form) && form.kind == TensorKind::kQuantized && form.mantissa_bits == 0 &&
         form.axis < 0 && !form.on_base && !form.levels.used();
}

DirectValues::DirectValues(const ArtifactReader& artifact, std::size_t tensor)
    : artifact_(artifact),
      tensor_(tensor),
      own_(artifact.tensors()[tensor].dtype),
      parts_(artifact.lanes()->parts(tensor)) {
  if (artifact.tensors()[tensor].nibbles) units_ = dtype_bits(own_) / 4;
  // Parts are whole lines of the grid, and those are whole elements.
  for (LanesPart& part : parts_) {
    part.first /= units_;
    part.size /= units_;
  }
}

const DirectValues::Scales& DirectValues::scales() const {
  std::call_once(read_, [this] { scales_ = read_scales(); });
  return scales_;
}

namespace {

/// Of dependent grids units are half steps.
float unit_of(const ArtifactTensor& form, int step) {
  return form.grid.dependent ? step_size(step) / 2 : step_size(step);
}

std::vector<float> row_scales_of(const ArtifactReader& artifact, std::size_t tensor) {
  const ArtifactTensor& form = artifact.tensors()[tensor];
  std::vector<float> rows;
  for (const std::int32_t offset : artifact.lanes()->offsets(tensor)) {
    if (offset < kMinStep - form.step || offset > kMaxStep - form.step)
      throw Error(Errc::kCorrupt, "a row has a step out of range");
    rows.push_back(unit_of(form, form.step + offset));
  }
  return rows;
}

}  // namespace

DirectValues::Scales DirectValues::read_scales() const {
  const ArtifactTensor& form = artifact_.tensors()[tensor_];
  Scales scales{unit_of(form, form.step), {}};
  if (!form.row_steps) return scales;
#ifdef GBC_FREESTANDING
  scales.rows = row_scales_of(artifact_, tensor_);
#else
  scales.rows =
      artifact_.lanes()->row_scales(tensor_, [this] { return row_scales_of(artifact_, tensor_); });
#endif
  if (scales.of_rows().size() == 1) scales = {scales.of_rows().front(), {}};
  return scales;
}

namespace {

/// Room that a thread keeps for the values of a part.
std::vector<float>& room_for([[maybe_unused]] std::vector<float>& own, std::int64_t size) {
#ifdef GBC_FREESTANDING  // where memory belongs to a handle, not to a thread
  std::vector<float>& room = own;
#else
  thread_local std::vector<float> room;
#endif
  room.resize(static_cast<std::size_t>(size));
  return room;
}

}  // namespace

#ifndef GBC_FREESTANDING
void DirectValues::read_numbers(const LanesPart& units, std::span<std::byte> bytes) const {
  const ArtifactTensor& form = artifact_.tensors()[tensor_];
  std::vector<float> own;
  std::vector<float>& integers = room_for(own, units.size);  // below 2^24: exact
  artifact_.lanes()->read_part(tensor_, units, 1.0F, {}, integers.data());
  const auto [least, largest] = integer_range(own_, form.nibbles);
  CodedValues values{.step = form.step, .nibbles = form.nibbles};
  values.integers.reserve(integers.size());
  for (const float integer : integers) {
    values.integers.push_back(static_cast<std::int32_t>(integer));
    const std::int64_t number = std::int64_t{values.integers.back()} + form.step;
    if (number < least || number > largest)
      throw Error(Errc::kCorrupt, "a value that its type cannot hold");
  }
  const std::vector<std::byte> made = coded_elements(values, own_);
  std::copy(made.begin(), made.end(), bytes.begin());
}
#endif

void DirectValues::read(std::size_t part, DType dtype, std::span<std::byte> bytes) const {
  LanesPart values = parts_[part];
  values.first *= units_;
  values.size *= units_;
  const LanesReader& lanes = *artifact_.lanes();
  try {
    lanes.prepare(values);
#ifndef GBC_FREESTANDING
    if (!is_real(own_)) return read_numbers(values, bytes);
#endif
    const Scales& found = scales();
    const float scale = found.scale;
    const std::span<const float> rows = found.of_rows();
    if (dtype == DType::kF32 && own_ == DType::kF32)
      return lanes.read_part(tensor_, values, scale, rows, reinterpret_cast<float*>(bytes.data()));
#ifndef GBC_FREESTANDING  // libgbz has less code instead
    if (dtype == DType::kBF16 && (own_ == DType::kF32 || own_ == DType::kBF16))
      return lanes.read_part(tensor_, values, scale, rows,
                             reinterpret_cast<codec::lanes::Bfloat16*>(bytes.data()));
    if (dtype == DType::kF16 && (own_ == DType::kF32 || own_ == DType::kF16))
      return lanes.read_part(tensor_, values, scale, rows,
                             reinterpret_cast<codec::lanes::Float16*>(bytes.data()));
    if (own_ == DType::kBF16)
      return read_converted<codec::lanes::Bfloat16>(lanes, tensor_, values, scale, rows,
                                                    {own_, dtype}, bytes);
    if (own_ == DType::kF16)
      return read_converted<codec::lanes::Float16>(lanes, tensor_, values, scale, rows,
                                                   {own_, dtype}, bytes);
#endif
    std::vector<float> own;
    std::vector<float>& buffer = room_for(own, values.size);
    lanes.read_part(tensor_, values, scale, rows, buffer.data());
    // Rounded to the tensor's own type first, which F32 leaves as it is.
    round_elements(buffer, own_ == DType::kF32 ? dtype : own_, dtype, bytes);
  } catch (const Error& error) {
    rethrow_named(error, artifact_.tensors()[tensor_]);
  }
}

void DirectValues::read_units(std::size_t part, std::span<float> units) const {
  const LanesPart& values = parts_[part];
  try {
    artifact_.lanes()->prepare(values);
    artifact_.lanes()->read_part(tensor_, values, 1, {}, units.data());
  } catch (const Error& error) {
    rethrow_named(error, artifact_.tensors()[tensor_]);
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
  std::array<float, kConverted> floats;
  const std::size_t all = from.size() / element_bytes(own);
  for (std::size_t at = 0; at < all; at += kConverted) {
    const std::size_t count = std::min(kConverted, all - at);
    const auto chunk = std::span(floats).first(count);
    floats_of(from.subspan(at * element_bytes(own), count * element_bytes(own)), own, chunk);
    put_elements(chunk, dtype, to.subspan(at * element_bytes(dtype), count * element_bytes(dtype)));
  }
}

}  // namespace gbcompress
