#pragma once
/// Writes `.gbz` files (docs/reference/artifact-format.md). No LibTorch.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "gbcompress/artifact_tensor.h"
#include "gbcompress/packed_originals.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

class AtomicFile;
class Spool;
class WrittenDigest;
class ArtifactReader;
class PlanesWriter;

class ArtifactWriter {
 public:
  /// @param arch      what `--arch` was, or ""
  /// @param settings  resolved settings as JSON text, or ""
  /// @throws Error(kUsage) for text that is not UTF-8
  ArtifactWriter(std::string arch, std::string settings);

  /// @param theta  [tiles, gnet_parameters(spec)]
  /// @throws Error(kUsage) for a name that is taken or not allowed, a dtype that g-nets cannot be,
  ///         no type_id in the specification; Error(kNonFinite) naming the tensor; as validate()
  void add_generated(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                     const GNetSpec& spec, Coding coding, std::span<const float> theta);
  /// @param block_type  ggml's number of the quantized type whose blocks the bytes are; 0: none
  /// @param planes      planes_of() the bytes where that was called before; else null
  /// @throws Error(kUsage) as above; Error(kShapeMismatch) where bytes and shape do not fit
  void add_plain(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                 std::span<const std::byte> bytes, std::uint32_t block_type = 0,
                 std::shared_ptr<const PlanesWriter> planes = {});
  /// The same of bytes that are packed already.
  /// @param packed  the bytes, packed as `packing` says
  void add_packed(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                  std::vector<std::byte> packed, Packing packing, std::uint32_t block_type = 0);
  /// @param tied_to  a tensor added before that is not tied itself; else Error(kNotFound, kUsage)
  void add_tied(const std::string& name, const std::string& tied_to);
  /// @throws Error(kUsage, kShapeMismatch) as above, for steps out of range and for integers
  ///         beyond kMaxMagnitude; so do the next two
  void add_coded(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                 CodedValues values);
  /// A coded tensor whose integers are encoded already, by encode_section(); the file then has the
  /// profile lanes, and no more than one tensor's integers need to be in memory. Those of profile
  /// small stay a section of their own; some other tensor has to have integers in lanes.
  /// @param form     of the values, without their integers
  /// @param profile  encode_section()'s
  void add_coded_section(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                         const CodedValues& form, std::vector<std::byte> section,
                         CodecProfile profile = CodecProfile::kLanes);
  /// The g-nets' weights plus `values`: one product, one sum, each rounded to float32.
  void add_predicted(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                     const GNetSpec& spec, CodedTheta theta, CodedValues values);
  void add_generated_coded(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                           const GNetSpec& spec, CodedTheta theta);
  /// @param element  the bytes of one element; types below a byte are refused
  void add_constant(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                    std::span<const std::byte> element);
  /// Models that tensors may be a change of (decode.h); the file is a delta of those it refers to.
  /// @param digests  BaseModel::digest() of each; at most kMostBases, all different
  void set_bases(std::vector<std::string> digests);
  /// The file becomes a part of one with layers, for write_layers(): the draft, or the exact part,
  /// whose tensors of a base are those of the draft.
  void set_layer(Layer layer);
  /// BaseModel::digest() of the tensors themselves, by which a chain of deltas finds this file.
  void set_digest(std::string digest);
  /// What the files that the tensors were read from have beside them
  /// (docs/reference/original-files.md).
  void set_originals(PackedOriginals originals);
  /// A tensor that a base has, of that type and shape and bit for bit.
  /// @param base  its place in set_bases()
  void add_base(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                std::size_t base = 0);
  /// A tensor of at least one element that a base has, of that type and shape, and its change.
  /// @param section  encode_change() of base and tensor
  /// @throws Error(kUsage) for a tensor that has no changes, as has_change() tells
  void add_change(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                  std::vector<std::byte> section, std::size_t base = 0);
  /// A tensor of pieces, whose elements are whole bytes.
  /// @param sections  one a piece: its elements where it has no source, encode_change() of
  ///                  piece_shape() where it changed, else nothing
  /// @throws Error(kShapeMismatch) where the pieces do not fit the tensor
  void add_pieces(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                  std::vector<TensorPiece> pieces, std::vector<std::vector<std::byte>> sections);
  /// Blocks of a quantized type that are made of a tensor of a base.
  /// @param source   of that tensor
  /// @param section  requantized_section() of both
  /// @throws Error(kUsage) for a type that is not coded by fields; Error(kShapeMismatch)
  void add_blocks(const std::string& name, std::vector<std::int64_t> shape,
                  std::uint32_t block_type, BlockSource source, std::vector<std::byte> section,
                  std::size_t base = 0);
  /// Not called: small up to 4 million integers and kMaxSmallColumns, lanes above.
  void set_profile(CodecProfile profile);
  /// Instead of the constructor's; integers are not coded again. @throws Error(kUsage) as it does
  void set_settings(std::string settings);
  /// With the small profile: the integers of everything added so far are this stream, from where
  /// they were coded before in the same order. Forgotten where something is added or changed.
  void reuse_stream(std::vector<std::byte> stream);
  /// Of all integers; empty without any, and with other profiles. @throws as encode()
  const std::vector<std::byte>& stream() const;

