#include <algorithm>
#include <tuple>
#include <utility>

#include "artifact/header/header.h"
#include "artifact/header/text.h"
#include "artifact/integers/integers.h"
#include "artifact/integers/transform.h"
#include "artifact/sections/coding.h"
#include "artifact/sections/elements.h"
#include "artifact/sections/levels.h"
#include "artifact/sections/packing.h"
#include "artifact/sections/planes.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/mapped_inputs.h"
#include "base/parallel.h"
#include "base/spool.h"
#include "format/gguf/block_fields.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

void append_bytes(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// A tensor of numbers that g-nets or integers may make.
ArtifactTensor real(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                    bool whole_too = false) {
  if (!(whole_too ? is_codable(dtype) : is_real(dtype)))
    throw Error(Errc::kUsage, printable(name) + " is of type " + std::string(dtype_name(dtype)) +
                                  ", only F16, BF16, F32 and F64 are generated, and integers "
                                  "are coded beside them");
  if (shape.size() > 8)
    throw Error(Errc::kShapeMismatch, printable(name) + " has more than 8 dimensions");
  tensor_bytes(shape, dtype);
  ArtifactTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

/// How the values lie and what they stand for.
void set_form(ArtifactTensor& tensor, const CodedValues& values) {
  if (!is_real(tensor.dtype) &&
      (values.mantissa_bits > 0 || values.grid.dependent || !values.row_steps.empty()))
    throw Error(Errc::kUsage, printable(tensor.name) + " has integers, which have no step size");
  if (values.nibbles ? !has_nibbles(tensor.dtype) || values.grid.wide
                     : values.grid.wide && is_real(tensor.dtype))
    throw Error(Errc::kUsage, printable(tensor.name) + " has no such integers");
  if (values.axis >= 0 && (!has_transform(tensor.shape, values.axis) || !is_real(tensor.dtype) ||
                           values.mantissa_bits > 0 || tensor.kind != TensorKind::kQuantized))
    throw Error(Errc::kUsage, printable(tensor.name) + " has no such axis");
  if (values.on_base && (!is_real(tensor.dtype) || values.mantissa_bits > 0 || values.axis >= 0 ||
                         tensor.kind != TensorKind::kQuantized))
    throw Error(Errc::kUsage, printable(tensor.name) + " cannot be added to a base so");
  if (values.levels.used() && (tensor.kind != TensorKind::kQuantized ||
                               !fits_levels(values.levels, values.grid, tensor.dtype)))
    throw Error(Errc::kUsage, printable(tensor.name) + " has no such levels");
  tensor.levels = values.levels;
  tensor.on_base = values.on_base;
  tensor.grid = values.grid;
  tensor.step = values.step;
  tensor.mantissa_bits = values.mantissa_bits;
  tensor.row_steps = !values.row_steps.empty();
  tensor.nibbles = values.nibbles;
  tensor.axis = values.axis;
  const std::int64_t integers =
      checked_mul(checked_elements(tensor.shape, "a tensor"),
                  values.nibbles ? dtype_bits(tensor.dtype) / 4 : 1, "a tensor");
  if (!is_grid(values.grid, integers) || (values.nibbles && !has_default_grid(tensor)))
    throw Error(Errc::kShapeMismatch, printable(tensor.name) + " has a grid of " +
                                          std::to_string(values.grid.rows) + " x " +
                                          std::to_string(values.grid.cols) +
                                          " integers, which does not fit its shape");
}

void set_values(ArtifactTensor& tensor, const CodedValues& values) {
  check_values(values, printable(tensor.name));
  set_form(tensor, values);
}

/// @throws Error(kUsage) for a profile that no section of such values has, Error(kLimit)
void set_section_profile(ArtifactTensor& tensor, CodecProfile profile) {
  const bool small = profile == CodecProfile::kSmall;
  if (tensor.grid.dependent && tensor.grid.lanes == small)
    throw Error(Errc::kUsage, printable(tensor.name) +
                                  " has integers that are not those of a "
                                  "section of profile " +
                                  std::string(profile_name(profile)));
  if (small && (integer_count(tensor) > kMaxSmallIntegers || !fits_small(integer_grids(tensor))))
    throw Error(Errc::kLimit, printable(tensor.name) +
                                  " is too large for the profile small; choose the profile lanes");
  tensor.profile = profile;
}

}  // namespace

ArtifactWriter::ArtifactWriter(std::string arch, std::string settings)
    : arch_(std::move(arch)), settings_(std::move(settings)) {
  if (!is_utf8(arch_) || !is_utf8(settings_))
    throw Error(Errc::kUsage, "an architecture's name or the settings are not UTF-8");
}

void ArtifactWriter::add(ArtifactTensor tensor, Content content) {
  if (!is_tensor_name(tensor.name))
    throw Error(Errc::kUsage, "'" + printable(tensor.name) +
                                  "' cannot be a tensor's name: 1 to 512 bytes of UTF-8 without "
                                  "control characters are allowed");
  if (!index_.emplace(tensor.name, tensors_.size()).second)
    throw Error(Errc::kUsage, "two tensors are named " + printable(tensor.name));
  layout_.reset();
  stream_.reset();
  if (content.spooled < 0) tensor.stored_bytes = static_cast<std::int64_t>(content.bytes.size());
  if (spool_ && !content.bytes.empty()) {
    content.spooled = spool_->append(content.bytes);
    content.bytes = std::vector<std::byte>();  // "= {}" would keep the memory
  }
  tensors_.push_back(std::move(tensor));
  contents_.push_back(std::move(content));
}

ArtifactWriter::Content ArtifactWriter::packed(ArtifactTensor& tensor,
                                               std::span<const std::byte> bytes,
                                               std::shared_ptr<const PlanesWriter> planes) {
  Content content;
  const auto append_piece = [&](std::span<const std::byte> piece) {
    throw_if_interrupted();
    tensor.stored_bytes += static_cast<std::int64_t>(piece.size());
    if (!spool_) return append_bytes(content.bytes, piece);
    const std::int64_t at = spool_->append(piece);
    if (content.spooled < 0) content.spooled = at;
  };
  const bool floats = has_planes(tensor.dtype);
  const int threads = threads_ > 0 ? threads_ : usable_processors();
  if (!planes && floats) planes = planes_of(bytes, plane_bytes(tensor));
  if (planes) {
    content.packing = Packing::kPlanes;
    tensor.stored_bytes = 0;
    planes->write(threads, append_piece);
    if (tensor.stored_bytes < static_cast<std::int64_t>(bytes.size())) return content;
    content = {};
  }
  if (tensor.block_type == 0 && bytes.size() >= kLargeTensor &&
      is_noise(bytes, plane_bytes(tensor))) {
    content.packing = Packing::kRaw;
    tensor.stored_bytes = 0;
    constexpr std::size_t kPiece = std::size_t{4} << 20;
    for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
      const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
      append_piece(piece);
      release_pages(piece);
    }
    return content;
  }
  std::tie(content.bytes, content.packing) =
      pack(bytes, plane_bytes(tensor), floats, {tensor.block_type, threads});
  if (content.packing != Packing::kBlocks) tensor.block_type = 0;
  tensor.stored_bytes = static_cast<std::int64_t>(content.bytes.size());
  return content;
}

