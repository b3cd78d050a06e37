#pragma once
/// The map of one tensor in a header, as it is written.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "artifact/header/cbor_reader.h"
#include "artifact/header/header.h"
#include "artifact/header/plan_fields.h"

namespace gbcompress {

inline constexpr std::size_t kNotTied = std::numeric_limits<std::size_t>::max();

struct TensorFields {
  std::string name;
  std::optional<DType> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<PlanFields> plan;
  std::optional<std::vector<std::int64_t>> grid;
  std::optional<std::vector<std::int64_t>> levels;
  std::optional<std::uint64_t> value;
  std::optional<unsigned> form;  ///< of values: 1 with row steps, plus 2 where dependent
  std::optional<Coding> coding;
  int mantissa_bits = 0;
  int axis = -1;
  bool base = false;
  bool change = false;
  std::size_t tied = kNotTied;
  SectionEntry section;
};

/// Checks which keys go together; what they say of the tensor is for the caller to check.
/// @throws Error(kTruncated, kCorrupt, kUnsupported)
TensorFields read_tensor_fields(CborReader& in);

}  // namespace gbcompress
