#pragma once
/// What a file is expanded in: stripes of tensors through warm buffers, other tensors whole.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "artifact/direct_values.h"
#include "artifact/sections/planes.h"
#include "gbcompress/decode.h"

namespace gbcompress {

class FileParts {
 public:
  /// Bytes of a part, in memory until it is destroyed, before the FileParts.
  class Made {
   public:
    explicit Made(DecodedTensor tensor) : tensor_(std::move(tensor)) {}
    Made(std::shared_ptr<std::vector<std::byte>> buffer, std::size_t size)
        : buffer_(std::move(buffer)), size_(size) {}
    std::span<const std::byte> bytes() const {
      return buffer_ ? std::span<const std::byte>(*buffer_).first(size_) : tensor_.bytes();
    }

   private:
    DecodedTensor tensor_;
    std::shared_ptr<std::vector<std::byte>> buffer_;
    std::size_t size_ = 0;
  };

  /// @param tensors  that are expanded, in the order of the file; untied
  /// @param whole    decodes one that is no integers in stripes
  FileParts(const ArtifactReader& artifact, std::span<const std::size_t> tensors,
            std::function<DecodedTensor(std::size_t tensor)> whole);

  /// How many parts the n-th tensor has.
  std::size_t parts(std::size_t n) const { return counts_[n]; }
  /// Of all parts.
  std::vector<std::int64_t> sizes() const;
  /// Whether no tensor is decoded as a whole.
  bool in_stripes() const { return whole_parts_ == 0; }
  /// Whether that part is decoded into memory of its own, as a whole tensor.
  bool is_whole(std::size_t part) const { return !parts_[part].values && !parts_[part].planes; }
  /// [thread-safe]
  Made make(std::size_t part);
  /// A part that is not whole into the caller's memory. [thread-safe]
  /// @param to  as many bytes as sizes() says, aligned for the tensor's elements
  void read(std::size_t part, std::span<std::byte> to);

 private:
  struct Part {
    std::size_t tensor, index;
    std::int64_t bytes;
    const DirectValues* values;  ///< of a tensor in stripes of integers, or null
    const PlanesReader* planes;  ///< of a tensor in stripes of planes, or null
  };
  void add_planes(std::size_t tensor, std::unique_ptr<const PlanesReader> planes);
  void decode(const Part& part, std::span<std::byte> to, std::span<std::byte> scratch);
  std::shared_ptr<std::vector<std::byte>> buffer();

  const ArtifactReader& artifact_;
  const std::function<DecodedTensor(std::size_t)> whole_;
  std::vector<std::unique_ptr<DirectValues>> values_;
  std::vector<std::unique_ptr<const PlanesReader>> planes_;
  std::vector<Part> parts_;
  std::vector<std::size_t> counts_;
  std::size_t whole_parts_ = 0;  ///< larger ones than a stripe
  std::size_t largest_ = 0;      ///< of parts in buffers
  std::mutex mutex_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> free_;
};

}  // namespace gbcompress
