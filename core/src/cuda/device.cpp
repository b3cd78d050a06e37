#include "cuda/device.h"

#include <string>

#include "gbcompress/error.h"

namespace gbcompress::cuda {
namespace {

[[noreturn]] void unusable(const std::string& why) {
  throw Error(Errc::kUsage,
              "kernel cuda needs an NVIDIA GPU of sm_80 or newer: " + why + "; use kernel fused");
}

}  // namespace

Device::Device(const Module& module, std::int32_t index, void* stream)
    : module_(module), index_(index), stream_(stream) {
  std::int32_t count = 0, driver = 0;
  if (const char* error = module.devices(&count, &driver)) unusable(printable(error));
  if (count == 0) unusable("this machine has none");
  if (index < 0 || index >= count)
    unusable("there is no number " + std::to_string(index) + " among " + std::to_string(count));
  DeviceFacts facts;
  check(module.facts(index, &facts), "report its properties");
  if (facts.major < 8)
    unusable(printable(facts.name) + " is sm_" + std::to_string(facts.major) +
             std::to_string(facts.minor));
}

void Device::check(const char* error, const char* doing) const {
  if (error)
    throw Error(Errc::kFailure, "GPU " + std::to_string(index_) + " could not " + doing + ": " +
                                    printable(error) + "; see `gbcompress doctor`");
}

void* Device::allocate(std::int64_t bytes) const {
  void* memory = nullptr;
  check(module_.allocate(&memory, bytes, stream_),
        ("allocate " + std::to_string(bytes) + " bytes").c_str());
  return memory;
}
void Device::release(void* memory) const noexcept { module_.release(memory, stream_); }
void Device::copy(void* to, const void* from, std::int64_t bytes) const {
  check(module_.copy(to, from, bytes, stream_), "copy memory");
}
void Device::finish() const { check(module_.finish(stream_), "finish its work"); }
bool Device::holds(const void* memory) const {
  bool answer = false;
  check(module_.on_device(memory, &answer), "report the owner of a pointer");
  return answer;
}
void Device::launch(Operation operation, const Arguments& args, const Grid& grid) const {
  check(module_.launch(operation, &args, &grid, stream_), "start a kernel");
}

Device::Use::Use(const Device& device) : device_(device) {
  device.check(device.module_.use(device.index_, &before_), "be made current");
}
Device::Use::~Use() {
  std::int32_t ignored = 0;
  device_.module_.use(before_, &ignored);
}

}  // namespace gbcompress::cuda
