#pragma once
/// Mutations that know a format: they change what lies under digests, lengths and checksums, and
/// make those fit again, so that the change gets past the first check.

#include <cstddef>
#include <cstdint>

namespace gbcompress::fuzz {

/// A `.gbz`: its unpacked header, or its sections; now and then the bytes as they are.
std::size_t mutate_artifact(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);
/// A zip of stored entries: the content of one of them, most often of a pickle.
std::size_t mutate_zip(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);
/// Protocol buffers: the content of one field at any depth, with the lengths of the messages around
/// it.
std::size_t mutate_proto(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);
/// A GGUF file: one text or number of its list of metadata and tensors, with the length of the text
/// and the padding behind the list.
std::size_t mutate_gguf(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);
/// The manifest of a checkpoint: its CBOR, under the SHA-256 at its end.
std::size_t mutate_manifest(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);
/// A shard: its table and its sections, with the sizes in its head.
std::size_t mutate_shard(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);

}  // namespace gbcompress::fuzz
