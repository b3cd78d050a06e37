#include <hwy/targets.h>

#include <string>

#include "gbcompress/bench.h"
#include "gbcompress/error.h"

namespace gbcompress {

void restrict_isa(std::string_view name) {
  hwy::SetSupportedTargetsForTest(0);  // what the processor really has
  const std::int64_t supported = hwy::SupportedTargets();
  std::int64_t allowed = name.empty() ? supported : 0;
  std::string known;
  // One bit a target, better ones first.
  for (std::int64_t rest = supported; rest != 0; rest &= rest - 1) {
    const std::int64_t target = rest & -rest;
    known += (known.empty() ? "" : ", ") + std::string(hwy::TargetName(target));
    if (name == hwy::TargetName(target)) allowed = rest;
  }
  if (allowed != supported && allowed != 0) hwy::SetSupportedTargetsForTest(allowed);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  if (allowed == 0)
    throw Error(Errc::kUsage, "instruction set " + printable(std::string(name)) +
                                  " is not one of this processor's: " + known);
}

}  // namespace gbcompress
