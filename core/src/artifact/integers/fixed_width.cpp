#include "artifact/integers/fixed_width.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <utility>

#include "artifact/direct_values.h"
#include "artifact/integers/lanes_reader.h"
#include "base/parallel.h"
#include "codec/lanes/decode_block.h"
#include "gbcompress/coded_values.h"

namespace gbcompress {
namespace {

/// Magnitudes that are counted one by one.
constexpr std::int64_t kMagnitudes = 256;
/// Multiply-adds, and values, of a task of a thread.
constexpr std::int64_t kTaskProducts = 1 << 18;
/// Up to as many, starting a thread takes longer.
constexpr std::int64_t kOneThread = 1 << 19;

int threads_for(std::int64_t products, int threads) {
  if (products <= kOneThread) return 1;
  return threads > 0 ? threads : usable_processors();
}

/// Those that have steps of their own: of a stack of matrices [e, r, c] these are e r rows.
std::int64_t rows_of(const ArtifactTensor& tensor) {
  return std::max(tensor.grid.rows, tensor.shape[0]);
}
std::int64_t cols_of(const ArtifactTensor& tensor) {
  return tensor_elements(tensor.shape) / rows_of(tensor);
}
/// Whether steps are those of whole rows, or of parts of these.
bool has_rows(const ArtifactTensor& tensor) {
  return tensor.grid.rows == 1 || (tensor.grid.rows % tensor.shape[0] == 0 &&
                                   tensor_elements(tensor.shape) % tensor.grid.rows == 0);
}

void count_magnitudes(std::span<const float> units, std::vector<std::int64_t>& counts) {
  for (const float unit : units)
    ++counts[static_cast<std::size_t>(
        std::min(std::fabs(unit), static_cast<float>(kMagnitudes - 1)))];
}

/// Whether rows are whole in every part, so that parts can be packed side by side.
bool has_whole_rows(const DirectValues& values, std::int64_t cols) {
  return std::ranges::all_of(values.parts(), [&](const LanesPart& part) {
    return part.first % cols == 0 && part.size % cols == 0;
  });
}

/// Units of a tensor at once, and its scales.
std::pair<std::vector<float>, std::vector<float>> whole_units(const ArtifactReader& artifact,
                                                              std::size_t tensor) {
  CodedValues values = artifact.coded(tensor);
  const bool dependent = values.grid.dependent;
  const auto scale_of = [&](int step) { return dependent ? step_size(step) / 2 : step_size(step); };
  std::vector<float> scales;
  for (const std::int32_t offset : values.row_steps)
    scales.push_back(scale_of(values.step + offset));
  if (scales.empty()) scales.push_back(scale_of(values.step));
  values.step = 0;
  values.row_steps.clear();
  std::vector<float> units = coded_floats(values);
  if (dependent)
    for (float& unit : units) unit *= 2;
  return {std::move(units), std::move(scales)};
}

}  // namespace

bool FixedWidthMatrix::fits(const ArtifactReader& artifact, std::size_t tensor) noexcept {
  const ArtifactTensor& form = artifact.tensors()[tensor];
  return form.kind == TensorKind::kQuantized && is_real(form.dtype) && form.mantissa_bits == 0 &&
         form.axis < 0 && !form.on_base && !form.levels.used() && form.shape.size() >= 2 &&
         tensor_elements(form.shape) > 0 && has_rows(form) && cols_of(form) <= kMostColumns;
}

FixedWidthMatrix::FixedWidthMatrix(std::span<const float> units, std::int64_t rows,
                                   std::vector<float> scales)
    : rows_(rows),
      cols_(static_cast<std::int64_t>(units.size()) / rows),
      scales_(std::move(scales)) {
  Counts counts(kMagnitudes);
  count_magnitudes(units, counts);
  choose_bits(counts);
  std::vector<std::vector<Rest>> rests(static_cast<std::size_t>(rows));
  pack(units, 0, rests);
  finish(rests);
}

FixedWidthMatrix::FixedWidthMatrix(const ArtifactReader& artifact, std::size_t tensor, int threads)
    : rows_(rows_of(artifact.tensors()[tensor])), cols_(cols_of(artifact.tensors()[tensor])) {
  const bool in_parts = DirectValues::fits(artifact, tensor);
  if (!in_parts || !has_whole_rows(DirectValues(artifact, tensor), cols_)) {
    auto [units, scales] = whole_units(artifact, tensor);
    *this = FixedWidthMatrix(units, rows_, std::move(scales));
    return;
  }
  const DirectValues values(artifact, tensor);
  const auto rows = values.scales().of_rows();
  scales_.assign(rows.begin(), rows.end());
  if (scales_.empty()) scales_.push_back(values.scales().scale);
  // Parts are decoded twice: all units at once would take eight times the memory of the result.
  const auto each_part = [&](const auto& use) {
    const auto& parts = values.parts();
    parallel_tasks(threads > 0 ? threads : usable_processors(),
                   static_cast<std::int64_t>(parts.size()), [&](std::int64_t i) {
                     const LanesPart& part = parts[static_cast<std::size_t>(i)];
                     std::vector<float> units(static_cast<std::size_t>(part.size));
                     values.read_units(static_cast<std::size_t>(i), units);
                     use(part, units);
                   });
  };
  Counts counts(kMagnitudes);
  std::mutex mutex;
  each_part([&](const LanesPart&, const std::vector<float>& units) {
    Counts own(kMagnitudes);
    count_magnitudes(units, own);
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < own.size(); ++i) counts[i] += own[i];
  });
  choose_bits(counts);
  std::vector<std::vector<Rest>> rests(static_cast<std::size_t>(rows_));
  each_part([&](const LanesPart& part, const std::vector<float>& units) {
    pack(units, part.first / cols_, rests);
  });
  finish(rests);
}