ArtifactTensor ArtifactWriter::generated(const std::string& name, DType dtype,
                                         std::vector<std::int64_t> shape, const GNetSpec& spec,
                                         Coding coding) const {
  ArtifactTensor tensor = real(name, dtype, std::move(shape));
  if (spec.type_id.empty())
    throw Error(Errc::kUsage, "the specification of " + printable(name) + " has no type_id");
  validate(spec);
  tensor.kind = TensorKind::kGenerated;
  tensor.spec = spec;
  tensor.coding = coding;
  return tensor;
}

void ArtifactWriter::add_generated(const std::string& name, DType dtype,
                                   std::vector<std::int64_t> shape, const GNetSpec& spec,
                                   Coding coding, std::span<const float> theta) {
  ArtifactTensor tensor = generated(name, dtype, std::move(shape), spec, coding);
  Content content;
  std::tie(content.bytes, content.packing) =
      pack(encode_theta(spec, coding, theta, printable(name)), element_bytes(coding));
  add(std::move(tensor), std::move(content));
}

void ArtifactWriter::add_plain(const std::string& name, DType dtype,
                               std::vector<std::int64_t> shape, std::span<const std::byte> bytes,
                               std::uint32_t block_type,
                               std::shared_ptr<const PlanesWriter> planes) {
  ArtifactTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  if (tensor.shape.size() > 8 ||
      tensor_bytes(tensor.shape, dtype) != static_cast<std::int64_t>(bytes.size()))
    throw Error(Errc::kShapeMismatch, printable(name) + " has " + std::to_string(bytes.size()) +
                                          " bytes, which do not fit its shape");
  tensor.block_type = block_type;
  Content content = packed(tensor, bytes, std::move(planes));
  add(std::move(tensor), std::move(content));
}

