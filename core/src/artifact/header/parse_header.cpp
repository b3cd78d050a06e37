#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "artifact/header/cbor_reader.h"
#include "artifact/header/header.h"
#include "artifact/header/header_keys.h"
#include "artifact/header/spec_fields.h"
#include "artifact/header/tensor_fields.h"
#include "artifact/header/text.h"
#include "artifact/integers/integers.h"
#include "artifact/integers/transform.h"
#include "artifact/pieces.h"
#include "artifact/sections/coding.h"
#include "artifact/sections/elements.h"
#include "artifact/sections/float_code.h"
#include "artifact/sections/levels.h"
#include "base/checked.h"
#include "format/gguf/block_fields.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

class HeaderParser {
 public:
  HeaderParser(std::span<const std::byte> bytes, const ArtifactLimits& limits,
               const std::string& label)
      : in_(bytes, label + ": header"), limits_(limits) {}

  Header parse() {
    Keys keys(in_, "abdopstuwx");
    char before = 0;
    bool listed = false;
    while (const char key = keys.next()) {
      if (key < before) in_.corrupt("its keys are not in order");
      before = key;
      if (key > 't' && !listed) add_usual_tensors();
      listed = listed || key >= 't';
      switch (key) {
        case 'a':
          header_.arch = in_.text();
          layout_ = arch_layout(header_.arch);
          break;
        case 'b':
          parse_bases();
          break;
        case 'd':
          header_.digest = in_.text();
          if (!is_base_digest(header_.digest))
            in_.corrupt("the digest of its tensors is malformed");
          break;
        case 'o':
          parse_originals();
          break;
        case 'p':
          header_.part = static_cast<FilePart>(read_choice(in_, 2) + 1);
          if (header_.part == FilePart::kRest)
            optional_parts::need(optional_parts::kDeltas, "an exact part");
          break;
        case 's':
          header_.settings = in_.text();
          break;
        case 't':
          parse_tensors();
          break;
        case 'u':
          parse_steps();
          break;
        case 'w':
          parse_stripes();
          break;
        default:
          optional_parts::need(optional_parts::kSmall, "the profile small");
          if (!keys.has('w')) in_.corrupt("it has sections beside stripes, and no stripes");
          parse_small_sections();
      }
    }
    if (!listed) add_usual_tensors();
    in_.finish();
    if (steps_ > 0 && !keys.has('u')) in_.corrupt("key u is missing");
    check_base();
    resolve_ties();
    check_names();
    check_totals();
    return std::move(header_);
  }

 private:
  void within(std::int64_t bytes, const char* what) const {
    if (bytes > limits_.output_bytes)
      throw Error(Errc::kLimit, "the file declares " + std::to_string(bytes) + " bytes of " + what +
                                    ", at most " + std::to_string(limits_.output_bytes) +
                                    " are allowed; raise the limit if you trust the file");
  }

  void check_count(std::int64_t n) const {
    if (n > limits_.tensors)
      throw Error(Errc::kLimit, "the file declares " + std::to_string(n) + " tensors, at most " +
                                    std::to_string(limits_.tensors) + " are allowed");
  }

  void parse_bases() {
    optional_parts::need(optional_parts::kDeltas, "a base");
    const std::int64_t n = in_.array();
    if (n < 1 || n > static_cast<std::int64_t>(kMostBases))
      in_.corrupt("it has no bases, or too many");
    for (std::int64_t i = 0; i < n; ++i) {
      std::string digest = in_.text();
      if (!is_base_digest(digest)) in_.corrupt("the digest of a base is malformed");
      if (std::find(header_.bases.begin(), header_.bases.end(), digest) != header_.bases.end())
        in_.corrupt("a base is there twice");
      header_.bases.push_back(std::move(digest));
    }
  }

  void parse_originals() {
    SectionEntry& section = header_.originals;
    if (in_.array() == 2) {
      section.stored = read_size(in_);
      section.raw = read_size(in_);
    }
    if (section.stored < 1 || section.stored > section.raw)
      in_.corrupt("its original files have no size");
    within(section.raw, "original files");
    if (section.stored < section.raw) section.packing = Packing::kZstd;
  }