void FixedWidthMatrix::choose_bits(const Counts& counts) {
  double least = HUGE_VAL;
  for (const int bits : kWidths) {
    // -2^(bits - 1) is counted as if it did not fit.
    double apart = 0;
    for (std::size_t i = std::size_t{1} << (bits - 1); i < counts.size(); ++i)
      apart += static_cast<double>(counts[i]);
    const std::int64_t packed = rows_ * blocks() * kBlock * bits / 8;
    const double size = static_cast<double>(packed) + apart * static_cast<double>(sizeof(Rest));
    if (size >= least) continue;
    least = size;
    bits_ = bits;
  }
  packed_.resize(static_cast<std::size_t>(rows_ * stride()));
}

void FixedWidthMatrix::add_rests(std::int64_t column, float units, std::vector<Rest>& rests) {
  constexpr float kMost = std::numeric_limits<std::int16_t>::max();
  while (units != 0) {
    const float part = std::clamp(units, -kMost, kMost);
    rests.push_back({static_cast<std::uint16_t>(column), static_cast<std::int16_t>(part)});
    units -= part;
  }
}

void FixedWidthMatrix::pack(std::span<const float> units, std::int64_t first,
                            std::vector<std::vector<Rest>>& rests) {
  const std::int64_t count = static_cast<std::int64_t>(units.size()) / cols_;
  const int half = 1 << (bits_ - 1);
  for (std::int64_t r = 0; r < count; ++r) {
    std::uint8_t* const row = packed_.data() + (first + r) * stride();
    for (std::int64_t c = 0; c < blocks() * kBlock; ++c) {
      const float unit = c < cols_ ? units[static_cast<std::size_t>(r * cols_ + c)] : 0.0f;
      const float kept = std::clamp(unit, static_cast<float>(-half), static_cast<float>(half - 1));
      if (kept != unit) add_rests(c, unit - kept, rests[static_cast<std::size_t>(first + r)]);
      if (bits_ == 8) {
        row[c] = static_cast<std::uint8_t>(static_cast<std::int8_t>(kept));
        continue;
      }
      const auto code = static_cast<unsigned>(static_cast<int>(kept) + half);
      std::uint8_t* const block = row + c / kBlock * (kBlock / 8) * bits_;
      const auto place = static_cast<unsigned>(c % kBlock), group = place / 16, lane = place % 16;
      block[group % 4 * 16 + lane] |= static_cast<std::uint8_t>((code & 15) << (group / 4 * 4));
      if (bits_ == 5)
        block[64 + lane] |= static_cast<std::uint8_t>((code >> 4) << group);
      else if (bits_ == 6)
        block[64 + group / 4 * 16 + lane] |=
            static_cast<std::uint8_t>((code >> 4) << (group % 4 * 2));
    }
  }
}

void FixedWidthMatrix::finish(const std::vector<std::vector<Rest>>& rests) {
  starts_.assign(1, 0);
  for (const auto& row : rests) {
    rests_.insert(rests_.end(), row.begin(), row.end());
    starts_.push_back(static_cast<std::uint32_t>(rests_.size()));
  }
  rests_.shrink_to_fit();
}

std::int64_t FixedWidthMatrix::bytes() const noexcept {
  return static_cast<std::int64_t>(packed_.size() + scales_.size() * sizeof(float) +
                                   starts_.size() * sizeof starts_[0] +
                                   rests_.size() * sizeof(Rest));
}

void FixedWidthMatrix::multiply(std::span<const float> x, std::int64_t tokens, std::span<float> to,
                                int threads) const {
  const std::int64_t padded = blocks() * kBlock;
  std::vector<float> aligned;
  const float* from = x.data();
  if (padded != cols_) {
    aligned.resize(static_cast<std::size_t>(tokens * padded));
    for (std::int64_t t = 0; t < tokens; ++t)
      std::copy_n(x.begin() + t * cols_, cols_, aligned.begin() + t * padded);
    from = aligned.data();
  }
  const std::int64_t step = std::max<std::int64_t>(1, kTaskProducts / (padded * tokens));
  parallel_tasks(threads_for(rows_ * padded * tokens, threads), (rows_ + step - 1) / step,
                 [&](std::int64_t i) {
                   multiply_fixed_width(*this, i * step, std::min(rows_, (i + 1) * step), from,
                                        tokens, to.data());
                 });
}

template <typename To>
void FixedWidthMatrix::read(std::span<const std::int64_t> wanted, std::span<To> to,
                            int threads) const {
  const auto count = static_cast<std::int64_t>(wanted.size());
  const std::int64_t step = std::max<std::int64_t>(1, kTaskProducts / cols_);
  parallel_tasks(
      threads_for(count * cols_, threads), (count + step - 1) / step, [&](std::int64_t i) {
        std::vector<float> units(static_cast<std::size_t>(blocks() * kBlock));
        for (std::int64_t n = i * step; n < std::min(count, (i + 1) * step); ++n) {
          const std::int64_t r = wanted[static_cast<std::size_t>(n)];
          unpack_fixed_width(*this, r, units.data());
          for (const Rest& rest : rests(r)) units[rest.column] += static_cast<float>(rest.units);
          codec::lanes::scale_units(units.data(), cols_, scale(r), to.data() + n * cols_);
        }
      });
}
template void FixedWidthMatrix::read(std::span<const std::int64_t>, std::span<float>, int) const;
template void FixedWidthMatrix::read(std::span<const std::int64_t>,
                                     std::span<codec::lanes::Bfloat16>, int) const;
template void FixedWidthMatrix::read(std::span<const std::int64_t>,
                                     std::span<codec::lanes::Float16>, int) const;

}  // namespace gbcompress
