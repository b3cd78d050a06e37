#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantize/feedback/add_scaled.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include <algorithm>

#include "quantize/feedback/add_scaled.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, 8>;
using Floats = hn::CappedTag<float, 16>;

// Not MulAdd(): it rounds once where there is one.
void AddScaled(double* to, const double* from, double factor, std::int64_t count) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto factors = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::Mul(factors, hn::LoadU(d, from + i))), d, to + i);
  for (; i < count; ++i) to[i] += factor * from[i];
}

void AddErrors(float* const* to, const float* const* from, const float* errors,
               const float* factors, std::int64_t rows, std::int64_t count) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t k = 0; k < rows; ++k) {
    const auto error = hn::Set(d, errors[k]);
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(hn::Add(hn::LoadU(d, from[k] + i), hn::Mul(hn::LoadU(d, factors + i), error)), d,
                 to[k] + i);
    for (; i < count; ++i) to[k][i] = from[k][i] + factors[i] * errors[k];
  }
}

constexpr std::int64_t kRunRows = 4;  // sums of two vectors of each in registers

void AddFourRuns(float* const* to, const float* const* from, const float* errors,
                 const ErrorRun& of, std::int64_t first, std::int64_t count) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = first; i + 2 * lanes <= count; i += 2 * lanes) {
    auto a0 = hn::LoadU(d, from[0] + i), b0 = hn::LoadU(d, from[0] + i + lanes);
    auto a1 = hn::LoadU(d, from[1] + i), b1 = hn::LoadU(d, from[1] + i + lanes);
    auto a2 = hn::LoadU(d, from[2] + i), b2 = hn::LoadU(d, from[2] + i + lanes);
    auto a3 = hn::LoadU(d, from[3] + i), b3 = hn::LoadU(d, from[3] + i + lanes);
    for (std::int64_t r = 0; r < of.run; ++r) {
      const float* const factors = of.factors + r * of.line + i;
      const float* const e = errors + r * of.stride;
      const auto f = hn::LoadU(d, factors), g = hn::LoadU(d, factors + lanes);
      const auto e0 = hn::Set(d, e[0]), e1 = hn::Set(d, e[1]);
      const auto e2 = hn::Set(d, e[2]), e3 = hn::Set(d, e[3]);
      a0 = hn::Add(a0, hn::Mul(f, e0)), b0 = hn::Add(b0, hn::Mul(g, e0));
      a1 = hn::Add(a1, hn::Mul(f, e1)), b1 = hn::Add(b1, hn::Mul(g, e1));
      a2 = hn::Add(a2, hn::Mul(f, e2)), b2 = hn::Add(b2, hn::Mul(g, e2));
      a3 = hn::Add(a3, hn::Mul(f, e3)), b3 = hn::Add(b3, hn::Mul(g, e3));
    }
    hn::StoreU(a0, d, to[0] + i), hn::StoreU(b0, d, to[0] + i + lanes);
    hn::StoreU(a1, d, to[1] + i), hn::StoreU(b1, d, to[1] + i + lanes);
    hn::StoreU(a2, d, to[2] + i), hn::StoreU(b2, d, to[2] + i + lanes);
    hn::StoreU(a3, d, to[3] + i), hn::StoreU(b3, d, to[3] + i + lanes);
  }
}

void AddErrorRuns(float* const* to, const float* const* from, const ErrorRun& of, std::int64_t rows,
                  std::int64_t count) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  // A tile's columns of the factors stay in the first cache while all rows use them.
  const std::int64_t tile = 4 * lanes, whole = count - count % (2 * lanes);
  const std::int64_t grouped = rows - rows % kRunRows;
  for (std::int64_t i = 0; i < whole; i += tile)
    for (std::int64_t k = 0; k < grouped; k += kRunRows)
      AddFourRuns(to + k, from + k, of.errors + k, of, i, std::min(whole, i + tile));
  for (std::int64_t k = 0; k < rows; ++k)
    for (std::int64_t i = k < grouped ? whole : 0; i < count; ++i) {
      float sum = from[k][i];
      for (std::int64_t r = 0; r < of.run; ++r)
        sum += of.factors[r * of.line + i] * of.errors[r * of.stride + k];
      to[k][i] = sum;
    }
}

void AddOuter(float* to, const float* factors, const float* of_rows, std::int64_t count) {
  const Floats d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t b = 0; b < kOuterWidth; b += lanes) {
    const auto rows = hn::LoadU(d, of_rows + b);
    float* place = to + b;
    for (std::int64_t i = 0; i < count; ++i, place += kOuterWidth)
      hn::StoreU(hn::Add(hn::LoadU(d, place), hn::Mul(hn::Set(d, factors[i]), rows)), d, place);
  }
}

