#include <algorithm>
#include <limits>
#include <utility>

#include "artifact/coding.h"
#include "artifact/header.h"
#include "artifact/packing.h"
#include "artifact/text.h"
#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/digest.h"
#include "base/file.h"

namespace gbcompress {

ArtifactWriter::ArtifactWriter(std::string arch, std::string settings)
    : arch_(std::move(arch)), settings_(std::move(settings)) {
  if (!is_utf8(arch_) || !is_utf8(settings_))
    throw Error(Errc::kUsage, "an architecture's name or the settings are not UTF-8");
}

void ArtifactWriter::add(ArtifactTensor tensor, Section section) {
  if (!is_tensor_name(tensor.name))
    throw Error(Errc::kUsage, "'" + printable(tensor.name) +
                                  "' cannot be a tensor's name: 1 to 512 bytes of UTF-8 without "
                                  "control characters are allowed");
  if (!index_.emplace(tensor.name, tensors_.size()).second)
    throw Error(Errc::kUsage, "two tensors are named " + printable(tensor.name));
  tensor.stored_bytes = static_cast<std::int64_t>(section.bytes.size());
  tensors_.push_back(std::move(tensor));
  sections_.push_back(std::move(section));
}

void ArtifactWriter::add_generated(const std::string& name, DType dtype,
                                   std::vector<std::int64_t> shape, const GNetPlan& plan,
                                   Coding coding, std::span<const float> theta) {
  const std::string label = printable(name);
  if (!is_real(dtype))
    throw Error(Errc::kUsage, label + " is of type " + std::string(dtype_name(dtype)) +
                                  ", g-nets generate F16, BF16, F32 and F64");
  if (plan.type_id.empty()) throw Error(Errc::kUsage, "the plan of " + label + " has no type_id");
  if (shape.size() > 8) throw Error(Errc::kShapeMismatch, label + " has more than 8 dimensions");
  validate(plan);
  tensor_bytes(shape, dtype);
  ArtifactTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.kind = TensorKind::kGenerated;
  tensor.plan = plan;
  tensor.coding = coding;
  auto [bytes, packing] = pack(encode_theta(plan, coding, theta, label), element_bytes(coding));
  add(std::move(tensor), {std::move(bytes), packing});
}

void ArtifactWriter::add_plain(const std::string& name, DType dtype,
                               std::vector<std::int64_t> shape, std::span<const std::byte> bytes) {
  ArtifactTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  if (tensor.shape.size() > 8 ||
      tensor_bytes(tensor.shape, dtype) != static_cast<std::int64_t>(bytes.size()))
    throw Error(Errc::kShapeMismatch, printable(name) + " has " + std::to_string(bytes.size()) +
                                          " bytes, which do not fit its shape");
  auto [packed, packing] = pack(bytes, plane_bytes(tensor));
  add(std::move(tensor), {std::move(packed), packing});
}

void ArtifactWriter::add_tied(const std::string& name, const std::string& tied_to) {
  const auto target = index_.find(tied_to);
  if (target == index_.end())
    throw Error(Errc::kNotFound, printable(name) + " is tied to " + printable(tied_to) +
                                     ", which has not been added");
  ArtifactTensor tensor = tensors_[target->second];
  if (tensor.kind == TensorKind::kTied)
    throw Error(Errc::kUsage, printable(name) + " is tied to " + printable(tied_to) +
                                  ", which is tied itself; name its target");
  ArtifactTensor tied;
  tied.name = name;
  tied.dtype = tensor.dtype;
  tied.shape = std::move(tensor.shape);
  tied.kind = TensorKind::kTied;
  tied.tied_to = tied_to;
  add(std::move(tied), {});
}

std::vector<std::byte> ArtifactWriter::encode() const {
  Header header;
  header.arch = arch_;
  header.settings = settings_;
  header.tensors = tensors_;
  std::size_t content = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Section& section = sections_[i];
    header.sections.push_back({.stored = tensors_[i].stored_bytes,
                               .raw = 0,
                               .xxh3 = xxh3_64(section.bytes),
                               .packing = section.packing});
    header.output_bytes =
        checked_add(header.output_bytes, tensor_bytes(tensors_[i].shape, tensors_[i].dtype),
                    "the expanded file");
    content += section.bytes.size();
  }
  const std::vector<std::byte> raw = encode_header(header);
  if (static_cast<std::int64_t>(raw.size()) > ArtifactLimits{}.header_bytes)
    throw Error(Errc::kLimit, "the header would have " + std::to_string(raw.size()) +
                                  " bytes, at most " +
                                  std::to_string(ArtifactLimits{}.header_bytes) + " are allowed");
  const auto stored = pack(raw, 1).first;
  std::vector<std::byte> file;
  const std::size_t size = kPreludeBytes + stored.size() + content + kDigestBytes;
  file.reserve(size);
  for (char c : kMagic) append_number(file, c);
  append_number(file, kArtifactVersion);
  append_number(file, static_cast<std::uint64_t>(size));
  append_number(file, static_cast<std::uint32_t>(stored.size()));
  append_number(file, static_cast<std::uint32_t>(raw.size()));
  file.insert(file.end(), stored.begin(), stored.end());
  for (const Section& section : sections_)
    file.insert(file.end(), section.bytes.begin(), section.bytes.end());
  for (char c : sha256(file)) append_number(file, c);
  return file;
}

std::int64_t ArtifactWriter::write(const std::filesystem::path& path, bool overwrite) const {
  const std::vector<std::byte> bytes = encode();
  AtomicFile file(path, overwrite);
  file.write(bytes);
  file.commit();
  return static_cast<std::int64_t>(bytes.size());
}

}  // namespace gbcompress
