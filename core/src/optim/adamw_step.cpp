#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/adamw_step.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target
#include <hwy/highway.h>
// clang-format on

#include "optim/adamw_step.h"

HWY_BEFORE_NAMESPACE();
namespace gbcompress {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// As many numbers as D has. Mul() and Add(), not MulAdd(): it rounds once where there is one.
template <typename D>
void Update(D d, const AdamWStep& step, float* x, const float* gradient, float* first,
            float* second) {
  const auto g = hn::LoadU(d, gradient);
  auto m = hn::LoadU(d, first), v = hn::LoadU(d, second);
  m = hn::Add(m, hn::Mul(hn::Set(d, step.mean_part), hn::Sub(g, m)));
  v = hn::Add(hn::Mul(hn::Set(d, step.square_keep), v),
              hn::Mul(hn::Mul(hn::Set(d, step.square_part), g), g));
  const auto slope =
      hn::Add(hn::Mul(hn::Sqrt(v), hn::Set(d, step.correction)), hn::Set(d, step.eps));
  const auto moved = hn::Div(hn::Mul(hn::Set(d, step.rate), m), slope);
  hn::StoreU(hn::Sub(hn::Mul(hn::Set(d, step.decay), hn::LoadU(d, x)), moved), d, x);
  hn::StoreU(m, d, first);
  hn::StoreU(v, d, second);
}

template <typename D>
void Descend(D d, const SgdStep& step, float* x, const float* gradient, float* velocity) {
  const auto at = hn::LoadU(d, x);
  const auto slope = hn::Add(hn::LoadU(d, gradient), hn::Mul(hn::Set(d, step.decay), at));
  const auto v = hn::Add(hn::Mul(hn::Set(d, step.momentum), hn::LoadU(d, velocity)), slope);
  hn::StoreU(hn::Sub(at, hn::Mul(hn::Set(d, step.rate), v)), d, x);
  hn::StoreU(v, d, velocity);
}

void DescendAll(const SgdStep& step, float* x, const float* gradient, float* velocity,
                std::int64_t count) {
  const hn::ScalableTag<float> all;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(all));
  const SgdStep own = step;  // what is written to cannot be a part of it
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) Descend(all, own, x + i, gradient + i, velocity + i);
  for (; i < count; ++i) Descend(one, own, x + i, gradient + i, velocity + i);
}

void StepAll(const AdamWStep& step, float* x, const float* gradient, float* first, float* second,
             std::int64_t count) {
  const hn::ScalableTag<float> all;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(all));
  const AdamWStep own = step;  // what is written to cannot be a part of it
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    Update(all, own, x + i, gradient + i, first + i, second + i);
  for (; i < count; ++i) Update(one, own, x + i, gradient + i, first + i, second + i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gbcompress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gbcompress {

HWY_EXPORT(StepAll);
HWY_EXPORT(DescendAll);

void adamw_step(const AdamWStep& step, float* x, const float* gradient, float* first, float* second,
                std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(StepAll)(step, x, gradient, first, second, count);
}

void sgd_step(const SgdStep& step, float* x, const float* gradient, float* velocity,
              std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(DescendAll)(step, x, gradient, velocity, count);
}

}  // namespace gbcompress
#endif
