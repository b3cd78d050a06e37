#pragma once
/// Whatever needs a forward pass refuses a model without one in the same words.

#include <string>

#include "gbcompress/model.h"

namespace gbcompress {

/// @param consequence  "so data cannot be used", or ""
/// @param instead      what follows the advice to name an architecture: ", or leave `data` out", or
///                     ""
/// @throws Error(kUsage)
[[noreturn]] void refuse_forward(const std::string& consequence, const std::string& instead = "");

/// @throws Error(kUsage) as refuse_forward(), unless model.has_forward()
void require_forward(const Model& model, const std::string& consequence,
                     const std::string& instead = "");

}  // namespace gbcompress
