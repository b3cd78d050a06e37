#include "artifact/read_many.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "artifact/direct_values.h"
#include "artifact/file_digest.h"
#include "artifact/header/header.h"
#include "base/mapped_inputs.h"
#include "base/parallel.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// A part of a tensor that is decoded straight from its stripe, or a whole one.
struct Task {
  const ReadRequest* request;
  std::size_t tensor;
  const DirectValues* values = nullptr;  ///< null: the whole tensor
  std::size_t part = 0;
};

/// The tensor that holds the values of a tied one.
std::size_t owner_of(const ArtifactReader& artifact, std::size_t tensor) {
  const auto& tensors = artifact.tensors();
  if (tensor >= tensors.size() || tensors[tensor].kind != TensorKind::kTied) return tensor;
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const ArtifactTensor& each) {
    return each.name == tensors[tensor].tied_to;
  });
  return static_cast<std::size_t>(found - tensors.begin());
}

void read_part(const Task& task) {
  const LanesPart& part = task.values->parts()[task.part];
  const auto size = static_cast<std::size_t>(dtype_bits(task.request->dtype) / 8);
  task.values->read(task.part, task.request->dtype,
                    task.request->bytes.subspan(static_cast<std::size_t>(part.first) * size,
                                                static_cast<std::size_t>(part.size) * size));
}

void read_whole(const ArtifactReader& artifact, const Task& task, const DecodeOptions& options) {
  convert_elements(decode_elements(artifact, task.tensor, options).bytes(),
                   artifact.tensors()[task.tensor].dtype, task.request->dtype, task.request->bytes);
}

}  // namespace

void check_request(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
                   std::span<const std::byte> bytes) {
  const auto& tensors = artifact.tensors();
  if (tensor >= tensors.size()) throw Error(Errc::kUsage, "there is no such tensor");
  const ArtifactTensor& entry = tensors[tensor];
  const bool narrow = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
  if (dtype != entry.dtype && !(narrow && is_real(entry.dtype)))
    throw Error(Errc::kUsage, printable(entry.name) + " is of type " +
                                  std::string(dtype_name(entry.dtype)) + ", which is not read as " +
                                  std::string(dtype_name(dtype)) + "; request its own type");
  const std::int64_t needed = tensor_bytes(entry.shape, dtype);
  if (static_cast<std::int64_t>(bytes.size()) != needed)
    throw Error(Errc::kShapeMismatch, printable(entry.name) + " needs " + std::to_string(needed) +
                                          " bytes as " + std::string(dtype_name(dtype)) + ", " +
                                          std::to_string(bytes.size()) + " were given");
  const auto element = static_cast<std::uintptr_t>(std::max(1, dtype_bits(dtype) / 8));
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % element != 0)
    throw Error(Errc::kUsage, "the memory for " + printable(entry.name) +
                                  " is not aligned to its elements of " + std::to_string(element) +
                                  " bytes");
}

bool decodes_apart(const ArtifactReader& artifact) noexcept {
  return artifact.profile() != CodecProfile::kSmall &&
         std::none_of(artifact.tensors().begin(), artifact.tensors().end(),
                      [](const ArtifactTensor& tensor) { return has_plan(tensor.kind); });
}

bool reads_directly(const ArtifactReader& artifact, std::size_t tensor) noexcept {
  return DirectValues::fits(artifact, tensor);
}

namespace {

void read_checked(const ArtifactReader& artifact, std::span<const ReadRequest> requests,
                  const DecodeOptions& options) {
  const int threads = options.threads > 0 ? options.threads : usable_processors();
  const bool apart = decodes_apart(artifact);
  DecodeOptions alone = options;
  alone.threads = 1;
  std::deque<DirectValues> direct;
  std::vector<Task> tasks;
  for (const ReadRequest& request : requests) {
    const Task whole{&request, owner_of(artifact, request.tensor)};
    if (DirectValues::fits(artifact, whole.tensor)) {
      const DirectValues& values = direct.emplace_back(artifact, whole.tensor);
      for (std::size_t i = 0; i < values.parts().size(); ++i)
        tasks.push_back({&request, whole.tensor, &values, i});
    } else if (apart) {
      tasks.push_back(whole);
    } else {
      read_whole(artifact, whole, options);
    }
  }
  parallel_tasks(threads, static_cast<std::int64_t>(tasks.size()), [&](std::int64_t i) {
    const Task& task = tasks[static_cast<std::size_t>(i)];
    if (task.values)
      read_part(task);
    else
      read_whole(artifact, task, alone);
  });
  check_mapped_inputs();
}

}  // namespace

void read_many(const ArtifactReader& artifact, std::span<const ReadRequest> requests,
               const DecodeOptions& options) {
  for (const ReadRequest& request : requests)
    check_request(artifact, request.tensor, request.dtype, request.bytes);
  blame_damage(artifact, [&] { read_checked(artifact, requests, options); });
}

void read_into(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
               std::span<std::byte> bytes, const DecodeOptions& options) {
  const ReadRequest request{tensor, dtype, bytes};
  read_many(artifact, {&request, 1}, options);
}

}  // namespace gbcompress
