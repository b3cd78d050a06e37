#pragma once
/// Puts the tensors of a plan into a file.

#include <mutex>

#include "gbcompress/artifact.h"
#include "weights/plan.h"

namespace gbcompress {

class WeightsStore {
 public:
  /// Adds all tensors in their order; matrices have no integers before one of the others is called.
  /// @param folder  where large content waits
  WeightsStore(const WeightsPlan& plan, const WeightsOptions& options,
               const std::filesystem::path& folder, std::string settings);

  /// Integers of all matrices for the steps of x. @return bytes of the file
  std::int64_t place(double x);
  /// The coarsest steps of which no matrix loses more than that.
  std::int64_t place_error(double asked);
  /// The squared error of all matrices together over their squares, without making a file of it.
  double total_error(double x);
  /// place(x), with some tensors a sixteenth of an octave coarser: what total_error(x) leaves of
  /// `most` is used up.
  std::int64_t place_total(double x, double most);

  /// Bytes of the file as things stand; before anything is placed, about those of all others.
  std::int64_t size() const { return writer_.size(); }
  const ArtifactWriter& writer() const noexcept { return writer_; }

 private:
  void add(const TensorPlan& tensor);
  void add_exact(const TensorEntry& source);
  bool add_whole(const TensorEntry& source);
  bool add_vector(const TensorPlan& tensor);
  void for_matrices(const std::function<void(std::size_t, int)>& body);
  void put(const TensorPlan& tensor, CodedValues values);
  double total() const;

  const WeightsPlan& plan_;
  const WeightsOptions& options_;
  ArtifactWriter writer_;
  std::mutex mutex_;
  std::vector<double> errors_;  ///< relative, of each matrix as it was chosen last
  std::vector<int> nudges_;     ///< added to the index of each matrix's step
};

}  // namespace gbcompress
