#include "gbz.h"

#include "artifact/draft_values.h"
#include "artifact/header/header.h"
#include "artifact/integers/integers.h"
#include "artifact/read_many.h"
#include "artifact/sections/varint.h"
#include "file.h"
#include "gbcompress/error.h"

using gbcompress::ArtifactReader;
using gbcompress::ArtifactTensor;
using gbcompress::DType;
using gbcompress::Errc;
using gbcompress::Error;
using gbcompress::TensorKind;

namespace gbz {
namespace {

static_assert(static_cast<int>(DType::kF4) == GBZ_F4 &&
              static_cast<int>(TensorKind::kBlocks) == GBZ_BLOCKS &&
              static_cast<int>(Errc::kShapeMismatch) == GBZ_SHAPE_MISMATCH);

void* take_memory(void*, std::size_t bytes) { return std::malloc(bytes); }
void give_memory(void*, void* memory) { std::free(memory); }

/// Bits of each tensor: of a common stream, a share for each integer.
std::vector<double> bits_of(const ArtifactReader& reader) {
  if (reader.lanes()) {
    std::vector<double> bits = reader.lanes()->tensor_bits();
    for (std::size_t i = 0; i < bits.size(); ++i)
      bits[i] += 8 * static_cast<double>(reader.tensors()[i].stored_bytes);
    return bits;
  }
  const bool streamed =
      gbcompress::optional_parts::kSmall && reader.profile() == gbcompress::CodecProfile::kSmall;
  std::vector<double> bits;
  double stream = 0, integers = 0;
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    const ArtifactTensor& tensor = reader.tensors()[i];
    bits.push_back(8 * static_cast<double>(tensor.stored_bytes));
    if (!streamed || (!has_values(tensor) && !has_coded_theta(tensor))) continue;
    integers += static_cast<double>(integer_count(tensor));
    for (const auto part : reader.parts(i)) stream = 8 * static_cast<double>(part.size());
  }
  for (std::size_t i = 0; integers > 0 && i < bits.size(); ++i) {
    const ArtifactTensor& tensor = reader.tensors()[i];
    if (has_values(tensor) || has_coded_theta(tensor))
      bits[i] = stream * static_cast<double>(integer_count(tensor)) / integers;
  }
  return bits;
}

/// The same with those of the draft, which the exact part is told by.
std::vector<double> all_bits_of(const ArtifactReader& reader) {
  std::vector<double> bits = bits_of(reader);
  if (!reader.draft()) return bits;
  const std::vector<double> before = bits_of(*reader.draft());
  for (std::size_t i = 0; i < bits.size(); ++i)
    if (reader.draft_values()->has(i)) bits[i] += before[reader.draft_values()->place(i)];
  return bits;
}

void open(gbz_file& file, std::span<const std::byte> bytes, const gbz_options& options) {
  gbcompress::ArtifactLimits limits;
  if (options.output_bytes > 0)
    limits.output_bytes =
        static_cast<std::int64_t>(std::min<std::uint64_t>(options.output_bytes, INT64_MAX));
  file.bytes = bytes.data();
  file.contents = new Contents{
      ArtifactReader::view(
          bytes, "the file", limits,
          options.partial == 0 ? gbcompress::DigestCheck::kAtOnce : gbcompress::DigestCheck::kNever,
          options.partial == 0 && options.draft == 0 ? gbcompress::Layer::kExact
                                                     : gbcompress::Layer::kDraft),
      {},
      {}};
  const auto& tensors = file.contents->reader.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    file.contents->places.emplace(tensors[i].name, i);
  file.contents->bits = all_bits_of(file.contents->reader);
}

}  // namespace

const ArtifactTensor* tensor_of(const gbz_file* file, std::size_t tensor) {
  if (!file || tensor >= file->contents->reader.tensors().size()) return nullptr;
  return &file->contents->reader.tensors()[tensor];
}

gbcompress::DecodeOptions decode_options(const gbz_file& file) {
  gbcompress::DecodeOptions options{.threads = 1};
  if (gbcompress::optional_parts::kDeltas) options.base = base_source(file);
  return options;
}

void check_unspoiled(const gbz_file& file) {
  if (file.spoiled)
    throw Error(Errc::kUsage, "an earlier error ended the decoding of this file; open it again");
}

void check_readable(const gbz_file& file, std::size_t tensor) {
  check_unspoiled(file);
  const ArtifactTensor* entry = tensor_of(&file, tensor);
  if (!entry) throw Error(Errc::kUsage, "there is no tensor " + std::to_string(tensor));
  if (entry->kind == TensorKind::kTied)
    entry = tensor_of(&file, gbcompress::owner_of(file.contents->reader, tensor));
  if (gbcompress::has_spec(entry->kind)) gbcompress::place_only(*entry);
  if (file.contents->reader.draft()) return;  // which is the base
  gbcompress::for_bases(*entry, [&](std::size_t base) {
    if (!file.bases[base])
      throw Error(
          Errc::kUsage,
          "this file holds what changed since another model, its base, which has the digest " +
              file.contents->reader.bases()[base] + "; give that model to gbz_set_base()");
  });
}

}  // namespace gbz

