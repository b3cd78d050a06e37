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
#include "artifact/header/spec_fields.h"

namespace gbcompress {

inline constexpr std::size_t kNotTied = std::numeric_limits<std::size_t>::max();

struct TensorFields {
  std::string name;
  std::optional<DType> dtype;
  std::optional<std::vector<std::int64_t>> shape;
  std::optional<SpecFields> spec;
  std::optional<std::vector<std::int64_t>> grid;
  std::optional<std::vector<std::int64_t>> levels;
  std::optional<std::uint64_t> value;
  std::optional<unsigned> form;  ///< of values: 1 with row steps, plus 2 where dependent
  std::optional<Coding> coding;
  int mantissa_bits = 0;
  int axis = -1;
  std::size_t base = 0;  ///< from 1 on; 0: none is named
  bool change = false;
  std::optional<std::vector<TensorPiece>> pieces;
  std::uint32_t block_type = 0;
  std::optional<BlockSource> source;
  std::string source_name;
  std::size_t tied = kNotTied;
  SectionEntry section;

  bool has_spec() const { return optional_parts::kGnets && spec; }
};

/// Checks which keys go together; what they say of the tensor is for the caller to check.
/// @throws Error(kTruncated, kCorrupt, kUnsupported)
TensorFields read_tensor_fields(CborReader& in);
/// From 1 on. @throws Error(kCorrupt, kUnsupported)
std::size_t read_base(CborReader& in);
/// Sets the size of a section that is not packed. @throws Error(kCorrupt) for a packing that the
/// tensor's elements do not have
void check_packing(const CborReader& in, const ArtifactTensor& tensor, SectionEntry& section);

}  // namespace gbcompress