  void add_usual_tensors() {
    optional_parts::need(optional_parts::kArchitectures, "an architecture");
    if (!layout_) in_.corrupt("it lists no tensors, and they do not follow from an architecture");
    check_count(static_cast<std::int64_t>(layout_->size()));
    for (const LayoutEntry& known : *layout_) add_short(known.buffer ? 2 + known.initial : 0);
  }

  void parse_tensors() {
    const std::int64_t n = in_.array();
    check_count(n);
    for (std::int64_t i = 0; i < n; ++i) {
      if (optional_parts::kArchitectures && in_.at_unsigned())
        add_short(read_choice(in_, kShortFloats + 1));
      else
        add(read_tensor_fields(in_));
    }
    const std::size_t known = layout_ ? layout_->size() : 0;
    if (unnamed_ > 0 && (unnamed_ != header_.tensors.size() || unnamed_ != known))
      in_.corrupt("its tensors are not those of the architecture it names");
  }

  /// A tensor of the layout: coded (0), with row steps (1), all 0 (2), all 1 (3), coded and
  /// dependent (4), the same with row steps (5), short floats (6).
  void add_short(int number) {
    TensorFields entry;
    if (number == kShortFloats) {
      entry.form = 0;
      entry.mantissa_bits = kUsualMantissa;
    } else if (number < 2 || number >= 4) {
      entry.form = static_cast<unsigned>(number < 2 ? number : number - 2);
    } else {
      const std::vector<std::byte> element = simple_element(next_known().dtype, number - 2);
      entry.value = 0;
      std::memcpy(&*entry.value, element.data(), element.size());
    }
    add(std::move(entry));
  }

  const LayoutEntry& next_known() const {
    const std::size_t i = header_.tensors.size();
    if (!layout_ || i >= layout_->size())
      in_.corrupt("a tensor has no name, and none follows from an architecture");
    return (*layout_)[i];
  }

  void add(TensorFields&& entry) {
    ArtifactTensor tensor;
    tensor.name = std::move(entry.name);
    if (entry.shape) tensor.shape = std::move(*entry.shape);
    if (tensor.name.empty()) {
      optional_parts::need(optional_parts::kArchitectures, "an architecture");
      const LayoutEntry& known = next_known();
      ++unnamed_;
      tensor.name = known.name;
      tensor.shape = known.shape;
      tensor.dtype = known.dtype;
    }
    if (entry.dtype) tensor.dtype = *entry.dtype;
    tensor.block_type = entry.block_type;
    if (entry.tied != kNotTied)
      tensor.kind = TensorKind::kTied;
    else if (entry.value)
      tensor.kind = TensorKind::kConstant;
    else if (entry.form)
      tensor.kind = entry.has_spec() ? TensorKind::kPredicted : TensorKind::kQuantized;
    else if (optional_parts::kBlocks && entry.source)
      tensor.kind = TensorKind::kBlocks;
    else if (optional_parts::kDeltas && entry.change)
      tensor.kind = TensorKind::kChange;
    else if (optional_parts::kDeltas && entry.base > 0)
      tensor.kind = TensorKind::kBase;
    else if (optional_parts::kPieces && entry.pieces)
      tensor.kind = TensorKind::kPieces;
    else
      tensor.kind = entry.has_spec() ? TensorKind::kGenerated : TensorKind::kExact;
    if (optional_parts::kDeltas && entry.base > 0) tensor.base = entry.base - 1;
    if (tensor.kind != TensorKind::kTied) finish_tensor(tensor, entry);
    header_.tensors.push_back(std::move(tensor));
    header_.sections.push_back(entry.section);
    tied_.push_back(entry.tied);
  }

