#pragma once
/// Tensors of integer types: those of models that were quantized before.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "artifact/integers/packed_blocks.h"
#include "format/tensor_bundle.h"
#include "gbcompress/artifact.h"

namespace gbcompress {

/// The elements as integers, in whichever form takes the fewest bytes: as they are, wide, or as
/// nibbles. Nothing if the type is not an integer type, there are no elements, or the profile
/// cannot code them.
std::optional<CodedValues> whole_numbers(const TensorEntry& tensor, CodecProfile profile);

/// A large tensor's integers for ArtifactWriter::update_packed().
struct PackedNumbers {
  CodedValues form;  ///< without its integers
  std::vector<PackedBlock> blocks;
};
/// In the form that takes the fewest bytes for a sample; nothing where another packing of the
/// sample takes less, or the numbers are too large.
/// @param tensor  without has_repeats(), of which a sample tells nothing
std::optional<PackedNumbers> packed_numbers(const TensorEntry& tensor, int threads);

/// Whether pieces of large content are there several times.
bool has_repeats(std::span<const std::byte> bytes);

/// Whether integers of many values take as many bytes by their frequencies alone: contexts take
/// little from those, and coding them to find out takes longer than all else.
bool are_noise(std::span<const std::int32_t> integers, std::size_t bytes);

/// About what the integers take, coded by themselves.
double coded_bytes(const CodedValues& values, CodecProfile profile);

}  // namespace gbcompress
