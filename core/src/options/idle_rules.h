#pragma once
/// Rules that change nothing are slips.

#include <string>
#include <vector>

#include "base/internal.h"
#include "gbcompress/options.h"

namespace GBC_INTERNAL gbcompress {

/// A line for each rule that matches no name, with the nearest names: "warning: the rule for
/// 0.weigth matches no tensor; the nearest are 0.weight, 2.weight".
/// @param names  of all tensors
std::vector<std::string> idle_rule_warnings(const std::vector<LayerRule>& rules,
                                            const std::vector<std::string>& names);

}  // namespace gbcompress