void ArtifactWriter::add_packed(const std::string& name, DType dtype,
                                std::vector<std::int64_t> shape, std::vector<std::byte> packed,
                                Packing packing, std::uint32_t block_type) {
  ArtifactTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  if (tensor.shape.size() > 8)
    throw Error(Errc::kShapeMismatch, printable(name) + " has more than 8 dimensions");
  tensor_bytes(tensor.shape, dtype);
  if (packing == Packing::kBlocks) tensor.block_type = block_type;
  Content content;
  content.bytes = std::move(packed);
  content.packing = packing;
  add(std::move(tensor), std::move(content));
}

void ArtifactWriter::add_tied(const std::string& name, const std::string& tied_to) {
  const auto target = index_.find(tied_to);
  if (target == index_.end())
    throw Error(Errc::kNotFound, printable(name) + " is tied to " + printable(tied_to) +
                                     ", which has not been added");
  const ArtifactTensor& tensor = tensors_[target->second];
  if (tensor.kind == TensorKind::kTied)
    throw Error(Errc::kUsage, printable(name) + " is tied to " + printable(tied_to) +
                                  ", which is tied itself; name its target");
  ArtifactTensor tied;
  tied.name = name;
  tied.dtype = tensor.dtype;
  tied.shape = tensor.shape;
  tied.kind = TensorKind::kTied;
  tied.tied_to = tied_to;
  add(std::move(tied), {});
}

void ArtifactWriter::add_coded(const std::string& name, DType dtype,
                               std::vector<std::int64_t> shape, CodedValues values) {
  ArtifactTensor tensor = real(name, dtype, std::move(shape), true);
  tensor.kind = TensorKind::kQuantized;
  set_values(tensor, values);
  Content content;
  content.values = std::move(values);
  add(std::move(tensor), std::move(content));
}

void ArtifactWriter::add_coded_section(const std::string& name, DType dtype,
                                       std::vector<std::int64_t> shape, const CodedValues& form,
                                       std::vector<std::byte> section, CodecProfile profile) {
  ArtifactTensor tensor = real(name, dtype, std::move(shape), true);
  tensor.kind = TensorKind::kQuantized;
  set_form(tensor, form);
  set_section_profile(tensor, profile);
  profile_ = CodecProfile::kLanes;
  Content content;
  content.encoded = true;
  content.bytes = std::move(section);
  add(std::move(tensor), std::move(content));
}

ArtifactTensor& ArtifactWriter::coded_tensor(const std::string& name) {
  const auto found = index_.find(name);
  if (found == index_.end() || tensors_[found->second].kind != TensorKind::kQuantized)
    throw Error(Errc::kNotFound, "there is no coded tensor " + printable(name));
  layout_.reset();
  stream_.reset();
  return tensors_[found->second];
}

void ArtifactWriter::update_coded(const std::string& name, CodedValues values) {
  ArtifactTensor& tensor = coded_tensor(name);
  set_values(tensor, values);
  tensor.stored_bytes = 0;
  Content content;
  content.values = std::move(values);
  contents_[index_.at(name)] = std::move(content);
}

void ArtifactWriter::update_coded_section(const std::string& name, const CodedValues& form,
                                          std::vector<std::byte> section, CodecProfile profile) {
  ArtifactTensor& tensor = coded_tensor(name);
  set_form(tensor, form);
  set_section_profile(tensor, profile);
  tensor.stored_bytes = static_cast<std::int64_t>(section.size());
  Content content;
  content.encoded = true;
  content.spooled = spool_ ? spool_->append(section) : -1;
  if (!spool_) content.bytes = std::move(section);
  contents_[index_.at(name)] = std::move(content);
}

