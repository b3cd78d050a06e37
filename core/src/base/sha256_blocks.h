#pragma once
/// The compression function of SHA-256 (FIPS 180-4, section 6.2.2), in portable C++ and in the SHA
/// instructions of x86-64 processors. Both give the same bits.

#include <array>
#include <cstddef>
#include <cstdint>

namespace gbcompress {

inline constexpr std::size_t kSha256Block = 64;  ///< bytes
using Sha256State = std::array<std::uint32_t, 8>;

/// Adds `count` blocks of kSha256Block bytes to a state.
using Sha256Blocks = void (*)(Sha256State& state, const std::byte* blocks, std::size_t count);

void sha256_blocks_portable(Sha256State& state, const std::byte* blocks, std::size_t count);
/// Null where the processor has no SHA instructions, or this build does not know its kind.
Sha256Blocks sha256_blocks_native();

}  // namespace gbcompress
