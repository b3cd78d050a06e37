#pragma once
/// Names of what g-nets are stored as.

#include <string>

#include "gbcompress/coded_values.h"

namespace gbcompress::python {

/// "fp32", "fp16" or "int8". @throws Error(kUsage) for another name
Coding coding_of(const std::string& name);

}  // namespace gbcompress::python
