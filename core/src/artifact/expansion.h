#pragma once
/// Tensors of a file in the order in which somebody writes them, decoded ahead on threads as far as
/// memory allows.

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "artifact/file_parts.h"
#include "artifact/lookahead.h"
#include "gbcompress/decode.h"

namespace gbcompress {

class Expansion {
 public:
  /// @param order  indices of the tensors that next() gives, one after another
  /// @throws as DecodeOptions::builder, before anything is decoded
  Expansion(const ArtifactReader& artifact, std::vector<std::size_t> order,
            const DecodeOptions& options);

  /// Calls sink(piece) for the bytes of the next tensor; the file's digest is checked with those
  /// of the last one. @throws as decode_elements() and check_digest(); Error(kInterrupted)
  void next(const std::function<void(std::span<const std::byte>)>& sink);

 private:
  void give(const std::function<void(std::span<const std::byte>)>& sink);

  const ArtifactReader& artifact_;
  std::size_t tensors_;
  std::optional<FileParts> parts_;
  std::optional<Lookahead<FileParts::Made>> ahead_;
  std::optional<FileParts::Made> current_;
  std::size_t tensor_ = 0, part_ = 0;
};

}  // namespace gbcompress
