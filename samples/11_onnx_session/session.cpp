#include "session.h"

#include <stdexcept>

void Session::check(OrtStatus* status) const {
  if (!status) return;
  const std::string text = api_.GetErrorMessage(status);
  api_.ReleaseStatus(status);
  throw std::runtime_error(text);
}

Session::Handle<OrtValue> Session::value(void* data, std::size_t bytes,
                                         std::span<const std::int64_t> shape, int type) {
  OrtValue* made = nullptr;
  check(api_.CreateTensorWithDataAsOrtValue(memory_.get(), data, bytes, shape.data(), shape.size(),
                                            static_cast<ONNXTensorElementDataType>(type), &made));
  return {made, api_.ReleaseValue};
}

/// The weights replace initializers of their names, whose external data are not looked for. They
/// have to stay until the session is created, which takes what it needs.
void Session::add_weights(OrtSessionOptions* options, Parts& parts) {
  std::vector<const char*> names;
  std::vector<Handle<OrtValue>> values;
  std::vector<const OrtValue*> pointers;
  for (Weights& each : parts.weights) {
    names.push_back(each.name.c_str());
    values.push_back(value(each.data.data(), each.data.size(), each.shape, each.type));
    pointers.push_back(values.back().get());
  }
  if (!names.empty())
    check(api_.AddExternalInitializers(options, names.data(), pointers.data(), names.size()));
}

Session::Session(const std::string& filename) {
  Parts parts = decode_parts(filename);
  OrtMemoryInfo* memory = nullptr;
  check(api_.CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory));
  memory_.reset(memory);
  OrtEnv* environment = nullptr;
  check(api_.CreateEnv(ORT_LOGGING_LEVEL_WARNING, "gbz", &environment));
  environment_.reset(environment);
  OrtSessionOptions* made = nullptr;
  check(api_.CreateSessionOptions(&made));
  const Handle<OrtSessionOptions> options(made, api_.ReleaseSessionOptions);
  add_weights(made, parts);
  OrtSession* session = nullptr;
  check(api_.CreateSessionFromArray(environment_.get(), parts.model.data(), parts.model.size(),
                                    made, &session));
  session_.reset(session);
}

std::string Session::name(bool output) const {
  OrtAllocator* allocator = nullptr;
  char* found = nullptr;
  check(api_.GetAllocatorWithDefaultOptions(&allocator));
  check((output ? api_.SessionGetOutputName : api_.SessionGetInputName)(session_.get(), 0,
                                                                        allocator, &found));
  const std::string result = found;
  check(api_.AllocatorFree(allocator, found));
  return result;
}

std::vector<std::int64_t> Session::input_shape(std::size_t elements) const {
  OrtTypeInfo* found = nullptr;
  check(api_.SessionGetInputTypeInfo(session_.get(), 0, &found));
  const Handle<OrtTypeInfo> info(found, api_.ReleaseTypeInfo);
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  check(api_.CastTypeInfoToTensorInfo(info.get(), &tensor));
  std::size_t rank = 0;
  check(api_.GetDimensionsCount(tensor, &rank));
  std::vector<std::int64_t> shape(rank);
  check(api_.GetDimensions(tensor, shape.data(), rank));
  std::int64_t row = 1;
  for (std::size_t i = 1; i < rank; ++i) row *= shape[i];
  if (rank == 0 || row <= 0 || elements % static_cast<std::size_t>(row) != 0)
    throw std::runtime_error("the input has no whole rows of the model's");
  shape[0] = static_cast<std::int64_t>(elements) / row;
  return shape;
}

std::vector<float> Session::run(std::span<const float> input) {
  const std::string in = name(false), out = name(true);
  const char *in_name = in.c_str(), *out_name = out.c_str();
  const auto given = value(const_cast<float*>(input.data()), input.size_bytes(),
                           input_shape(input.size()), ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  const OrtValue* inputs = given.get();
  OrtValue* made = nullptr;
  check(api_.Run(session_.get(), nullptr, &in_name, &inputs, 1, &out_name, 1, &made));
  const Handle<OrtValue> result(made, api_.ReleaseValue);
  OrtTensorTypeAndShapeInfo* found = nullptr;
  check(api_.GetTensorTypeAndShape(result.get(), &found));
  const Handle<OrtTensorTypeAndShapeInfo> info(found, api_.ReleaseTensorTypeAndShapeInfo);
  std::size_t count = 0;
  check(api_.GetTensorShapeElementCount(info.get(), &count));
  void* data = nullptr;
  check(api_.GetTensorMutableData(result.get(), &data));
  const auto* values = static_cast<const float*>(data);
  return {values, values + count};
}