extern "C" {

const char* gbz_version(void) { return GBC_VERSION_STRING; }

const char* gbz_status_name(gbz_status status) {
  switch (status) {
    case GBZ_OK:
      return "ok";
    case GBZ_USAGE:
      return "usage";
    case GBZ_TRUNCATED:
      return "truncated";
    case GBZ_CORRUPT:
      return "corrupt";
    case GBZ_UNSUPPORTED:
      return "unsupported";
    case GBZ_LIMIT:
      return "limit";
    case GBZ_SHAPE_MISMATCH:
      return "shape_mismatch";
    case GBZ_MEMORY:
      return "memory";
  }
  return "unknown";
}

const char* gbz_dtype_name(gbz_dtype dtype) {
  // Names of types are whole literals, which end with a zero byte.
  return static_cast<unsigned>(dtype) > GBZ_F4
             ? ""
             : gbcompress::dtype_name(static_cast<DType>(dtype)).data();
}

unsigned gbz_dtype_bits(gbz_dtype dtype) {
  return static_cast<unsigned>(dtype) > GBZ_F4
             ? 0
             : static_cast<unsigned>(gbcompress::dtype_bits(static_cast<DType>(dtype)));
}

gbz_status gbz_open(const void* bytes, size_t size, const gbz_options* options, gbz_file** file,
                    gbz_error* error) {
  const gbz_options none = {};
  const gbz_options& given = options ? *options : none;
  if (!file) return gbz::refuse(error, GBZ_USAGE, "`file` is NULL; pass the address of a pointer");
  *file = nullptr;
  if (!bytes && size > 0) return gbz::refuse(error, GBZ_USAGE, "`bytes` is NULL");
  gbz_allocator allocator = given.allocator;
  if (!allocator.allocate != !allocator.release)
    return gbz::refuse(error, GBZ_USAGE, "an allocator needs both of its functions");
  if (!allocator.allocate) allocator = {gbz::take_memory, gbz::give_memory, nullptr};
  void* const memory = allocator.allocate(allocator.context, sizeof(gbz_file));
  if (!memory) return gbz::refuse(error, GBZ_MEMORY, "the allocator has no memory");
  auto* const made =
      new (memory) gbz_file(allocator, given.memory_bytes > 0 ? given.memory_bytes : UINT64_MAX);
  gbz_status status = gbz::run(made->arena, error, [&] {
    gbz::open(*made, {static_cast<const std::byte*>(bytes), size}, given);
  });
  // What is wrong with a specification is told as of any specification; that of a file is not the
  // caller's.
  if (status == GBZ_USAGE || status == GBZ_SHAPE_MISMATCH) {
    status = GBZ_CORRUPT;
    if (error) error->status = status;
  }
  if (status == GBZ_OK)
    *file = made;
  else
    gbz_close(made);
  return status;
}

void gbz_close(gbz_file* file) {
  if (!file) return;
  const gbz_allocator allocator = file->allocator;
  file->~gbz_file();
  allocator.release(allocator.context, file);
}

uint64_t gbz_header_bytes(const void* bytes, size_t size) {
  const auto* at = static_cast<const unsigned char*>(bytes);
  if (!bytes || size < 5 || std::memcmp(at, gbcompress::kMagic.data(), 4) != 0) return 0;
  size_t place = 4;
  uint64_t numbers[3] = {};  // bytes that follow, of the header as stored, unpacked
  for (uint64_t& number : numbers)
    for (unsigned shift = 0;; shift += 7) {
      if (place == size || shift > 56) return 0;
      number |= uint64_t{at[place] & 127u} << shift;
      if (at[place++] < 128) break;
    }
  return place + numbers[1];
}

size_t gbz_ranges(const gbz_file* file, size_t tensor, gbz_range* ranges, size_t capacity) {
  if (!gbz::tensor_of(file, tensor)) return 0;
  size_t count = 0;
  auto& changed = const_cast<gbz_file&>(*file);  // its arena, which is as before in the end
  const gbz_status status = gbz::check(changed, nullptr, [&] {
    const auto parts = file->contents->reader.parts(tensor);
    for (; count < parts.size(); ++count)
      if (count < capacity)
        ranges[count] = {static_cast<uint64_t>(parts[count].data() - file->bytes),
                         parts[count].size()};
  });
  return status == GBZ_OK ? count : 0;
}

size_t gbz_count(const gbz_file* file) {
  return file ? file->contents->reader.tensors().size() : 0;
}

size_t gbz_find(const gbz_file* file, const char* name) {
  if (!file || !name) return gbz_count(file);
  const auto found = file->contents->places.find(name);
  return found == file->contents->places.end() ? gbz_count(file) : found->second;
}

const char* gbz_name(const gbz_file* file, size_t tensor) {
  const ArtifactTensor* entry = gbz::tensor_of(file, tensor);
  return entry ? entry->name.c_str() : nullptr;
}

const int64_t* gbz_shape(const gbz_file* file, size_t tensor, size_t* rank) {
  static const int64_t none = 0;
  const ArtifactTensor* entry = gbz::tensor_of(file, tensor);
  if (rank) *rank = entry ? entry->shape.size() : 0;
  if (!entry) return nullptr;
  return entry->shape.empty() ? &none : entry->shape.data();
}

gbz_dtype gbz_type(const gbz_file* file, size_t tensor) {
  const ArtifactTensor* entry = gbz::tensor_of(file, tensor);
  return entry ? static_cast<gbz_dtype>(entry->dtype) : GBZ_F32;
}

gbz_kind gbz_kind_of(const gbz_file* file, size_t tensor) {
  const ArtifactTensor* entry = gbz::tensor_of(file, tensor);
  return entry ? static_cast<gbz_kind>(entry->kind) : GBZ_PLAIN;
}

double gbz_bits(const gbz_file* file, size_t tensor) {
  return gbz::tensor_of(file, tensor) ? file->contents->bits[tensor] : 0;
}

uint64_t gbz_bytes(const gbz_file* file, size_t tensor, gbz_dtype dtype) {
  const ArtifactTensor* entry = gbz::tensor_of(file, tensor);
  const bool narrow = dtype == GBZ_F32 || dtype == GBZ_F16 || dtype == GBZ_BF16;
  if (!entry || (static_cast<gbz_dtype>(entry->dtype) != dtype &&
                 !(narrow && gbcompress::is_real(entry->dtype))))
    return 0;
  uint64_t bits = gbz_dtype_bits(dtype);  // bounded: in the tensor's own type it was checked
  for (const int64_t side : entry->shape) bits *= static_cast<uint64_t>(side);
  return bits / 8;
}

gbz_layer gbz_layer_of(const gbz_file* file) {
  if (!file) return GBZ_NO_LAYERS;
  const ArtifactReader& reader = file->contents->reader;
  return reader.draft() ? GBZ_EXACT_LAYER : reader.is_draft() ? GBZ_DRAFT_LAYER : GBZ_NO_LAYERS;
}

const char* gbz_identity(const gbz_file* file) {
  return file ? file->contents->reader.identity().c_str() : "";
}
const char* gbz_architecture(const gbz_file* file) {
  return file ? file->contents->reader.arch().c_str() : "";
}
const char* gbz_settings(const gbz_file* file) {
  return file ? file->contents->reader.settings().c_str() : "";
}
const char* gbz_base_digest(const gbz_file* file, size_t base) {
  if (!file || base >= file->contents->reader.bases().size()) return "";
  return file->contents->reader.bases()[base].c_str();
}

gbz_status gbz_read(gbz_file* file, size_t tensor, gbz_dtype dtype, void* out, size_t bytes,
                    gbz_error* error) {
  if (!file || (!out && bytes > 0) || static_cast<unsigned>(dtype) > GBZ_F4)
    return gbz::refuse(error, GBZ_USAGE, "`file` or `out` is NULL, or `dtype` is no type");
  const std::span to(static_cast<std::byte*>(out), bytes);
  const auto type = static_cast<DType>(dtype);
  const gbz_status fits = gbz::check(*file, error, [&] {
    gbz::check_readable(*file, tensor);
    gbcompress::check_request(file->contents->reader, tensor, type, to);
  });
  if (fits != GBZ_OK) return fits;
  return gbz::use(*file, error, [&] {
    gbcompress::read_into(file->contents->reader, tensor, type, to, gbz::decode_options(*file));
  });
}

gbz_status gbz_read_slice(gbz_file* file, size_t tensor, gbz_dtype dtype, uint64_t first, void* out,
                          size_t bytes, gbz_error* error) {
  if (!file || (!out && bytes > 0) || static_cast<unsigned>(dtype) > GBZ_F4 || first > INT64_MAX)
    return gbz::refuse(error, GBZ_USAGE,
                       "`file` or `out` is NULL, `dtype` is no type, or `first` is too large");
  const std::span to(static_cast<std::byte*>(out), bytes);
  const auto type = static_cast<DType>(dtype);
  const auto from = static_cast<int64_t>(first);
  const gbz_status fits = gbz::check(*file, error, [&] {
    gbz::check_readable(*file, tensor);
    gbcompress::check_slice(file->contents->reader, tensor, type, from, to);
  });
  if (fits != GBZ_OK) return fits;
  return gbz::use(*file, error, [&] {
    gbcompress::read_slice(file->contents->reader, tensor, type, from, to,
                           gbz::decode_options(*file));
  });
}

}  // extern "C"
