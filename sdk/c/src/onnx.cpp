// The ONNX model that a file was made of (docs/reference/container.md).
#include "onnx.h"

#include "format/payload.h"
#include "gbcompress/error.h"

using gbcompress::Container;
using gbcompress::ContainerFile;
using gbcompress::DType;
using gbcompress::Errc;
using gbcompress::Error;
using gbcompress::Hole;
using gbcompress::PayloadEncoding;

namespace gbz {
namespace {

const char kLabel[] = "the file";

/// Fills in file.model; leaves it null where there is no container of an ONNX model.
void load_model(gbz_file& file) {
  check_unspoiled(file);
  const auto place = file.contents->places.find(gbcompress::kContainerName);
  if (place == file.contents->places.end()) return;
  const auto& reader = file.contents->reader;
  const auto& entry = reader.tensors()[place->second];
  // The exact part of a file with layers has that of the draft.
  const bool there = entry.kind == gbcompress::TensorKind::kExact ||
                     (reader.draft() && entry.kind == gbcompress::TensorKind::kBase);
  if (!there || entry.dtype != DType::kU8) return;
  const auto content = gbcompress::decode_elements(reader, place->second, decode_options(file));
  Container container = Container::decode(content.bytes(), reader.tensors().size(), kLabel);
  if (container.format == "onnx") file.model = new Model{std::move(container), place->second};
}

/// What has to hold before the decoder is entered. @throws Error(kUsage, kUnsupported)
void check_model(const gbz_file& file) {
  const auto& files = file.model->container.files;
  if (files.size() != 1)
    throw Error(Errc::kUnsupported,
                "the model has " + std::to_string(files.size() - 1) +
                    " files of external data; expand the file with the program gbcompress");
  for (const Hole& hole : files.front().holes) check_readable(file, hole.tensor);
}

/// Lengths that depend on values are those of the model that is written.
void measure_model(gbz_file& file) {
  ContainerFile& model = file.model->container.files.front();
  std::vector<std::int64_t> more(model.holes.size());
  std::vector<std::uint64_t> sizes;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < more.size(); ++i) {
    const Hole& hole = model.holes[i];
    if (hole.tensor == file.model->tensor)
      throw Error(Errc::kCorrupt, "the container of the file fills itself");
    sizes.push_back(hole.encoding == PayloadEncoding::kBytes
                        ? gbz_bytes(&file, hole.tensor, gbz_type(&file, hole.tensor))
                        : filling_of(file, hole).size());
    if (hole.encoding == PayloadEncoding::kVarint)
      more[i] = static_cast<std::int64_t>(sizes[i]) -
                static_cast<std::int64_t>(gbcompress::payload_size(model, hole, kLabel));
    bytes += sizes[i];
  }
  gbcompress::fit_lengths(model, more, kLabel);
  file.model->sizes = std::move(sizes);
  file.model->bytes = bytes + model.skeleton.size();
}

}  // namespace

std::vector<std::byte> filling_of(const gbz_file& file, const Hole& hole) {
  const auto elements =
      gbcompress::decode_elements(file.contents->reader, hole.tensor, decode_options(file));
  return gbcompress::payload_of(hole, elements.bytes(), elements.dtype(), kLabel);
}

/// In parts, so that what is refused before the decoder is entered leaves no memory behind.
gbz_status find_model(gbz_file& file, gbz_error* error) {
  gbz_status status = GBZ_OK;
  if (!file.model) status = set(file, error, [&] { load_model(file); });
  file.spoiled |= spoils(status);
  if (status != GBZ_OK || !file.model || file.model->bytes) return status;
  status = check(file, error, [&] { check_model(file); });
  return status == GBZ_OK ? use(file, error, [&] { measure_model(file); }) : status;
}

void write_model(const gbz_file& file, const ContainerFile& model, std::span<std::byte> out) {
  std::size_t at = 0, from = 0;
  const auto write = [&](std::span<const std::byte> piece) {
    if (piece.size() > out.size() - at)
      throw Error(Errc::kCorrupt, "the container of the file does not fit its tensors");
    std::copy(piece.begin(), piece.end(), out.begin() + static_cast<std::ptrdiff_t>(at));
    at += piece.size();
  };
  const auto skeleton = std::span<const std::byte>(model.skeleton);
  for (const Hole& hole : model.holes) {
    if (hole.before > skeleton.size() - from)
      throw Error(Errc::kCorrupt, "a hole of the container lies behind the end of its file");
    write(skeleton.subspan(from, hole.before));
    from += hole.before;
    if (hole.encoding == PayloadEncoding::kBytes)
      write(gbcompress::decode_elements(file.contents->reader, hole.tensor, decode_options(file))
                .bytes());
    else
      write(filling_of(file, hole));
  }
  write(skeleton.subspan(from));
}

}  // namespace gbz

extern "C" {

gbz_status gbz_onnx_bytes(gbz_file* file, uint64_t* bytes, gbz_error* error) {
  if (bytes) *bytes = 0;
  if (!file || !bytes) {
    gbz::set_error(error, GBZ_USAGE, "`file` or `bytes` is NULL");
    return GBZ_USAGE;
  }
  const gbz_status status = gbz::find_model(*file, error);
  if (status == GBZ_OK && file->model) *bytes = *file->model->bytes;
  return status;
}

gbz_status gbz_onnx(gbz_file* file, void* out, size_t bytes, gbz_error* error) {
  uint64_t needed = 0;
  const gbz_status found = gbz_onnx_bytes(file, &needed, error);
  if (found != GBZ_OK) return found;
  if (needed == 0 || !out || bytes != needed) {
    gbz::set_error(error, GBZ_USAGE,
                   needed == 0 ? "the file was not made of an ONNX model; read its tensors"
                               : "`out` needs the bytes that gbz_onnx_bytes() gives");
    return GBZ_USAGE;
  }
  return gbz::use(*file, error, [&] {
    gbz::write_model(*file, file->model->container.files.front(),
                     {static_cast<std::byte*>(out), bytes});
  });
}

}  // extern "C"