  /// Everything that follows from the entry itself; nothing has been allocated for it yet.
  void finish_tensor(ArtifactTensor& tensor, TensorFields& entry) {
    SectionEntry& section = entry.section;
    const std::int64_t bytes = tensor_bytes(tensor.shape, tensor.dtype);
    within(bytes, "one tensor");
    if (optional_parts::kDeltas && tensor.kind == TensorKind::kBase) return;
    if (optional_parts::kDeltas && tensor.kind == TensorKind::kChange)
      return finish_change(tensor, section);
    if (optional_parts::kPieces && tensor.kind == TensorKind::kPieces)
      return finish_pieces(tensor, entry);
    if (optional_parts::kBlocks && tensor.kind == TensorKind::kBlocks)
      return finish_blocks(tensor, entry);
    if (tensor.kind == TensorKind::kExact) section.raw = bytes;
    if (tensor.kind == TensorKind::kConstant) set_element(tensor, *entry.value);
    if (entry.has_spec()) finish_spec(tensor, entry);
    if (has_values(tensor)) finish_values(tensor, entry);
    if (has_values(tensor) || has_coded_theta(tensor)) {
      fits_small_ = fits_small_ && fits_small(integer_grids(tensor));
      integers_ = checked_add(integers_, integer_count(tensor), "the coded integers");
      steps_ += static_cast<std::int64_t>(tensor.theta_steps.size()) + has_values(tensor);
      ++coded_;
      return;
    }
    check_packing(in_, tensor, section);
    if (optional_parts::kBlocks && section.packing == Packing::kBlocks) check_blocks(tensor, bytes);
    tensor.stored_bytes = section.stored;
  }

  void finish_pieces(ArtifactTensor& tensor, TensorFields& entry) {
    pieces_ += static_cast<std::int64_t>(entry.pieces->size());
    check_count(pieces_);
    set_pieces(in_, tensor, std::move(*entry.pieces));
    entry.section.stored = tensor.stored_bytes;
  }

  void finish_blocks(ArtifactTensor& tensor, TensorFields& entry) {
    check_blocks(tensor, tensor_bytes(tensor.shape, tensor.dtype));
    tensor.source = *std::move(entry.source);
    tensor.source.name = entry.source_name.empty() ? tensor.name : std::move(entry.source_name);
    if (!is_within(tensor.source, block_elements(tensor)))
      in_.corrupt("blocks are made of elements that a tensor does not have");
    tensor.stored_bytes = entry.section.stored;
  }

  void check_blocks(const ArtifactTensor& tensor, std::int64_t bytes) {
    const gguf::BlockLayout* const layout = gguf::find_block_layout(tensor.block_type);
    if (!layout || tensor.dtype != DType::kU8 || bytes % layout->bytes != 0)
      in_.corrupt("a section has blocks of no known type");
  }

  void finish_change(ArtifactTensor& tensor, const SectionEntry& section) {
    if (!has_change(tensor.dtype)) in_.corrupt("this element type has no changes");
    if (checked_elements(tensor.shape, "a tensor") < 1) in_.corrupt("a change has no elements");
    tensor.stored_bytes = section.stored;
  }

  void set_element(ArtifactTensor& tensor, std::uint64_t value) {
    const int bits = dtype_bits(tensor.dtype);
    if (bits % 8 != 0 || (bits < 64 && value >> bits != 0))
      in_.corrupt("a constant is not an element of its type");
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    tensor.element.assign(first, first + bits / 8);
  }

  void finish_spec(ArtifactTensor& tensor, TensorFields& entry) {
    if (!is_real(tensor.dtype)) in_.corrupt("g-nets cannot generate this element type");
    const bool predicted = tensor.kind == TensorKind::kPredicted;
    tensor.coding = predicted ? Coding::kCoded : entry.coding.value_or(Coding::kI8);
    try {
      tensor.spec = complete_spec(std::move(*entry.spec), tensor.shape);
      if (tensor.coding == Coding::kCoded)
        tensor.theta_steps.resize(gnet_blocks(tensor.spec).size());
      else
        entry.section.raw = coded_bytes(tensor.spec, tensor.coding);
      numbers_ =
          checked_add(numbers_, checked_mul(spec_parameters(tensor.spec), 4, "theta"), "theta");
    } catch (const Error& error) {
      throw Error(error.code() == Errc::kLimit ? Errc::kLimit : Errc::kCorrupt,
                  "the specification of " + printable(tensor.name) + " is wrong: " + error.what());
    }
    within(numbers_, "g-net parameters");
  }

