#include <limits>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "artifact/cbor_reader.h"
#include "artifact/coding.h"
#include "artifact/header.h"
#include "artifact/header_keys.h"
#include "artifact/text.h"
#include "base/checked.h"
#include "base/file.h"

namespace gbcompress {
namespace {

constexpr std::size_t kNotTied = std::numeric_limits<std::size_t>::max();

class HeaderParser {
 public:
  HeaderParser(std::span<const std::byte> bytes, const ArtifactLimits& limits,
               const std::string& label)
      : in_(bytes, label + ": header"), limits_(limits) {}

  Header parse() {
    Keys keys(in_, "aost");
    while (const char key = keys.next()) switch (key) {
        case 'a':
          header_.arch = in_.text();
          break;
        case 's':
          header_.settings = in_.text();
          break;
        case 'o':
          header_.output_bytes = size();
          break;
        default:
          parse_tensors();
      }
    keys.require("ot");
    in_.finish();
    within(header_.output_bytes, "tensors");
    resolve_ties();
    check_names();
    std::int64_t output = 0;
    for (const ArtifactTensor& tensor : header_.tensors)
      output = checked_add(output, tensor_bytes(tensor.shape, tensor.dtype), "the expanded file");
    if (output != header_.output_bytes)
      in_.corrupt("it declares " + std::to_string(header_.output_bytes) +
                  " bytes of tensors, they add up to " + std::to_string(output));
    return std::move(header_);
  }

 private:
  std::int64_t size() {
    const std::int64_t n = in_.integer();
    if (n < 0) in_.corrupt("a size below 0");
    return n;
  }
  std::vector<std::int64_t> sizes(std::int64_t most) {
    const std::int64_t n = in_.array();
    if (n > most)
      in_.corrupt(std::to_string(n) + " numbers where at most " + std::to_string(most) +
                  " are allowed");
    std::vector<std::int64_t> result(static_cast<std::size_t>(n));
    for (auto& value : result) value = size();
    return result;
  }
  void within(std::int64_t bytes, const char* what) const {
    if (bytes > limits_.output_bytes)
      throw Error(Errc::kLimit, "the file declares " + std::to_string(bytes) + " bytes of " + what +
                                    ", at most " + std::to_string(limits_.output_bytes) +
                                    " are allowed; raise the limit if you trust the file");
  }

  void parse_tensors() {
    const std::int64_t n = in_.array();
    if (n > limits_.tensors)
      throw Error(Errc::kLimit, "the file declares " + std::to_string(n) + " tensors, at most " +
                                    std::to_string(limits_.tensors) + " are allowed");
    for (std::int64_t i = 0; i < n; ++i) parse_tensor();
  }

  void parse_tensor() {
    ArtifactTensor tensor;
    SectionEntry section;
    std::size_t tied = kNotTied;
    Keys keys(in_, "ndhxzygcr");
    while (const char key = keys.next()) switch (key) {
        case 'n':
          tensor.name = in_.text();
          break;
        case 'd':
          tensor.dtype = parse_type();
          break;
        case 'h':
          tensor.shape = sizes(8);
          break;
        case 'x':
          section.xxh3 = in_.unsigned_number();
          break;
        case 'z':
          section = {size(), 0, section.xxh3, Packing::kZstd};
          break;
        case 'y':
          section = {size(), 0, section.xxh3, Packing::kShuffledZstd};
          break;
        case 'g':
          parse_plan(tensor.plan);
          break;
        case 'c':
          tensor.coding = static_cast<Coding>(choice(3));
          break;
        default:
          tied = static_cast<std::size_t>(size());
      }
    keys.require("n");
    if (keys.has('r')) {
      if (keys.has_any("dhxzygc")) in_.corrupt("a tied tensor has keys of its own");
      tensor.kind = TensorKind::kTied;
    } else {
      keys.require("hx");
      if (keys.has('z') && keys.has('y')) in_.corrupt("a section is packed in two ways");
      tensor.kind = keys.has('g') ? TensorKind::kGenerated : TensorKind::kPlain;
      if (keys.has('c') && !keys.has('g')) in_.corrupt("a plain tensor has a coding");
      finish_tensor(tensor, section);
    }
    header_.tensors.push_back(std::move(tensor));
    header_.sections.push_back(section);
    tied_.push_back(tied);
  }

  DType parse_type() {
    const std::string name = in_.text();
    const auto dtype = parse_dtype(name);
    if (!dtype)
      throw Error(Errc::kUnsupported, "element type '" + printable(name.substr(0, 64)) +
                                          "' is unknown; upgrade gbcompress to read this file");
    return *dtype;
  }
  int choice(std::uint64_t count) {
    const std::uint64_t n = in_.unsigned_number();
    if (n >= count)
      throw Error(Errc::kUnsupported, "coding, encoding or generator " + std::to_string(n) +
                                          " is unknown; upgrade gbcompress to read this file");
    return static_cast<int>(n);
  }

