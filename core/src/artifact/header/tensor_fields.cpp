#include "artifact/header/tensor_fields.h"

#include "artifact/header/header_keys.h"
#include "artifact/pieces.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

DType read_type(CborReader& in) {
  const std::string name = in.text();
  const auto dtype = parse_dtype(name);
  if (!dtype)
    throw Error(Errc::kUnsupported, "element type '" + printable(name.substr(0, 64)) +
                                        "' is unknown; upgrade gbcompress to read this file");
  return *dtype;
}

SectionEntry packed(CborReader& in, Packing packing) { return {read_size(in), 0, packing}; }

/// Type, first element, shape.
void read_source(CborReader& in, TensorFields& fields) {
  const std::vector<std::int64_t> numbers = read_sizes(in, 10);
  if (numbers.size() < 2 || numbers[0] >= static_cast<std::int64_t>(kSourceTypes.size()))
    in.corrupt("blocks are made of no known type");
  fields.source = {{},
                   kSourceTypes[static_cast<std::size_t>(numbers[0])],
                   {numbers.begin() + 2, numbers.end()},
                   numbers[1]};
}

/// @return false for a key that is not about blocks
bool read_block_field(CborReader& in, char key, TensorFields& fields) {
  switch (key) {
    case 'w':
      fields.section = packed(in, Packing::kBlocks);
      return true;
    case 'q':
      fields.block_type = static_cast<std::uint32_t>(read_choice(in, 1 << 16));
      return true;
    case 'j':
      read_source(in, fields);
      return true;
    case 's':
      fields.source_name = in.text();
      if (fields.source_name.empty()) in.corrupt("a tensor's name is empty");
      return true;
    default:
      return false;
  }
}

Packing packing_of(char key) {
  return key == 'z' ? Packing::kZstd : key == 'y' ? Packing::kShuffledZstd : Packing::kPlanes;
}

void read_field(CborReader& in, char key, TensorFields& fields) {
  if (optional_parts::kBlocks && read_block_field(in, key, fields)) return;
  switch (key) {
    case 'n':
      fields.name = in.text();
      break;
    case 'd':
      fields.dtype = read_type(in);
      break;
    case 'h':
      fields.shape = read_sizes(in, 8);
      break;
    case 'z':
    case 'y':
    case 'f':
      fields.section = packed(in, packing_of(key));
      break;
    case 'g':
      fields.spec = read_spec(in);
      break;
    case 'c':
      optional_parts::need(optional_parts::kGnets, "g-nets");
      fields.coding = static_cast<Coding>(read_choice(in, 4));
      break;
    case 'k':
      fields.form = static_cast<unsigned>(read_choice(in, kNibbles + 1));
      break;
    case 'm':
      fields.mantissa_bits = read_choice(in, kMaxMantissaBits + 1);
      if (fields.mantissa_bits == 0) in.corrupt("short floats have no mantissa");
      break;
    case 'x':
      fields.axis = read_choice(in, 8);
      break;
    case 'b':
      optional_parts::need(optional_parts::kDeltas, "tensors of a base");
      fields.base = read_base(in);
      break;
    case 'e':
      optional_parts::need(optional_parts::kDeltas, "changes since a base");
      fields.change = true;
      fields.section = packed(in, Packing::kRaw);
      break;
    case 'p':
      fields.pieces = read_pieces(in);
      break;
    case 'i':
      fields.grid = read_sizes(in, 3);
      break;
    case 'l':
      optional_parts::need(optional_parts::kLevels, "levels");
      fields.levels = read_sizes(in, 3);
      break;
    case 'v':
      fields.value = in.unsigned_number();
      break;
    default:
      fields.tied = static_cast<std::size_t>(read_size(in));
  }
}

}  // namespace

std::size_t read_base(CborReader& in) {
  const int base = read_choice(in, kMostBases + 1);
  if (base == 0) in.corrupt("bases are counted from 1 on");
  return static_cast<std::size_t>(base);
}

void check_packing(const CborReader& in, const ArtifactTensor& tensor, SectionEntry& section) {
  if (section.packing == Packing::kRaw) section.stored = section.raw;
  if (section.packing != Packing::kRaw && section.stored >= section.raw)
    in.corrupt("a packed section is not smaller than its content");
  if (section.packing == Packing::kShuffledZstd && plane_bytes(tensor) == 1)
    in.corrupt("a section of single bytes is shuffled");
  if (section.packing == Packing::kPlanes && !has_planes(tensor.dtype))
    in.corrupt("a section has planes of what are no floats");
}

TensorFields read_tensor_fields(CborReader& in) {
  TensorFields fields;
  Keys keys(in, "ndhzygckirvmfxbelpwqjs");
  while (const char key = keys.next()) read_field(in, key, fields);
  if (keys.has('z') + keys.has('y') + keys.has('f') + keys.has('w') > 1)
    in.corrupt("a section is packed in two ways");
  if (keys.has('n') && fields.name.empty()) in.corrupt("a tensor's name is empty");
  if (keys.has('n') && !keys.has_any("hr")) in.corrupt("key h is missing");
  if (!keys.has('n') && keys.has('h')) in.corrupt("key n is missing");
  if (keys.has('r') && keys.has_any("dhzygckivmfxbelpwqjs"))
    in.corrupt("a tied tensor has keys of its own");
  if (keys.has('v') && keys.has_any("zygckimfxlw")) in.corrupt("a constant tensor has a section");
  if (keys.has('k') && keys.has_any("zycfw")) in.corrupt("a coded tensor has a section");
  if (keys.has('i') && !keys.has('k')) in.corrupt("a tensor that is not coded has a grid");
  if (keys.has('m') && (fields.form != 0 || keys.has('g')))
    in.corrupt("short floats have steps or a specification");
  if (keys.has('x') && (!keys.has('k') || keys.has_any("gm")))
    in.corrupt("what has no steps has an axis");
  if (keys.has('b') && (keys.has_any("zygcvmfx") || (keys.has('w') && !keys.has('j'))))
    in.corrupt("what has no steps, or a section, is added to a base");
  if (keys.has('e') && keys.has_any("zygckivmfxlw"))
    in.corrupt("what is stored in another way has a change");
  if (keys.has('p') && keys.has_any("zygckivmfxbelw"))
    in.corrupt("what is stored in another way has pieces");
  if (keys.has('l') && (fields.form != 0 || keys.has_any("gmxb")))
    in.corrupt("levels are those of integers alone");
  if (keys.has('c') && !keys.has('g')) in.corrupt("a plain tensor has a coding");
  if (keys.has('w') && keys.has('g')) in.corrupt("generated tensors have no blocks");
  if (keys.has('j') && !keys.has('w')) in.corrupt("what are no blocks is made of a base's tensor");
  if (keys.has('s') && !keys.has('j')) in.corrupt("a name of no tensor of the base");
  if (keys.has('w') != keys.has('q')) in.corrupt("blocks have no type");
  if (keys.has('f') && keys.has('g')) in.corrupt("generated tensors have no planes");
  if (fields.coding == Coding::kCoded && keys.has_any("zy"))
    in.corrupt("coded g-nets have a section");
  return fields;
}

}  // namespace gbcompress