  void finish_values(ArtifactTensor& tensor, const TensorFields& entry) {
    const bool whole = is_codable(tensor.dtype) && !is_real(tensor.dtype);
    const unsigned form = *entry.form;
    if (form >= kWide && !(whole && (form == kWide || form == kNibbles)))
      throw Error(Errc::kUnsupported, "integers of kind " + std::to_string(form) +
                                          " are unknown; upgrade gbcompress to read this file");
    const bool stepless = form == 0 || form >= kWide;
    if (!is_codable(tensor.dtype) ||
        (whole && (entry.has_spec() || !stepless || entry.mantissa_bits > 0)) ||
        (form == kNibbles && (entry.grid || !has_nibbles(tensor.dtype))))
      in_.corrupt("this element type cannot be coded so");
    tensor.mantissa_bits = entry.mantissa_bits;
    const std::int64_t elements = checked_elements(tensor.shape, "a tensor");
    if (elements < 1) in_.corrupt("a coded tensor has no elements");
    tensor.row_steps = form & 1;
    tensor.nibbles = form == kNibbles;
    tensor.grid =
        tensor.nibbles ? nibble_grid(tensor.shape, tensor.dtype) : default_grid(tensor.shape);
    tensor.grid.dependent = form & 2;
    tensor.grid.wide = form == kWide;
    if (entry.axis >= 0 && (whole || !has_transform(tensor.shape, entry.axis)))
      in_.corrupt("a tensor has no such axis");
    tensor.axis = entry.axis;
    if (optional_parts::kDeltas && entry.base && whole)
      in_.corrupt("an integer tensor is stored as a change of a base");
    tensor.on_base = optional_parts::kDeltas && entry.base > 0;
    if (entry.grid) {
      if (entry.grid->size() != 3) in_.corrupt("a grid needs three values");
      tensor.grid.rows = (*entry.grid)[0];
      tensor.grid.cols = (*entry.grid)[1];
      tensor.grid.stride = (*entry.grid)[2];
      if (!is_grid(tensor.grid, elements)) in_.corrupt("a grid does not fit its tensor");
    }
    if (!optional_parts::kLevels || !entry.levels) return;
    tensor.levels = level_form(*entry.levels, tensor.dtype);
    if (!fits_levels(tensor.levels, tensor.grid, tensor.dtype))
      in_.corrupt("levels do not fit their tensor");
  }

  void parse_steps() {
    if (in_.array() != steps_) in_.corrupt("there are not as many steps as the coded tensors need");
    StepPredictor predictor;
    const auto next = [&](const ArtifactTensor* tensor) {
      const std::int64_t step = in_.integer() + predictor.expected(tensor);
      if (step < kMinStep || step > kMaxStep) in_.corrupt("a step is out of range");
      if (tensor && tensor->mantissa_bits > 0 &&
          (step < kMinFloatExponent || step > kMaxFloatExponent))
        in_.corrupt("an exponent is out of range");
      predictor.saw(tensor, static_cast<int>(step));
      return static_cast<int>(step);
    };
    for (ArtifactTensor& tensor : header_.tensors) {
      for (int& step : tensor.theta_steps) step = next(nullptr);
      if (has_values(tensor)) tensor.step = next(&tensor);
    }
  }

  void parse_stripes() {
    header_.profile = CodecProfile::kLanes;
    const std::int64_t n = in_.array();
    if (n < 2 || coded_ == 0) in_.corrupt("its stripes are none");
    header_.head_bytes = read_size(in_);
    for (std::int64_t i = 1; i < n; ++i) header_.stripes.push_back(read_size(in_));
    for (ArtifactTensor& tensor : header_.tensors) {
      tensor.profile = CodecProfile::kLanes;
      tensor.grid.lanes = tensor.grid.dependent;
    }
  }

