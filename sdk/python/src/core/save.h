#pragma once
/// What save() and Calibration share: tensors, options and reports between Python and the core.

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "gbcompress/tensors.h"
#include "gbcompress/weights.h"

namespace gbcompress::python {

namespace nb = nanobind;

/// Tensors as read_tensors() gives them; their memory is not copied.
TensorBundle bundle_of(const nb::list& tensors);

struct WeightsSource {
  /// @param source  tensors as bundle_of() takes them, or the path of a model file or folder
  WeightsSource(const nb::object& source, const std::string& metadata);
  nb::object kept;  ///< whose memory the bundle refers to
  TensorBundle bundle;
  std::int64_t input_bytes;  ///< of the file, or of the tensors as safetensors
};

/// Rules for tensors by their names.
struct TensorRules {
  std::vector<std::string> exact;    ///< names that stay bit for bit
  std::vector<TensorTarget> layers;  ///< sizes and errors of matrices
};
/// Name, bits and max_error.
using LayerTuple = std::tuple<std::string, std::optional<double>, std::optional<double>>;
TensorRules rules_of(const std::vector<std::string>& exact, const std::vector<LayerTuple>& layers);

/// The options that the command line has for the same request.
/// @param metadata  JSON, or ""
WeightsOptions options_for(std::optional<double> ratio, std::optional<std::int64_t> max_bytes,
                           std::optional<double> max_error, const TensorRules& rules,
                           const std::string& metadata, int threads);

nb::dict to_dict(const WeightsReport& report);

}  // namespace gbcompress::python
