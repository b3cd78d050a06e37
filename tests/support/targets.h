#pragma once
/// Vector kernels on every level of the processor.

#include <hwy/targets.h>

#include <cstdint>
#include <functional>

namespace gbcompress::testing {

/// Calls body(name) once for each level of processors that this one has, down to scalar code.
inline void on_every_target(const std::function<void(const char*)>& body) {
  for (std::int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest);  // one bit a target, better ones first
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body(hwy::TargetName(rest & -rest));
    hwy::SetSupportedTargetsForTest(0);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace gbcompress::testing