void ArtifactWriter::update_packed(const std::string& name, const CodedValues& form,
                                   const std::vector<std::vector<std::byte>>& blocks) {
  ArtifactTensor& tensor = coded_tensor(name);
  set_form(tensor, form);
  set_section_profile(tensor, CodecProfile::kLanes);
  Content& old = contents_[index_.at(name)];
  Content content;
  content.encoded = true;
  for (const auto& block : blocks)
    content.packed.push_back((content.packed.empty() ? 0 : content.packed.back()) +
                             static_cast<std::int64_t>(block.size()));
  // Packed blocks of the same size take the place of those before.
  const bool again = spool_ && !old.packed.empty() && old.packed.back() >= content.packed.back();
  std::int64_t place = again ? old.spooled : -1;
  if (again) content.spooled = place;
  for (const auto& block : blocks) {
    if (!spool_) {
      content.bytes.insert(content.bytes.end(), block.begin(), block.end());
      continue;
    }
    if (again)
      spool_->replace(place, block);
    else
      place = spool_->append(block);
    if (content.spooled < 0) content.spooled = place;
    place += static_cast<std::int64_t>(block.size());
  }
  tensor.stored_bytes = content.packed.back();
  old = std::move(content);
}

void ArtifactWriter::update_plain(const std::string& name, std::span<const std::byte> bytes) {
  ArtifactTensor& tensor = coded_tensor(name);
  ArtifactTensor plain;
  plain.name = tensor.name;
  plain.dtype = tensor.dtype;
  plain.shape = tensor.shape;
  if (tensor_bytes(plain.shape, plain.dtype) != static_cast<std::int64_t>(bytes.size()))
    throw Error(Errc::kShapeMismatch, printable(name) + " has " + std::to_string(bytes.size()) +
                                          " bytes, which do not fit its shape");
  Content content = packed(plain, bytes);
  if (spool_ && !content.bytes.empty()) {
    content.spooled = spool_->append(content.bytes);
    content.bytes = std::vector<std::byte>();  // "= {}" would keep the memory
  }
  tensor = std::move(plain);
  contents_[index_.at(name)] = std::move(content);
}

void ArtifactWriter::set_bases(std::vector<std::string> digests) {
  if (!std::ranges::all_of(digests, is_base_digest))
    throw Error(Errc::kUsage, "the digest of a base has 64 hexadecimal digits");
  if (digests.size() > kMostBases)
    throw Error(Errc::kUsage,
                "a file is the change since at most " + std::to_string(kMostBases) + " models");
  bases_ = std::move(digests);
  layout_.reset();
}

void ArtifactWriter::add_base(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                              std::size_t base) {
  ArtifactTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.kind = TensorKind::kBase;
  tensor.base = base;
  if (tensor.shape.size() > 8)
    throw Error(Errc::kShapeMismatch, printable(name) + " has more than 8 dimensions");
  tensor_bytes(tensor.shape, dtype);
  add(std::move(tensor), {});
}

void ArtifactWriter::set_layer(Layer layer) {
  layer_ = layer;
  layout_.reset();
}

void ArtifactWriter::set_digest(std::string digest) {
  if (!is_base_digest(digest))
    throw Error(Errc::kUsage, "the digest of a model has 64 hexadecimal digits");
  digest_ = std::move(digest);
  layout_.reset();
}

void ArtifactWriter::add_change(const std::string& name, DType dtype,
                                std::vector<std::int64_t> shape, std::vector<std::byte> section,
                                std::size_t base) {
  ArtifactTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.kind = TensorKind::kChange;
  tensor.base = base;
  if (tensor.shape.size() > 8)
    throw Error(Errc::kShapeMismatch, printable(name) + " has more than 8 dimensions");
  if (!has_change(dtype) || tensor_bytes(tensor.shape, dtype) == 0)
    throw Error(Errc::kUsage, printable(name) + " has no elements that change; add it as plain");
  Content content;
  content.bytes = std::move(section);
  add(std::move(tensor), std::move(content));
}