  /// Gives a coded tensor other integers, as add_coded() and add_coded_section() do.
  /// @throws Error(kNotFound) where no coded tensor has that name
  void update_coded(const std::string& name, CodedValues values);
  void update_coded_section(const std::string& name, const CodedValues& form,
                            std::vector<std::byte> section,
                            CodecProfile profile = CodecProfile::kLanes);
  /// The same of integers that are not encoded yet, for files of profile lanes.
  /// @param form    of the values, without their integers
  /// @param blocks  of the offsets of rows, if there are some, then of the values: those of profile
  ///                lanes in one, two or four bytes a value, behind a byte that says how many
  void update_packed(const std::string& name, const CodedValues& form,
                     const std::vector<std::vector<std::byte>>& blocks);
  /// Stores a coded tensor exactly instead. @throws Error(kNotFound) as update_coded();
  /// Error(kShapeMismatch) where bytes and shape do not fit
  void update_plain(const std::string& name, std::span<const std::byte> bytes);
  /// Threads that code stripes; 0: one for each processor. The bytes do not depend on them.
  void set_threads(int threads) noexcept { threads_ = threads; }
  /// From here on sections wait in an unnamed file in `folder` instead of in memory.
  /// @throws Error(kIo)
  void spool_in(const std::filesystem::path& folder);

  /// Bytes of the file as things stand; what was coded to find them is what write() writes.
  std::int64_t size() const;
  /// The whole file in memory. Same content, same bytes.
  std::vector<std::byte> encode() const;
  /// Atomically: a temporary file beside `path`, fsync, rename.
  /// @param look  sees the file before it has its name; what it throws leaves `path` as it was
  /// @return bytes written
  /// @throws Error(kExists) unless `overwrite`, Error(kIo)
  std::int64_t write(const std::filesystem::path& path, bool overwrite,
                     const std::function<void(const ArtifactReader&)>& look = {}) const;
  /// A file with layers, which the writers have by set_layer(): the draft, and what exact() makes
  /// once the draft can be read. @return bytes written. @throws as write() and exact()
  static std::int64_t write_layers(
      const ArtifactWriter& draft,
      const std::function<const ArtifactWriter&(const ArtifactReader& draft)>& exact,
      const std::filesystem::path& path, bool overwrite,
      const std::function<void(const ArtifactReader&)>& look = {});

 private:
  struct Content {
    std::vector<std::byte> bytes;  ///< as stored; empty for tied, constant and coded tensors
    std::int64_t spooled = -1;     ///< where the bytes wait in the spool, if they do
    bool encoded = false;          ///< the bytes are the integers' section, or their packed blocks
    std::vector<std::int64_t> packed = {};  ///< where the packed blocks end, if they are these
    Packing packing = Packing::kRaw;
    CodedTheta theta;
    CodedValues values;
  };
  ArtifactTensor generated(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                           const GNetSpec& spec, Coding coding) const;
  void add(ArtifactTensor tensor, Content content);
  /// Packs the elements of an exact tensor and sets its stored_bytes.
  Content packed(ArtifactTensor& tensor, std::span<const std::byte> bytes,
                 std::shared_ptr<const PlanesWriter> planes = {});
  CodecProfile profile() const;
  struct Layout;
  const Layout& layout() const;
  /// Calls visit() with a tensor's integers, if they were not packed.
  void visit_integers(std::size_t tensor,
                      const std::function<void(std::span<const std::int32_t>)>& visit) const;
  /// Calls visit(grid, blocks) for the grids of a tensor, whichever way its integers were added.
  template <typename Visit>
  void visit_grids(std::size_t tensor, const Visit& visit) const;
  Layout make_layout() const;
  ArtifactTensor& coded_tensor(const std::string& name);
  /// @param digest  of what is in the file. @return bytes of this part, its digest included
  std::int64_t append_to(AtomicFile& file, WrittenDigest& digest) const;
  /// Calls sink(piece) for every byte of the file but the digest, in order.
  void emit(const Layout& layout,
            const std::function<void(std::span<const std::byte>)>& sink) const;

  std::optional<Layer> layer_;
  std::string arch_, settings_, digest_;
  std::vector<std::string> bases_;
  PackedOriginals originals_;
  std::optional<CodecProfile> profile_;
  int threads_ = 0;
  std::vector<ArtifactTensor> tensors_;
  std::vector<Content> contents_;  ///< one a tensor
  std::shared_ptr<Spool> spool_;
  mutable std::shared_ptr<const Layout> layout_;  ///< of everything added so far, or null
  std::optional<std::vector<std::byte>> stream_;  ///< of its integers, where it is known
  std::unordered_map<std::string, std::size_t> index_;
};

}  // namespace gbcompress
