#pragma once
// In place of zstd's header: what the decoder calls, defined in sdk/c/src/zstd.cpp.

#include <cstddef>

namespace gbz {

inline constexpr unsigned long long kUnknownSize = ~0ull, kNoFrame = ~0ull - 1;

/// The size that a frame states; kUnknownSize where it states none, kNoFrame for other bytes.
unsigned long long zstd_content_size(const void* bytes, std::size_t size);
/// Bytes of the frame at the beginning; is_zstd_error() of the result for what is none.
std::size_t zstd_frame_size(const void* bytes, std::size_t size);
/// @return bytes written, or an error: for what is no frame, and where `room` is too small
std::size_t zstd_decompress(void* to, std::size_t room, const void* bytes, std::size_t size);
inline bool is_zstd_error(std::size_t result) { return result > ~std::size_t{0} - 16; }

}  // namespace gbz

#define ZSTD_getFrameContentSize gbz::zstd_content_size
#define ZSTD_findFrameCompressedSize gbz::zstd_frame_size
#define ZSTD_decompress gbz::zstd_decompress
#define ZSTD_isError gbz::is_zstd_error
#define ZSTD_getErrorName(result) "it is damaged"
