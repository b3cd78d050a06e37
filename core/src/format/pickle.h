#pragma once
/// The part of Python's pickle that torch.save writes for a state dict, read as data. Nothing is
/// imported, called or executed; a name outside a short list is an error.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/dtype.h"

namespace gbcompress {

inline constexpr std::size_t kMaxPickleBytes = 64 << 20;
inline constexpr std::size_t kMaxPickleValues = 4'000'000;

using PickleHandle = std::uint32_t;  ///< index into PickleTree::values

struct PickleValue {
  enum class Kind : std::uint8_t {
    kOpaque,   ///< None, a truth value, a fraction, a huge integer
    kInt,      ///< number
    kText,     ///< text, not checked to be UTF-8
    kTuple,    ///< items
    kList,     ///< items
    kDict,     ///< items: key, value, key, value, ...
    kGlobal,   ///< text: "torch.FloatStorage"; dtype of a storage class or dtype object
    kStorage,  ///< text: its key; number: its elements, or bytes where dtype is empty
    kTensor,   ///< items: storage, sizes, strides; number: offset in elements; dtype
  };
  Kind kind = Kind::kOpaque;
  std::optional<DType> dtype = {};
  std::int64_t number = 0;
  std::string text = {};
  std::vector<PickleHandle> items = {};
};

/// Values refer to each other by handle, so shared and even circular ones are harmless here; who
/// walks over them bounds depth and visits.
struct PickleTree {
  std::vector<PickleValue> values;
  PickleHandle root = 0;
};

/// @param label  what the bytes are, for messages
/// @throws Error(kUnsupported) naming a global or instruction that is not allowed;
/// Error(kTruncated);
///         Error(kCorrupt) for a program that makes no sense; Error(kLimit) above 64 MiB or
///         4,000,000 values
PickleTree read_pickle(std::span<const std::byte> bytes, const std::string& label);

}  // namespace gbcompress
