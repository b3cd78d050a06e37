#pragma once
/// Calibration: of the files that second-order statistics give at one size, the one whose model has
/// the least error on held-out samples (docs/explanation/calibration.md). No LibTorch.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/statistics.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"
#include "gbcompress/weights.h"

namespace GBC_API gbcompress {

/// What runs the model that is compressed: LibTorch, PyTorch and onnxruntime have one each.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  /// Error of the outputs with the weights of a file, on samples that the statistics have not seen:
  /// KL divergence in nats a prediction, or the squared error over the variance. NaN is worse than
  /// any number.
  virtual double error(const std::filesystem::path& file) = 0;
  /// More is better: chooses between candidates in place of the error. Nothing: the error chooses.
  virtual std::optional<double> quality(const std::filesystem::path&) { return {}; }
  /// Vectors that fit the weights of a file better than its own do, by the names of their tensors:
  /// statistics of batch norms. Empty: there are none.
  virtual std::map<std::string, std::vector<float>> refitted(const std::filesystem::path& file) = 0;
  /// The model, to be quantized layer by layer; null: it cannot be.
  virtual SequentialModel* sequential() { return nullptr; }
};

struct CandidateError {
  std::string name;
  std::int64_t bytes = 0;
  double error = 0;  ///< Evaluator::error()
};

struct CalibratedFile {
  std::filesystem::path file;
  WeightsReport report;  ///< before vectors were refitted, but for its size and identity
  std::string method;    ///< the name of its candidate
  double error = 0;
  std::optional<double> quality = {};      ///< Evaluator::quality()
  std::vector<CandidateError> candidates;  ///< that were tried at this size, in their order
};

struct CalibrationOptions {
  /// Of every file; sizes, statistics and their use are set for each.
  WeightsOptions weights = {};
  std::filesystem::path folder;  ///< for the files of the candidates
  /// Whether another candidate may be begun; unset: there is no limit. The first two are made in
  /// any case: the one without statistics, and the one that is recommended. Without a limit others
  /// are made while those before have at most 60 million weights together.
  std::function<bool()> time = {};
  std::function<void(const CandidateError&)> tell = {};  ///< of each, when it is there
  /// Runs the work on one file; unset: as it is called. For callers whose thread has to do other
  /// things meanwhile.
  std::function<void(const std::function<void()>&)> run = {};
};

/// Files of one model, under one set of statistics.
class Calibration {
 public:
  /// @param weights, statistics, evaluator  have to outlive it
  Calibration(const TensorBundle& weights, const Statistics& statistics, Evaluator& evaluator,
              CalibrationOptions options);
  ~Calibration();

  /// The file with the least error of at most so many bytes, if there is one. At a further size,
  /// only candidates are tried that were best before.
  /// @throws as compress_weights(), and what the evaluator throws
  CalibratedFile best(std::int64_t bytes);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gbcompress
