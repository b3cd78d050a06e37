#pragma once
/// A device as the core sees it: the module's calls with their failures turned into errors.

#include <span>
#include <utility>

#include "cuda/module.h"

namespace gbcompress::cuda {

class Device {
 public:
  /// @throws Error(kUsage) where the machine has no such GPU, or one before sm_80
  Device(const Module& module, std::int32_t index, void* stream);

  void* allocate(std::int64_t bytes) const;
  void release(void* memory) const noexcept;
  void copy(void* to, const void* from, std::int64_t bytes) const;
  void finish() const;
  bool holds(const void* memory) const;
  void launch(Operation operation, const Arguments& args, const Grid& grid) const;

  /// The thread's current device while it lives.
  class Use {
   public:
    explicit Use(const Device& device);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const Device& device_;
    std::int32_t before_ = 0;
  };

 private:
  void check(const char* error, const char* doing) const;
  const Module& module_;
  std::int32_t index_;
  void* stream_;
};

/// Memory of a device, freed in the order of its stream.
template <typename T>
class DeviceArray {
 public:
  DeviceArray() = default;
  DeviceArray(const Device& device, std::int64_t count)
      : device_(&device),
        data_(count > 0 ? static_cast<T*>(device.allocate(count * sizeof(T))) : nullptr) {}
  DeviceArray(const Device& device, std::span<const T> values)
      : DeviceArray(device, static_cast<std::int64_t>(values.size())) {
    if (data_) device.copy(data_, values.data(), static_cast<std::int64_t>(values.size_bytes()));
  }
  DeviceArray(DeviceArray&& other) noexcept : device_(other.device_), data_(other.data_) {
    other.data_ = nullptr;
  }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceArray() {
    if (data_) device_->release(data_);
  }
  T* data() const noexcept { return data_; }

 private:
  const Device* device_ = nullptr;
  T* data_ = nullptr;
};

}  // namespace gbcompress::cuda