  /// Of tensors whose integers have the profile small beside others in stripes.
  void parse_small_sections() {
    if (in_.array() != coded_) in_.corrupt("there are not as many sections as coded tensors");
    std::int64_t sections = 0;
    for (std::size_t i = 0; i < header_.tensors.size(); ++i) {
      ArtifactTensor& tensor = header_.tensors[i];
      if (!has_values(tensor) && !has_coded_theta(tensor)) continue;
      const std::int64_t size = read_size(in_);
      if (size == 0) continue;  // in stripes
      tensor.profile = CodecProfile::kSmall;
      tensor.grid.lanes = false;
      tensor.stored_bytes = header_.sections[i].stored = size;
      check_small(integer_count(tensor), fits_small(integer_grids(tensor)));
      ++sections;
    }
    if (sections == 0 || sections == coded_)
      in_.corrupt("all of its integers are in stripes, or none");
  }

  void check_base() {
    if (!optional_parts::kDeltas && !optional_parts::kPieces && !optional_parts::kBlocks)
      return;  // nothing refers to one
    const bool rest = header_.part == FilePart::kRest;
    if (header_.part != FilePart::kAll && !header_.bases.empty())
      in_.corrupt("a part of a file with layers names a base");
    std::vector<bool> needed(rest ? 1 : header_.bases.size());  // of a rest, the draft
    for (const ArtifactTensor& tensor : header_.tensors)
      for_bases(tensor, [&](std::size_t base) {
        if (base >= needed.size()) in_.corrupt("a tensor refers to a base that is not named");
        needed[base] = true;
      });
    if (rest && std::any_of(header_.tensors.begin(), header_.tensors.end(), has_other_source))
      in_.corrupt("a tensor of an exact part refers to another one of the draft");
    if (!rest && std::find(needed.begin(), needed.end(), false) != needed.end())
      in_.corrupt("it names a base that no tensor refers to");
  }

  /// Whether something but the namesake in a base makes the tensor.
  static bool has_other_source(const ArtifactTensor& tensor) {
    if (tensor.kind == TensorKind::kBlocks) return true;
    return std::any_of(tensor.pieces.begin(), tensor.pieces.end(), [](const TensorPiece& piece) {
      return piece.source == TensorPiece::Source::kBase;
    });
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
    std::unordered_map<std::string_view, std::size_t> places;
    for (const ArtifactTensor& tensor : header_.tensors) {
      if (!is_tensor_name(tensor.name))
        throw in_.error(printable(tensor.name.substr(0, 512)) + " cannot be a tensor's name");
      if (!places.emplace(tensor.name, places.size()).second)
        throw in_.error("two tensors are named " + printable(tensor.name));
    }
  }

  void check_totals() {
    for (const ArtifactTensor& tensor : header_.tensors)
      header_.output_bytes = checked_add(
          header_.output_bytes, tensor_bytes(tensor.shape, tensor.dtype), "the expanded file");
    within(header_.output_bytes, "tensors");
    if (coded_ > 0 && header_.profile == CodecProfile::kSmall) {
      optional_parts::need(optional_parts::kSmall, "the profile small");
      check_small(integers_, fits_small_);
    }
    within(checked_mul(integers_, 4, "the coded integers"), "coded integers");
  }

  /// Of one stream.
  static void check_small(std::int64_t integers, bool fits) {
    if (integers > kMaxSmallIntegers || !fits)
      throw Error(Errc::kLimit, "the file declares " + std::to_string(integers) +
                                    " coded integers, or rows of them, beyond what its profile "
                                    "allows: " +
                                    std::to_string(kMaxSmallIntegers) + " together, " +
                                    std::to_string(kMaxSmallColumns) + " in a row");
  }

  CborReader in_;
  const ArtifactLimits& limits_;
  Header header_;
  std::optional<std::vector<LayoutEntry>> layout_;
  std::vector<std::size_t> tied_;
  std::size_t unnamed_ = 0;    ///< tensors that the architecture names
  std::int64_t numbers_ = 0;   ///< bytes of all g-net parameters as float32
  std::int64_t integers_ = 0;  ///< of all coded tensors
  std::int64_t steps_ = 0, coded_ = 0;
  std::int64_t pieces_ = 0;  ///< of all tensors
  bool fits_small_ = true;
};

}  // namespace

Header parse_header(std::span<const std::byte> bytes, const ArtifactLimits& limits,
                    const std::string& label) {
  return HeaderParser(bytes, limits, label).parse();
}

}  // namespace gbcompress
