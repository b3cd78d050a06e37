#pragma once
/// How a group of ranks is opened: backend, timeouts, addresses. No LibTorch.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

enum class RankBackend : std::uint8_t {
  kGloo,  ///< through the host
  kNccl,  ///< through one GPU a rank: NCCL in libgbcompress_cuda.so
};
struct GroupOptions {
  /// How long to wait for a rank that is silent, or that does not enter a collective. 100 ms to 24
  /// h.
  std::chrono::milliseconds timeout{120'000};
  /// How long the start may take; 0: as `timeout`.
  std::chrono::milliseconds start_timeout{0};
  /// Which of this machine's addresses other ranks connect to: "" for loopback only, an address, a
  /// network interface, or "any". Needed as soon as ranks run on several machines.
  std::string listen;
  RankBackend backend = RankBackend::kGloo;
  /// Of kNccl; empty: libgbcompress_cuda.so beside libgbcompress.so.
  std::filesystem::path module;
};

/// What this machine has for RankBackend::kNccl, in words.
struct NcclStatus {
  std::string versions;  ///< "header 2.28.9, library 2.28.9"; empty: no module, or one without NCCL
  std::string problem;   ///< the two do not fit together
};
NcclStatus nccl_status(const std::filesystem::path& module = {});

}  // namespace gbcompress
