#pragma once
/// A session of ONNX Runtime from a .gbz file, by its C API.

#include <onnxruntime_c_api.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parts.h"

/// Runs a model with one input and one output of float32.
class Session {
 public:
  /// @throws std::runtime_error
  explicit Session(const std::string& filename);

  /// @param input  rows of the input, whose first dimension is the number of rows
  /// @throws std::runtime_error
  std::vector<float> run(std::span<const float> input);

 private:
  template <typename T>
  using Handle = std::unique_ptr<T, void(ORT_API_CALL*)(T*)>;

  void check(OrtStatus* status) const;
  void add_weights(OrtSessionOptions* options, Parts& parts);
  Handle<OrtValue> value(void* data, std::size_t bytes, std::span<const std::int64_t> shape,
                         int type);
  std::vector<std::int64_t> input_shape(std::size_t elements) const;
  std::string name(bool output) const;

  const OrtApi& api_ = *OrtGetApiBase()->GetApi(ORT_API_VERSION);
  Handle<OrtMemoryInfo> memory_{nullptr, api_.ReleaseMemoryInfo};
  Handle<OrtEnv> environment_{nullptr, api_.ReleaseEnv};
  Handle<OrtSession> session_{nullptr, api_.ReleaseSession};
};
