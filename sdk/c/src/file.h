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

/// A model that a delta was made from, in the order of names.
struct Base {
  struct Tensor {
    std::string name;
    gbcompress::DType dtype;
    std::vector<std::int64_t> shape;
    std::span<const std::byte> bytes;
  };
  std::vector<Tensor> entries;

  const Tensor* find(std::string_view name) const;
};

/// An initializer whose elements lie outside of its model.
struct Initializer {
  gbz_initializer told = {};
  std::string name, location;
  std::vector<std::int64_t> shape;
  std::size_t hole = 0;  ///< of the whole model
};

/// A model whose large initializers lie outside of its bytes.
struct Split {
  gbcompress::ContainerFile graph;
  std::uint64_t bytes = 0;  ///< of the graph
  std::vector<Initializer> initializers;
};

/// A model of ONNX that the file holds.
struct Model {
  gbcompress::Container container;
  std::size_t tensor;                  ///< that holds the container
  std::optional<std::uint64_t> bytes;  ///< once they are known
  std::vector<std::uint64_t> sizes;    ///< of what fills each hole, once they are known
  std::optional<Split> split;
};

}  // namespace gbz

struct gbz_file {
  gbz_file(const gbz_allocator& allocator, std::uint64_t most)
      : allocator(allocator), arena(allocator, most) {}

  gbz_allocator allocator;
  gbz::Arena arena;
  const std::byte* bytes = nullptr;
  gbz::Contents* contents = nullptr;
  gbz::Base* bases[gbcompress::kMostBases] = {};  ///< in the order of the reader's
  gbz::Model* model = nullptr;
  bool spoiled = false;  ///< a call ended inside of the decoder, which is not used any more
};

namespace gbz {

const gbcompress::ArtifactTensor* tensor_of(const gbz_file* file, std::size_t tensor);
gbcompress::DecodeOptions decode_options(const gbz_file& file);
/// Finds tensors in the bases that the file was given.
gbcompress::BaseSource base_source(const gbz_file& file);
/// @throws Error(kUsage) where an earlier call ended inside of the decoder
void check_unspoiled(const gbz_file& file);
/// What has to hold before the decoder is entered. @throws Error(kUsage, kUnsupported)
void check_readable(const gbz_file& file, std::size_t tensor);

/// run() whose memory goes at its end, unless keeps(status).
template <typename Keeps, typename Body>
gbz_status run_keeping(gbz_file& file, gbz_error* error, const Keeps& keeps, const Body& body) {
  const gbz_status status = run(file.arena, error, [&] {
    file.arena.try_out();
    body();
  });
  file.arena.end_trial(keeps(status));
  return status;
}
/// Of what leaves nothing behind, whatever it finds.
template <typename Body>
gbz_status check(gbz_file& file, gbz_error* error, const Body& body) {
  return run_keeping(
      file, error, [](gbz_status) { return false; }, body);
}
/// Of what sets the handle up without the decoder.
template <typename Body>
gbz_status set(gbz_file& file, gbz_error* error, const Body& body) {
  return run_keeping(
      file, error, [](gbz_status status) { return status == GBZ_OK; }, body);
}
/// Whether the decoder was left in the middle of its work.
inline bool spoils(gbz_status status) {
  return status != GBZ_OK && status != GBZ_USAGE && status != GBZ_UNSUPPORTED;
}
/// Of what uses the decoder. Where its input is bad it is not used any more, so that what it took
/// in this call goes. @throws Error(kUsage) after such an end
template <typename Body>
gbz_status use(gbz_file& file, gbz_error* error, const Body& body) {
  const auto keeps = [&](gbz_status status) {
    file.spoiled |= spoils(status);
    return !spoils(status);
  };
  return run_keeping(file, error, keeps, [&] {
    check_unspoiled(file);
    body();
  });
}

}  // namespace gbz