void ArtifactWriter::add_pieces(const std::string& name, DType dtype,
                                std::vector<std::int64_t> shape, std::vector<TensorPiece> pieces,
                                std::vector<std::vector<std::byte>> sections) {
  ArtifactTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.kind = TensorKind::kPieces;
  std::int64_t elements = 0;
  for (const TensorPiece& piece : pieces)
    elements = checked_add(elements, piece.elements, "the pieces");
  if (tensor.shape.size() > 8 || dtype_bits(dtype) % 8 != 0 || pieces.size() != sections.size() ||
      tensor_bytes(tensor.shape, dtype) != elements * dtype_bits(dtype) / 8)
    throw Error(Errc::kShapeMismatch, printable(name) + " has pieces that do not fit its shape");
  Content content;
  for (std::size_t n = 0; n < pieces.size(); ++n) {
    if (pieces[n].source == TensorPiece::Source::kNone)
      std::tie(sections[n], pieces[n].packing) =
          pack(sections[n], plane_bytes(tensor), has_planes(dtype));
    pieces[n].offset = static_cast<std::int64_t>(content.bytes.size());
    pieces[n].stored = static_cast<std::int64_t>(sections[n].size());
    append_bytes(content.bytes, sections[n]);
    sections[n] = {};
  }
  tensor.pieces = std::move(pieces);
  add(std::move(tensor), std::move(content));
}

void ArtifactWriter::add_blocks(const std::string& name, std::vector<std::int64_t> shape,
                                std::uint32_t block_type, BlockSource source,
                                std::vector<std::byte> section, std::size_t base) {
  ArtifactTensor tensor;
  tensor.name = name;
  tensor.dtype = DType::kU8;
  tensor.shape = std::move(shape);
  tensor.kind = TensorKind::kBlocks;
  tensor.base = base;
  tensor.block_type = block_type;
  tensor.source = std::move(source);
  const gguf::BlockLayout* const layout = gguf::find_block_layout(block_type);
  if (!layout || std::ranges::find(kSourceTypes, tensor.source.dtype) == kSourceTypes.end())
    throw Error(Errc::kUsage, printable(name) + " has blocks of a type that is not made of a base");
  if (tensor.shape.size() > 8 || tensor_bytes(tensor.shape, tensor.dtype) % layout->bytes != 0 ||
      !is_within(tensor.source, block_elements(tensor)))
    throw Error(Errc::kShapeMismatch, printable(name) + " does not fit the tensor of the base");
  Content content;
  content.bytes = std::move(section);
  add(std::move(tensor), std::move(content));
}

void ArtifactWriter::set_profile(CodecProfile profile) {
  profile_ = profile;
  layout_.reset();
  stream_.reset();
}

void ArtifactWriter::spool_in(const std::filesystem::path& folder) {
  spool_ = std::make_shared<Spool>(folder);
}

void ArtifactWriter::add_predicted(const std::string& name, DType dtype,
                                   std::vector<std::int64_t> shape, const GNetSpec& spec,
                                   CodedTheta theta, CodedValues values) {
  ArtifactTensor tensor = generated(name, dtype, std::move(shape), spec, Coding::kCoded);
  tensor.kind = TensorKind::kPredicted;
  check_theta(spec, theta, printable(name));
  tensor.theta_steps = theta.steps;
  set_values(tensor, values);
  Content content;
  content.theta = std::move(theta);
  content.values = std::move(values);
  add(std::move(tensor), std::move(content));
}

void ArtifactWriter::add_generated_coded(const std::string& name, DType dtype,
                                         std::vector<std::int64_t> shape, const GNetSpec& spec,
                                         CodedTheta theta) {
  ArtifactTensor tensor = generated(name, dtype, std::move(shape), spec, Coding::kCoded);
  check_theta(spec, theta, printable(name));
  tensor.theta_steps = theta.steps;
  Content content;
  content.theta = std::move(theta);
  add(std::move(tensor), std::move(content));
}

void ArtifactWriter::add_constant(const std::string& name, DType dtype,
                                  std::vector<std::int64_t> shape,
                                  std::span<const std::byte> element) {
  ArtifactTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.kind = TensorKind::kConstant;
  tensor.element.assign(element.begin(), element.end());
  if (dtype_bits(dtype) % 8 != 0)
    throw Error(Errc::kUsage, printable(name) + " is of type " + std::string(dtype_name(dtype)) +
                                  ", whose elements are no whole bytes; add it as plain");
  if (static_cast<int>(element.size()) * 8 != dtype_bits(dtype) || tensor.shape.size() > 8)
    throw Error(Errc::kShapeMismatch, printable(name) + " has an element of " +
                                          std::to_string(element.size()) +
                                          " bytes, or more than 8 dimensions");
  tensor_bytes(tensor.shape, dtype);
  add(std::move(tensor), {});
}

}  // namespace gbcompress
