#pragma once
/// Files of a model under statistics of training samples, compared on others.

#include <cstdint>
#include <functional>
#include <memory>

#include "compress/candidate.h"
#include "gbcompress/compress.h"
#include "gbcompress/train.h"
#include "gbcompress/weights.h"
#include "statistics/norm_correction.h"

namespace gbcompress {

struct CompressRun;

/// What is compared: the divergence of the outputs' distribution from the original's in nats, or
/// the squared error of outputs that are no scores of classes.
class CalibratedFiles {
 public:
  /// @param model    with its first values, batch norms not folded; must outlive this
  /// @param samples  of the training split; `count` of them are used
  /// @param held_out of the same split, none of `samples`
  CalibratedFiles(Model& model, const Dataset& samples, std::int64_t count, const Dataset& held_out,
                  std::uint64_t seed);
  ~CalibratedFiles();

  /// The file of at most so many bytes that loses least, if there is one. The model has its values
  /// then. On all ranks. [collective]
  /// @param call     with batch norms folded, and its original values
  /// @param options  of its file
  /// @param time     whether another candidate may be tried
  Candidate best(CompressRun& call, const WeightsOptions& options, std::int64_t bytes,
                 const std::function<bool()>& time);

  std::int64_t samples() const { return samples_.size(); }
  std::int64_t corrected_norms() const { return static_cast<std::int64_t>(norms_.size()); }

 private:
  struct Comparison;
  Model& model_;
  Dataset samples_, held_out_;
  NormCorrection norms_;
  std::uint64_t seed_;
  std::unique_ptr<Comparison> comparison_;  ///< on the first rank, from the first file on
};

}  // namespace gbcompress
