// In place of parts that a build of libgbz leaves out: files that need them are refused with a
// sentence.
#include <zstd.h>

#include "artifact/header/spec_fields.h"
#include "artifact/integers/integers.h"
#include "artifact/pieces.h"
#include "artifact/sections/blocks.h"
#include "artifact/sections/requantized.h"
#include "call.h"
#include "codec/small/small_coder.h"
#include "format/gguf/block_fields.h"
#include "gbcompress/arch_layout.h"
#include "gbcompress/codec.h"
#include "gnet/tile_kernel.h"

namespace {

[[noreturn, maybe_unused]] void refuse_part(const char* text) {
  gbz::end_call(GBZ_UNSUPPORTED, text);
}

}  // namespace

#ifdef GBZ_WITHOUT_ZSTD
static const char kNoZstd[] =
    "the file has sections of zstd, which this build of libgbz leaves out";
unsigned long long gbz::zstd_content_size(const void*, std::size_t) { refuse_part(kNoZstd); }
std::size_t gbz::zstd_frame_size(const void*, std::size_t) { refuse_part(kNoZstd); }
std::size_t gbz::zstd_decompress(void*, std::size_t, const void*, std::size_t) {
  refuse_part(kNoZstd);
}
#endif

namespace gbcompress::codec {

#ifdef GBZ_WITHOUT_SMALL
std::unique_ptr<DecoderBackend> make_small_decoder(std::span<const std::byte>) {
  refuse_part("the file has the profile small, which this build of libgbz leaves out");
}
#endif

}  // namespace gbcompress::codec

#ifdef GBZ_WITHOUT_PIECES
namespace gbcompress {

// The header is refused, so that the others are never called.
static const char kNoPieces[] =
    "the file has tensors of pieces, which this build of libgbz leaves out";
std::vector<TensorPiece> read_pieces(CborReader&) { refuse_part(kNoPieces); }
void set_pieces(const CborReader&, ArtifactTensor&, std::vector<TensorPiece>) {
  refuse_part(kNoPieces);
}
std::vector<std::byte> join_pieces(const ArtifactReader&, std::size_t, const BaseSource&) {
  refuse_part(kNoPieces);
}

}  // namespace gbcompress
#endif

#ifdef GBZ_WITHOUT_BLOCKS
namespace gbcompress {

// The header is refused, so that the others are never called.
static const char kNoBlocks[] =
    "the file has blocks of quantized types, which this build of libgbz leaves out";
const gguf::BlockLayout* gguf::find_block_layout(std::uint32_t) noexcept { refuse_part(kNoBlocks); }
std::vector<std::byte> unpack_blocks(std::span<const std::byte>, std::size_t, std::uint32_t,
                                     const std::string&, bool) {
  refuse_part(kNoBlocks);
}
std::vector<std::byte> unpack_requantized(std::span<const std::byte>, std::uint32_t,
                                          const BaseValues&, std::size_t, const std::string&, int) {
  refuse_part(kNoBlocks);
}

}  // namespace gbcompress
#endif

#ifdef GBZ_WITHOUT_DELTAS
namespace gbcompress {

// The header is refused, so that the other is never called.
static const char kNoDeltas[] =
    "the file has changes since a base, which this build of libgbz leaves out";
bool has_change(DType) noexcept { refuse_part(kNoDeltas); }
void apply_change(DType, std::span<const std::int64_t>, std::span<const std::byte>,
                  std::span<std::byte>) {
  refuse_part(kNoDeltas);
}

}  // namespace gbcompress

gbz_status gbz_set_base(gbz_file*, const gbz_tensor*, std::size_t, gbz_error* error) {
  return gbz::refuse(error, GBZ_UNSUPPORTED, "this build of libgbz leaves out deltas");
}
#endif

#ifdef GBZ_WITHOUT_GNETS
namespace gbcompress {

// The header is refused, so that the others are never called.
static const char kNoGnets[] = "the file has g-nets, which this build of libgbz leaves out";
SpecFields read_spec(CborReader&) { refuse_part(kNoGnets); }
GNetSpec complete_spec(SpecFields, const std::vector<std::int64_t>&) { refuse_part(kNoGnets); }
std::vector<ParameterBlock> gnet_blocks(const GNetSpec&) { refuse_part(kNoGnets); }
std::int64_t gnet_inputs(const GNetSpec&) { refuse_part(kNoGnets); }
std::int64_t gnet_parameters(const GNetSpec&) { refuse_part(kNoGnets); }
std::int64_t spec_parameters(const GNetSpec&) { refuse_part(kNoGnets); }
BankShape bank_shape(const GNetSpec&) { refuse_part(kNoGnets); }
TileGrid::TileGrid(std::vector<std::int64_t>, MatrixView, std::int64_t, std::int64_t) {
  refuse_part(kNoGnets);
}
TileExtent TileGrid::extent(std::int64_t) const { refuse_part(kNoGnets); }
std::unique_ptr<TileKernel> make_reference_kernel() { refuse_part(kNoGnets); }
bool has_prior_classes(const ArtifactTensor&) noexcept { return false; }
std::vector<std::uint8_t> prior_classes(const ArtifactTensor&, std::span<const std::int32_t>) {
  refuse_part(kNoGnets);
}
TileKernel::~TileKernel() = default;
void TileKernel::forward(const BankShape&, std::span<const float>,
                         std::span<const TileTarget>) const {
  refuse_part(kNoGnets);
}

}  // namespace gbcompress
#endif

#ifdef GBZ_WITHOUT_ARCHITECTURES
std::optional<std::vector<gbcompress::LayoutEntry>> gbcompress::arch_layout(std::string_view) {
  refuse_part("the file names an architecture, whose layout this build of libgbz leaves out");
}
#endif

#ifdef GBZ_WITHOUT_ONNX
static gbz_status refuse_model(gbz_error* error) {
  return gbz::refuse(error, GBZ_UNSUPPORTED, "this build of libgbz leaves out models of ONNX");
}
gbz_status gbz_onnx_bytes(gbz_file*, std::uint64_t*, gbz_error* error) {
  return refuse_model(error);
}
gbz_status gbz_onnx(gbz_file*, void*, std::size_t, gbz_error* error) { return refuse_model(error); }
gbz_status gbz_onnx_split(gbz_file*, std::uint64_t, std::size_t*, std::uint64_t*,
                          gbz_error* error) {
  return refuse_model(error);
}
gbz_status gbz_onnx_graph(gbz_file*, void*, std::size_t, gbz_error* error) {
  return refuse_model(error);
}
const gbz_initializer* gbz_onnx_initializer(const gbz_file*, std::size_t) { return nullptr; }
gbz_status gbz_onnx_read(gbz_file*, std::size_t, void*, std::size_t, gbz_error* error) {
  return refuse_model(error);
}
#endif
