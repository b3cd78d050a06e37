#pragma once
/// What the tensors of a model lose on their way to a file.

#include <optional>

#include "compress/compress_run.h"
#include "format/tensor_bundle.h"

namespace gbcompress {

/// The model's tensors as they are now, in its order, in their own types; tied ones share their
/// bytes. Values that are float32 and contiguous are the model's own memory.
/// @param values  if not empty, instead of what the model holds
TensorBundle model_bundle(const Model& model, const std::vector<at::Tensor>& values = {});

/// The values that a file is compared with: those of the model before anything is trained.
class Originals {
 public:
  /// Copies them on rank 0, unless the model begins with random values, or the call has them.
  explicit Originals(const CompressRun& call);
  /// How every tensor is stored and its errors; tells where more than half of a tensor's energy
  /// is gone. To be called on rank 0 before the file is written.
  std::vector<StoredTensor> compare(const CompressRun& call,
                                    const std::vector<std::byte>& file) const;

 private:
  std::optional<TensorBundle> values_;
};

}  // namespace gbcompress
