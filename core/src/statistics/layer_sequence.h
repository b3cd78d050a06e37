#pragma once
/// A LibTorch model whose layers are quantized one after another.

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/model.h"
#include "gbcompress/statistics.h"
#include "model/model_snapshot.h"

namespace gbcompress {

/// Groups are of matrices that LayerInputs sees, but those of grouped convolutions and those wider
/// than moments are.
class LayerSequence final : public SequentialModel {
 public:
  /// @param model      must outlive this, as the originals
  /// @param originals  values of the original model
  /// @param samples    the first ones of them are used
  /// @param bytes      that inputs of the original model may take, unless those of one group need
  ///                   more
  LayerSequence(Model& model, const ModelSnapshot& originals, const Dataset& samples,
                std::int64_t bytes = kKeptInputs);

  std::vector<std::vector<std::string>> groups() override;
  void begin() override;
  void put(const std::string& name, std::span<const float> values) override;
  SequentialInputs inputs(const std::string& name) override;

  static constexpr std::int64_t kKeptInputs = 256 << 20;

 private:
  using Body = std::function<void(std::size_t, const at::Tensor& inputs, std::int64_t most)>;
  double find_groups();
  void measure_inputs();
  /// Instead of others keeps the original inputs of this group and of as many after it as there is
  /// memory for.
  void keep(std::size_t first);
  void for_batches(const Body& body) const;
  std::int64_t rows_of(std::int64_t count) const;  ///< that are kept of so many samples

  Model& model_;
  const ModelSnapshot& originals_;
  Dataset samples_;
  std::int64_t most_bytes_;
  std::vector<std::vector<std::size_t>> groups_;  ///< indices into model.tensors()
  std::map<std::string, std::size_t, std::less<>> index_;
  std::map<std::size_t, std::int64_t> bytes_;  ///< about, of all inputs of a group's first
  /// Of a group's first, by batch: rows of its inputs, call by call.
  std::map<std::size_t, std::vector<std::vector<at::Tensor>>> before_;
  std::map<std::size_t, at::Tensor> put_;  ///< since begin()
};

}  // namespace gbcompress
