#pragma once
/// The names a state dict may refer to.

#include <optional>
#include <string_view>

#include "gbcompress/dtype.h"

namespace gbcompress {

enum class PickleCallable : std::uint8_t {
  kOrderedDict,
  kTensorV2,
  kTensorV3,
  kParameter,
  kStorageClass,  ///< of a dtype; untyped where it has none
  kDtype,
};

struct PickleGlobal {
  std::string_view name;
  PickleCallable callable;
  std::optional<DType> dtype;
};

/// @param name  "module.name"; nullptr for one that is not allowed
const PickleGlobal* find_pickle_global(std::string_view name) noexcept;

}  // namespace gbcompress
