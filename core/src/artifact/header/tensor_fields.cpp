#include "artifact/header/tensor_fields.h"

#include "artifact/header/header_keys.h"
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

void read_field(CborReader& in, char key, TensorFields& fields) {
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
      fields.section = packed(in, Packing::kZstd);
      break;
    case 'y':
      fields.section = packed(in, Packing::kShuffledZstd);
      break;
    case 'f':
      fields.section = packed(in, Packing::kPlanes);
      break;
    case 'g':
      fields.plan = read_plan(in);
      break;
    case 'c':
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
      if (read_choice(in, 2) != 1) in.corrupt("key b is not 1");
      fields.base = true;
      break;
    case 'e':
      fields.change = true;
      fields.section = packed(in, Packing::kRaw);
      break;
    case 'i':
      fields.grid = read_sizes(in, 3);
      break;
    case 'l':
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

TensorFields read_tensor_fields(CborReader& in) {
  TensorFields fields;
  Keys keys(in, "ndhzygckirvmfxbel");
  while (const char key = keys.next()) read_field(in, key, fields);
  if (keys.has('z') + keys.has('y') + keys.has('f') > 1)
    in.corrupt("a section is packed in two ways");
  if (keys.has('n') && fields.name.empty()) in.corrupt("a tensor's name is empty");
  if (keys.has('n') && !keys.has_any("hr")) in.corrupt("key h is missing");
  if (!keys.has('n') && keys.has('h')) in.corrupt("key n is missing");
  if (keys.has('r') && keys.has_any("dhzygckivmfxbel"))
    in.corrupt("a tied tensor has keys of its own");
  if (keys.has('v') && keys.has_any("zygckimfxl")) in.corrupt("a constant tensor has a section");
  if (keys.has('k') && keys.has_any("zycf")) in.corrupt("a coded tensor has a section");
  if (keys.has('i') && !keys.has('k')) in.corrupt("a tensor that is not coded has a grid");
  if (keys.has('m') && (fields.form != 0 || keys.has('g')))
    in.corrupt("short floats have steps or a plan");
  if (keys.has('x') && (!keys.has('k') || keys.has_any("gm")))
    in.corrupt("what has no steps has an axis");
  if (keys.has('b') && keys.has_any("zygcvmfx"))
    in.corrupt("what has no steps, or a section, is added to a base");
  if (keys.has('e') && keys.has_any("zygckivmfxbl"))
    in.corrupt("what is stored in another way has a change");
  if (keys.has('l') && (fields.form != 0 || keys.has_any("gmxb")))
    in.corrupt("levels are those of integers alone");
  if (keys.has('c') && !keys.has('g')) in.corrupt("a plain tensor has a coding");
  if (keys.has('f') && keys.has('g')) in.corrupt("generated tensors have no planes");
  if (fields.coding == Coding::kCoded && keys.has_any("zy"))
    in.corrupt("coded g-nets have a section");
  return fields;
}

}  // namespace gbcompress
