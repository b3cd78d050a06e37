#pragma once
/// One function a kind of data; `where` is what stands behind the colon. Internal.

#include <string>

#include "gbcompress/model.h"

namespace gbcompress {

Data open_mnist(const std::string& where, const DataOptions& options);
Data open_cifar10(const std::string& where, const DataOptions& options);
Data open_text(const std::string& where, const DataOptions& options);
Data open_digits(const std::string& where, const DataOptions& options);
Data open_tensor_data(const std::string& where, const DataOptions& options);
Data open_features(const std::string& where, const DataOptions& options);

/// Rows held out of `rows` where a source does not say which: the last tenth, at least one.
/// @throws Error(kUsage) below two rows
std::int64_t held_out_tenth(std::int64_t rows, const std::string& what);

}  // namespace gbcompress
