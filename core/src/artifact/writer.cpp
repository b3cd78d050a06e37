#include <tuple>
#include <utility>

#include "artifact/coding.h"
#include "artifact/header.h"
#include "artifact/integers.h"
#include "artifact/packing.h"
#include "artifact/text.h"
#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/text.h"

namespace gbcompress {
namespace {

/// Integers up to which every byte counts more than a few seconds do.
constexpr std::int64_t kAutoSmall = 4'000'000;

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// A tensor of numbers that g-nets or integers may make.
ArtifactTensor real(const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
  if (!is_real(dtype))
    throw Error(Errc::kUsage, printable(name) + " is of type " + std::string(dtype_name(dtype)) +
                                  ", only F16, BF16, F32 and F64 are generated or coded");
  if (shape.size() > 8)
    throw Error(Errc::kShapeMismatch, printable(name) + " has more than 8 dimensions");
  tensor_bytes(shape, dtype);
  ArtifactTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  return tensor;
}

void set_values(ArtifactTensor& tensor, const CodedValues& values) {
  check_values(values, printable(tensor.name));
  if (!is_grid(values.grid, checked_elements(tensor.shape, "a tensor")))
    throw Error(Errc::kShapeMismatch, printable(tensor.name) + " has " +
                                          std::to_string(values.integers.size()) +
                                          " integers, which do not fit its shape");
  tensor.grid = values.grid;
  tensor.step = values.step;
  tensor.row_steps = !values.row_steps.empty();
}

/// A tensor's integers as integer_grids() has them.
std::vector<std::int32_t> in_order(const ArtifactTensor& tensor, const CodedTheta& theta,
                                   const CodedValues& values) {
  std::vector<std::int32_t> numbers;
  if (has_coded_theta(tensor)) numbers = to_blocks(tensor.plan, theta.integers);
  numbers.insert(numbers.end(), values.row_steps.begin(), values.row_steps.end());
  numbers.insert(numbers.end(), values.integers.begin(), values.integers.end());
  return numbers;
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
  tensor.stored_bytes = static_cast<std::int64_t>(content.bytes.size());
  tensors_.push_back(std::move(tensor));
  contents_.push_back(std::move(content));
}

ArtifactTensor ArtifactWriter::generated(const std::string& name, DType dtype,
                                         std::vector<std::int64_t> shape, const GNetPlan& plan,
                                         Coding coding) const {
  ArtifactTensor tensor = real(name, dtype, std::move(shape));
  if (plan.type_id.empty())
    throw Error(Errc::kUsage, "the plan of " + printable(name) + " has no type_id");
  validate(plan);
  tensor.kind = TensorKind::kGenerated;
  tensor.plan = plan;
  tensor.coding = coding;
  return tensor;
}

void ArtifactWriter::add_generated(const std::string& name, DType dtype,
                                   std::vector<std::int64_t> shape, const GNetPlan& plan,
                                   Coding coding, std::span<const float> theta) {
  ArtifactTensor tensor = generated(name, dtype, std::move(shape), plan, coding);
  Content content;
  std::tie(content.bytes, content.packing) =
      pack(encode_theta(plan, coding, theta, printable(name)), element_bytes(coding));
  add(std::move(tensor), std::move(content));
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
  Content content;
  std::tie(content.bytes, content.packing) = pack(bytes, plane_bytes(tensor));
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
  ArtifactTensor tensor = real(name, dtype, std::move(shape));
  tensor.kind = TensorKind::kCoded;
  set_values(tensor, values);
  Content content;
  content.values = std::move(values);
  add(std::move(tensor), std::move(content));
}

void ArtifactWriter::add_residual(const std::string& name, DType dtype,
                                  std::vector<std::int64_t> shape, const GNetPlan& plan,
                                  CodedTheta theta, CodedValues values) {
  ArtifactTensor tensor = generated(name, dtype, std::move(shape), plan, Coding::kCoded);
  tensor.kind = TensorKind::kResidual;
  check_theta(plan, theta, printable(name));
  tensor.theta_steps = theta.steps;
  set_values(tensor, values);
  Content content;
  content.theta = std::move(theta);
  content.values = std::move(values);
  add(std::move(tensor), std::move(content));
}

void ArtifactWriter::add_generated_coded(const std::string& name, DType dtype,
                                         std::vector<std::int64_t> shape, const GNetPlan& plan,
                                         CodedTheta theta) {
  ArtifactTensor tensor = generated(name, dtype, std::move(shape), plan, Coding::kCoded);
  check_theta(plan, theta, printable(name));
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

CodecProfile ArtifactWriter::profile() const {
  if (profile_) return *profile_;
  std::int64_t integers = 0;
  bool fits = true;
  for (const ArtifactTensor& tensor : tensors_) {
    integers += integer_count(tensor);
    fits = fits && fits_small(integer_grids(tensor));
  }
  return fits && integers <= kAutoSmall ? CodecProfile::kSmall : CodecProfile::kFast;
}

std::vector<std::byte> ArtifactWriter::encode() const {
  Header header;
  header.arch = arch_;
  header.settings = settings_;
  header.tensors = tensors_;
  header.profile = profile();
  const bool small = header.profile == CodecProfile::kSmall;
  std::vector<std::byte> content;
  IntegerEncoder stream(header.profile);
  std::int64_t output = 0, integers = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const ArtifactTensor& tensor = tensors_[i];
    output = checked_add(output, tensor_bytes(tensor.shape, tensor.dtype), "the expanded file");
    const std::size_t before = content.size();
    if (const std::int64_t n = integer_count(tensor); n > 0) {
      integers += n;
      if (small && (integers > kMaxSmallIntegers || !fits_small(integer_grids(tensor))))
        throw Error(Errc::kLimit, "the profile small codes at most " +
                                      std::to_string(kMaxSmallIntegers) + " integers, " +
                                      std::to_string(kMaxSmallColumns) +
                                      " in a row; choose the profile fast");
      std::vector<std::int32_t> joined;
      std::span<const std::int32_t> numbers = contents_[i].values.integers;
      if (has_coded_theta(tensor) || tensor.row_steps)
        numbers = joined = in_order(tensor, contents_[i].theta, contents_[i].values);
      if (small) {
        encode_integers(stream, tensor, numbers);
      } else {
        IntegerEncoder encoder(header.profile);
        encode_integers(encoder, tensor, numbers);
        append(content, encoder.finish());
        if (!fits_fast(integer_grids(tensor), static_cast<std::int64_t>(content.size() - before)))
          throw Error(Errc::kLimit, printable(tensor.name) +
                                        " has a row that is too long to be coded, or more than "
                                        "2^28 integers; choose a grid of more rows, or add it as "
                                        "plain");
      }
    } else {
      append(content, contents_[i].bytes);
    }
    header.sections.push_back({.stored = static_cast<std::int64_t>(content.size() - before),
                               .packing = contents_[i].packing});
  }
  if (small && integers > 0) append(content, stream.finish());

  const std::vector<std::byte> raw = encode_header(header);
  if (static_cast<std::int64_t>(raw.size()) > ArtifactLimits{}.header_bytes)
    throw Error(Errc::kLimit, "the header would have " + std::to_string(raw.size()) +
                                  " bytes, at most " +
                                  std::to_string(ArtifactLimits{}.header_bytes) + " are allowed");
  const auto [stored, packing] = pack(raw, 1);
  std::vector<std::byte> file =
      encode_prelude(static_cast<std::int64_t>(stored.size()),
                     packing == Packing::kRaw ? 0 : static_cast<std::int64_t>(raw.size()),
                     static_cast<std::int64_t>(content.size()));
  file.reserve(file.size() + stored.size() + content.size() + kDigestBytes);
  append(file, stored);
  append(file, content);
  for (char c : sha256(file).substr(0, kDigestBytes)) append_number(file, c);
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