/// Eight columns and one vector of rows.
void AddPanelVector(float* to, const float* factors, const float* of_rows, std::int64_t outers) {
  const Floats d;
  float* const t = to;
  auto s0 = hn::LoadU(d, t), s1 = hn::LoadU(d, t + kOuterWidth);
  auto s2 = hn::LoadU(d, t + 2 * kOuterWidth), s3 = hn::LoadU(d, t + 3 * kOuterWidth);
  auto s4 = hn::LoadU(d, t + 4 * kOuterWidth), s5 = hn::LoadU(d, t + 5 * kOuterWidth);
  auto s6 = hn::LoadU(d, t + 6 * kOuterWidth), s7 = hn::LoadU(d, t + 7 * kOuterWidth);
  HWY_UNROLL(2)
  for (std::int64_t k = 0; k < outers; ++k, factors += kOuterPanel, of_rows += kOuterWidth) {
    const auto rows = hn::LoadU(d, of_rows);
    s0 = hn::Add(s0, hn::Mul(hn::Set(d, factors[0]), rows));
    s1 = hn::Add(s1, hn::Mul(hn::Set(d, factors[1]), rows));
    s2 = hn::Add(s2, hn::Mul(hn::Set(d, factors[2]), rows));
    s3 = hn::Add(s3, hn::Mul(hn::Set(d, factors[3]), rows));
    s4 = hn::Add(s4, hn::Mul(hn::Set(d, factors[4]), rows));
    s5 = hn::Add(s5, hn::Mul(hn::Set(d, factors[5]), rows));
    s6 = hn::Add(s6, hn::Mul(hn::Set(d, factors[6]), rows));
    s7 = hn::Add(s7, hn::Mul(hn::Set(d, factors[7]), rows));
  }
  hn::StoreU(s0, d, t), hn::StoreU(s1, d, t + kOuterWidth);
  hn::StoreU(s2, d, t + 2 * kOuterWidth), hn::StoreU(s3, d, t + 3 * kOuterWidth);
  hn::StoreU(s4, d, t + 4 * kOuterWidth), hn::StoreU(s5, d, t + 5 * kOuterWidth);
  hn::StoreU(s6, d, t + 6 * kOuterWidth), hn::StoreU(s7, d, t + 7 * kOuterWidth);
}

void AddOuters(float* to, const float* factors, const float* of_rows, std::int64_t outers,
               std::int64_t count) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Floats()));
  std::int64_t i = 0;
  for (; i + kOuterPanel <= count; i += kOuterPanel, factors += outers * kOuterPanel) {
    float* const own = to + i * kOuterWidth;
    if (lanes == kOuterWidth) {
      AddPanelVector(own, factors, of_rows, outers);
      continue;
    }
    // Columns take the place of rows: two vectors of what moves four of them, as often as they fit.
    for (std::int64_t first = 0; first < kOuterPanel; first += kRunRows) {
      float* to_four[kRunRows];
      for (std::int64_t c = 0; c < kRunRows; ++c) to_four[c] = own + (first + c) * kOuterWidth;
      const ErrorRun of{factors, kOuterPanel, of_rows, kOuterWidth, outers};
      AddFourRuns(to_four, to_four, factors + first, of, 0, kOuterWidth);
    }
  }
  for (std::int64_t rest = 0; i + rest < count; ++rest)
    for (std::int64_t k = 0; k < outers; ++k)
      AddOuter(to + (i + rest) * kOuterWidth, factors + k * kOuterPanel + rest,
               of_rows + k * kOuterWidth, 1);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(AddScaled);
HWY_EXPORT(AddErrors);
HWY_EXPORT(AddErrorRuns);
HWY_EXPORT(AddOuter);
HWY_EXPORT(AddOuters);

void add_scaled(double* to, const double* from, double factor, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddScaled)(to, from, factor, count);
}

void add_errors(float* const* to, const float* const* from, const float* errors,
                const float* factors, std::int64_t rows, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddErrors)(to, from, errors, factors, rows, count);
}

void add_error_runs(float* const* to, const float* const* from, const ErrorRun& of,
                    std::int64_t rows, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddErrorRuns)(to, from, of, rows, count);
}

void add_outer(float* to, const float* factors, const float* of_rows, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddOuter)(to, factors, of_rows, count);
}

void add_outers(float* to, const float* factors, const float* of_rows, std::int64_t outers,
                std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddOuters)(to, factors, of_rows, outers, count);
}

}  // namespace gbcompress
#endif
