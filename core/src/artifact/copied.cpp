#include "artifact/copied.h"

#include <algorithm>
#include <utility>

#include "artifact/sections/float_code.h"
#include "gbcompress/artifact_writer.h"
#include "gbcompress/coded_values.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

void add_integers(ArtifactWriter& writer, const ArtifactTensor& tensor, CodedValues values,
                  CodecProfile profile) {
  if (profile != CodecProfile::kLanes)
    return writer.add_coded(tensor.name, tensor.dtype, tensor.shape, std::move(values));
  std::vector<std::byte> section = encode_section(values);
  writer.add_coded_section(tensor.name, tensor.dtype, tensor.shape, values, std::move(section));
}

/// @return false where the numbers cannot be short floats
bool add_numbers(ArtifactWriter& writer, const ArtifactTensor& tensor,
                 std::span<const float> numbers, int mantissa_bits, CodecProfile profile) {
  const bool equal = std::ranges::all_of(numbers, [&](float x) { return x == numbers.front(); });
  if (equal && !numbers.empty() && tensor.dtype == DType::kF32) {
    writer.add_constant(tensor.name, tensor.dtype, tensor.shape, std::as_bytes(numbers.first(1)));
    return true;
  }
  if (!fits_short_floats(numbers)) return false;
  add_integers(writer, tensor, float_coded(default_grid(tensor.shape), numbers, mantissa_bits),
               profile);
  return true;
}

}  // namespace

void add_copied(ArtifactWriter& writer, const ArtifactReader& reader,
                const Replacements& replaced) {
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    const ArtifactTensor& tensor = reader.tensors()[i];
    const auto other = replaced.values.find(tensor.name);
    if (other != replaced.values.end() &&
        add_numbers(writer, tensor, other->second, replaced.mantissa_bits, reader.profile()))
      continue;
    switch (tensor.kind) {
      case TensorKind::kExact:
        writer.add_plain(tensor.name, tensor.dtype, tensor.shape, reader.plain(i),
                         tensor.block_type);
        break;
      case TensorKind::kConstant:
        writer.add_constant(tensor.name, tensor.dtype, tensor.shape, reader.constant(i));
        break;
      case TensorKind::kTied:
        writer.add_tied(tensor.name, tensor.tied_to);
        break;
      case TensorKind::kQuantized:
        add_integers(writer, tensor, reader.coded(i), reader.profile());
        break;
      default:
        throw Error(Errc::kUnsupported, printable(tensor.name) +
                                            " is made by g-nets or a base; only files without "
                                            "either are joined");
    }
  }
}

std::vector<std::byte> with_replaced(const ArtifactReader& reader, const Replacements& replaced) {
  ArtifactWriter writer(reader.arch(), reader.settings());
  if (reader.profile() == CodecProfile::kLanes) writer.set_profile(CodecProfile::kLanes);
  add_copied(writer, reader, replaced);
  return writer.encode();
}

}  // namespace gbcompress
