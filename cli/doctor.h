#pragma once
/// What `doctor` finds: rows of the program, and rows of the module that needs LibTorch.

#include <string>
#include <utility>
#include <vector>

#include "command.h"

namespace gbcompress::cli {

enum class CheckState {
  kOk,
  kMissing,  ///< not part of this installation, which works without it
  kBroken,   ///< installed, and does not work
};

struct Check {
  std::string name, value;
  std::string remedy = {};  ///< what is wrong and what to do; "" where kOk
  CheckState state = CheckState::kOk;
};

/// A check that is kBroken where there is a problem. Inline: program and module both have it.
inline Check check_of(std::string name, std::string value, std::string problem) {
  const CheckState state = problem.empty() ? CheckState::kOk : CheckState::kBroken;
  return {std::move(name), std::move(value), std::move(problem), state};
}

}  // namespace gbcompress::cli
