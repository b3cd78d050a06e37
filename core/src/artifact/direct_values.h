#pragma once
/// Values of coded tensors, and numbers of integer types, straight from stripes of profile `lanes`.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "artifact/integers/lanes_reader.h"
#include "gbcompress/artifact.h"

namespace gbcompress {

class DirectValues {
 public:
  /// Whether a tensor's values are integers times steps in stripes, and nothing else, or whole
  /// numbers in stripes.
  static bool fits(const ArtifactReader& artifact, std::size_t tensor) noexcept;

  /// Decodes nothing yet: steps of rows are read with the first part.
  /// @param artifact  must outlive this
  DirectValues(const ArtifactReader& artifact, std::size_t tensor);

  /// Their values are elements of the tensor.
  const std::vector<LanesPart>& parts() const { return parts_; }
  /// A part's values in a dtype, rounded from the tensor's own. [thread-safe]
  /// @param dtype  of a real tensor F32, F16 or BF16; or the tensor's own
  /// @param bytes  of the part
  /// @throws Error(kCorrupt, kTruncated)
  void read(std::size_t part, DType dtype, std::span<std::byte> bytes) const;
  /// Integers of a part, of dependent grids in half steps. [thread-safe] @throws as read()
  void read_units(std::size_t part, std::span<float> units) const;
  struct Scales {
    float scale;              ///< what a unit stands for
#ifdef GBC_FREESTANDING       // where nothing else shares them
    std::vector<float> rows;  ///< one a row instead, or empty
    std::span<const float> of_rows() const { return rows; }
#else
    std::shared_ptr<const std::vector<float> > rows;  ///< one a row instead, or null
    std::span<const float> of_rows() const {
      return rows ? std::span(*rows) : std::span<const float>();
    }
#endif
  };
  /// @throws as read()
  const Scales& scales() const;
  /// All of them, side by side.
  void read_all(DType dtype, std::span<std::byte> bytes, int threads) const;

 private:
  const ArtifactReader& artifact_;
  std::size_t tensor_;
  DType own_;
  Scales read_scales() const;
  void read_numbers(const LanesPart& units, std::span<std::byte> bytes) const;

  std::vector<LanesPart> parts_;
  std::int64_t units_ = 1;  ///< coded integers of an element: its nibbles, or one
  mutable std::once_flag read_;
  mutable Scales scales_{};
};

/// Elements of one real dtype as those of another: widened, or rounded to nearest even.
void convert_elements(std::span<const std::byte> from, DType own, DType dtype,
                      std::span<std::byte> to);

}  // namespace gbcompress
