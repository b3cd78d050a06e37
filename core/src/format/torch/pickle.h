#pragma once
/// Python's pickle (protocols 2 to 5) as torch.save writes it, read as data. Nothing is imported,
/// called or executed: a function or class is its name, and an object of an unknown class is that
/// name beside its arguments and its state. Whoever needs what it stands for refuses it by the
/// name.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/tensors.h"

namespace gbcompress {

inline constexpr std::size_t kMaxPickleBytes = 64 << 20;
inline constexpr std::size_t kMaxPickleValues = 4'000'000;
inline constexpr std::size_t kMaxPickleMemory = 512 << 20;  ///< bytes that its values take

using PickleHandle = std::uint32_t;  ///< index into PickleTree::values

struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,     ///< number: 0 or 1
    kInt,      ///< number
    kFloat,    ///< number: bits of the double
    kOpaque,   ///< an integer beyond 64 bits
    kText,     ///< text, not checked to be UTF-8
    kBytes,    ///< text
    kTuple,    ///< items
    kList,     ///< items
    kSet,      ///< items
    kDict,     ///< items: key, value, key, value, ...; text: its class, unless a usual one
    kGlobal,   ///< text: "torch.FloatStorage"; dtype of a storage class or dtype object
    kStorage,  ///< text: its key; number: its elements, or bytes where dtype is empty; items: its
               ///< class, then of a view into it the first element and the elements
    kTensor,   ///< items: storage, sizes, strides; number: offset in elements; dtype
    kObject,   ///< text: its class or what would make it; items: arguments and state;
               ///< number: 1 if it stands for a tensor
  };
  Kind kind = Kind::kNone;
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

  const PickleValue& operator[](PickleHandle handle) const { return values[handle]; }
};

/// @param label  what the bytes are, for messages
/// @param used   where given, receives the program's length, which may be less than all bytes
/// @throws Error(kUnsupported) naming an instruction that is not read; Error(kTruncated);
///         Error(kCorrupt) for a program that makes no sense; Error(kLimit) above 64 MiB, 4,000,000
///         values, or 512 MiB of memory
PickleTree read_pickle(std::span<const std::byte> bytes, const std::string& label,
                       std::size_t* used = nullptr);

}  // namespace gbcompress