  void parse_plan(GNetPlan& plan) {
    plan.type_id.clear();
    std::vector<std::int64_t> tile;
    std::optional<std::vector<AxisCode>> codes;
    Keys keys(in_, "imvhweuskr");
    while (const char key = keys.next()) switch (key) {
        case 'i':
          plan.type_id = in_.text();
          break;
        case 'm':
          tile = sizes(2);
          break;
        case 'v':
          plan.type_revision = revision();
          break;
        case 'h':
          plan.shape = sizes(8);
          break;
        case 'w':
          plan.view = view();
          break;
        case 'e':
          codes = axis_codes();
          break;
        case 'k':
          plan.generator = static_cast<Generator>(choice(4));
          break;
        case 'r':
          plan.rank = size();
          break;
        case 'u':
          plan.hidden = sizes(8);
          break;
        default:
          plan.output_scale = in_.float32();
      }
    keys.require("im");
    if (is_product(plan.generator)) {
      if (keys.has('u')) in_.corrupt("a product of matrices names hidden layers");
      plan.hidden.clear();
    }
    if (tile.size() != 2) in_.corrupt("a tile needs two sides");
    plan.tile_rows = tile[0];
    plan.tile_cols = tile[1];
    if (codes) {
      if (codes->size() < 2) in_.corrupt("a plan needs a row code and a column code");
      plan.row_code = (*codes)[0];
      plan.col_code = (*codes)[1];
      plan.kernel_codes.assign(codes->begin() + 2, codes->end());
    }
    usual_codes_ = !codes;
  }
  std::uint32_t revision() {
    const std::uint64_t n = in_.unsigned_number();
    if (n > std::numeric_limits<std::uint32_t>::max()) in_.corrupt("a revision beyond 2^32");
    return static_cast<std::uint32_t>(n);
  }
  MatrixView view() {
    if (in_.array() != 4) in_.corrupt("a view needs four numbers");
    const std::int64_t row = in_.integer(), col = in_.integer();
    if (row < 0 || row > 7 || col < -1 || col > 7) in_.corrupt("a view of unknown dimensions");
    MatrixView view{.row_dim = static_cast<int>(row), .col_dim = static_cast<int>(col)};
    view.row_splits = size();
    view.col_splits = size();
    return view;
  }
  std::vector<AxisCode> axis_codes() {
    std::int64_t left = in_.array();
    const auto next = [&] {
      if (left-- <= 0) in_.corrupt("an encoding ends too early");
      return size();
    };
    std::vector<AxisCode> result;
    while (left > 0) {
      if (result.size() == 9) in_.corrupt("more encodings than dimensions");
      --left;
      AxisCode code(static_cast<Encoding>(choice(6)));
      if (code.encoding >= Encoding::kFourier) code.size = next();
      if (code.encoding == Encoding::kPixel) {
        const std::int64_t sides = next();
        if (sides > 8) in_.corrupt("an image of more than 8 sides");
        for (std::int64_t d = 0; d < sides; ++d) code.sides.push_back(next());
      }
      result.push_back(std::move(code));
    }
    return result;
  }

  /// Everything that follows from the entry itself; nothing has been allocated for it yet.
  void finish_tensor(ArtifactTensor& tensor, SectionEntry& section) {
    section.raw = tensor_bytes(tensor.shape, tensor.dtype);
    within(section.raw, "one tensor");
    if (tensor.kind == TensorKind::kGenerated) finish_plan(tensor, section);
    if (section.packing == Packing::kRaw) section.stored = section.raw;
    if (section.packing != Packing::kRaw && section.stored >= section.raw)
      in_.corrupt("a packed section is not smaller than its content");
    if (section.packing == Packing::kShuffledZstd && plane_bytes(tensor) == 1)
      in_.corrupt("a section of single bytes is shuffled");
    tensor.stored_bytes = section.stored;
  }

  void finish_plan(ArtifactTensor& tensor, SectionEntry& section) {
    GNetPlan& plan = tensor.plan;
    if (!is_real(tensor.dtype)) in_.corrupt("g-nets cannot generate this element type");
    if (plan.type_id.empty()) in_.corrupt("a plan names no layer type");
    if (plan.shape.empty()) plan.shape = tensor.shape;
    try {
      if (usual_codes_)
        plan.kernel_codes.assign(matrix_sides(plan.shape, plan.view).kernel_dims.size(),
                                 Encoding::kOneHot);
      validate(plan);
      section.raw = coded_bytes(plan, tensor.coding);
      numbers_ = checked_add(numbers_, checked_mul(plan_parameters(plan), 4, "theta"), "theta");
    } catch (const Error& error) {
      throw Error(error.code() == Errc::kLimit ? Errc::kLimit : Errc::kCorrupt,
                  "the plan of " + printable(tensor.name) + " is wrong: " + error.what());
    }
    within(numbers_, "g-net parameters");
  }

  void resolve_ties() {
    auto& tensors = header_.tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tied_[i] == kNotTied) continue;
      if (tied_[i] >= tensors.size() || tied_[tied_[i]] != kNotTied)
        in_.corrupt("a tied tensor refers to no tensor with content");
      const ArtifactTensor& target = tensors[tied_[i]];
      tensors[i].tied_to = target.name;
      tensors[i].dtype = target.dtype;
      tensors[i].shape = target.shape;
    }
  }

  void check_names() {
    std::unordered_set<std::string_view> names;
    for (const ArtifactTensor& tensor : header_.tensors) {
      if (!is_tensor_name(tensor.name))
        in_.corrupt(printable(tensor.name.substr(0, 512)) + " cannot be a tensor's name");
      if (!names.insert(tensor.name).second)
        in_.corrupt("two tensors are named " + printable(tensor.name));
    }
  }

  CborReader in_;
  const ArtifactLimits& limits_;
  Header header_;
  std::vector<std::size_t> tied_;
  std::int64_t numbers_ = 0;  ///< bytes of all g-net parameters as float32
  bool usual_codes_ = true;
};

}  // namespace

Header parse_header(std::span<const std::byte> bytes, const ArtifactLimits& limits,
                    const std::string& label) {
  return HeaderParser(bytes, limits, label).parse();
}

}  // namespace gbcompress
