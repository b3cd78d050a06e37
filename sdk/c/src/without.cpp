// In place of parts that a build of libgbz leaves out: files that need them are refused with a
// sentence.
#include <zstd.h>

#include "call.h"
#include "codec/small/small_coder.h"

namespace {

[[noreturn, maybe_unused]] void refuse(const char* text) { gbz::end_call(GBZ_UNSUPPORTED, text); }

}  // namespace

#ifdef GBZ_WITHOUT_ZSTD
static const char kNoZstd[] =
    "the file has sections of zstd, which this build of libgbz leaves out";
unsigned long long gbz::zstd_content_size(const void*, std::size_t) { refuse(kNoZstd); }
std::size_t gbz::zstd_frame_size(const void*, std::size_t) { refuse(kNoZstd); }
std::size_t gbz::zstd_decompress(void*, std::size_t, const void*, std::size_t) { refuse(kNoZstd); }
#endif

namespace gbcompress::codec {

#ifdef GBZ_WITHOUT_SMALL
std::unique_ptr<DecoderBackend> make_small_decoder(std::span<const std::byte>) {
  refuse("the file has the profile small, which this build of libgbz leaves out");
}
#endif

}  // namespace gbcompress::codec
