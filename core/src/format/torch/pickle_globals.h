#pragma once
/// What the names in a pickle stand for.

#include <optional>
#include <string_view>

#include "gbcompress/tensors.h"

namespace gbcompress {

enum class PickleCallable : std::uint8_t {
  kDict,            ///< OrderedDict, defaultdict
  kSet,             ///< set, frozenset
  kTuple,           ///< torch.Size
  kTensorV1,        ///< storage, offset, sizes, strides
  kTensorV2,        ///< ..., requires_grad, hooks
  kTensorV3,        ///< ..., dtype
  kTensorFromType,  ///< callable, class, arguments, attributes
  kParameter,       ///< tensor, requires_grad, hooks
  kStorageClass,    ///< of a dtype; untyped where it has none
  kDtype,
};

struct PickleGlobal {
  std::string_view name;
  PickleCallable callable;
  std::optional<DType> dtype;
  int item_bytes = 0;  ///< of a storage class; 1 for an untyped one
};

/// @param name  "module.name"; nullptr for one of no meaning here
const PickleGlobal* find_pickle_global(std::string_view name) noexcept;

}  // namespace gbcompress
