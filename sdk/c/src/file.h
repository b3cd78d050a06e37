#pragma once
/// What is behind a handle of gbz.h.

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "call.h"
#include "format/container.h"
#include "gbcompress/decode.h"

namespace gbz {

/// What was found when the file was opened; in the arena, as everything that it points to.
struct Contents {
  gbcompress::ArtifactReader reader;
  std::unordered_map<std::string_view, std::size_t> places;  ///< of names
  std::vector<double> bits;                                  ///< of each tensor
};

/// The model that a delta was made from, in the order of names.
struct Base {
  struct Entry {
    std::string name;
    gbcompress::DType dtype;
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;
  };
  std::vector<Entry> entries;

  const Entry* find(std::string_view name) const;
};

/// A model of ONNX that the file holds.
struct Model {
  gbcompress::Container container;
  std::size_t tensor;  ///< that holds the container
  std::uint64_t bytes;
};

}  // namespace gbz

struct gbz_file {
  gbz_file(const gbz_allocator& allocator, std::uint64_t most)
      : allocator(allocator), arena(allocator, most) {}

  gbz_allocator allocator;
  gbz::Arena arena;
  const std::byte* bytes = nullptr;
  gbz::Contents* contents = nullptr;
  gbz::Base* base = nullptr;
  gbz::Model* model = nullptr;
  bool spoiled = false;  ///< a call ended inside of the decoder, which is not used any more
};

namespace gbz {

const gbcompress::ArtifactTensor* tensor_of(const gbz_file* file, std::size_t tensor);
gbcompress::DecodeOptions decode_options(const gbz_file& file);
/// What has to hold before the decoder is entered. @throws Error(kUsage, kUnsupported)
void check_readable(const gbz_file& file, std::size_t tensor);

/// run() of what allocates nothing that stays: what it took is given back whatever it finds.
template <typename Body>
gbz_status check(gbz_file& file, gbz_error* error, const Body& body) {
  const std::uint64_t mark = file.arena.mark();
  const gbz_status status = run(file.arena, error, body);
  file.arena.release_since(mark);
  return status;
}
/// run() of what uses the decoder, which is left in the middle of its work where its input is bad.
template <typename Body>
gbz_status use(gbz_file& file, gbz_error* error, const Body& body) {
  const gbz_status status = run(file.arena, error, body);
  file.spoiled = status != GBZ_OK && status != GBZ_USAGE && status != GBZ_UNSUPPORTED;
  return status;
}

}  // namespace gbz
