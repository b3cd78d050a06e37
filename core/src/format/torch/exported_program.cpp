#include "format/torch/exported_program.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/file.h"
#include "format/folder/left_out.h"
#include "format/safetensors/json_scan.h"
#include "format/torch/state_dict.h"
#include "format/torch/strided.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::string_view kConfigEnd = "_weights_config.json", kFormat = "archive_format";
constexpr std::string_view kOldProgram = "serialized_exported_program.json";
constexpr std::uint64_t kStrided = 7;  ///< torch's export schema, Layout

/// torch's export schema, ScalarType.
const std::map<std::uint64_t, DType> kScalarTypes = {
    {1, DType::kU8},      {2, DType::kI8},      {3, DType::kI16},         {4, DType::kI32},
    {5, DType::kI64},     {6, DType::kF16},     {7, DType::kF32},         {8, DType::kF64},
    {10, DType::kC64},    {12, DType::kBool},   {13, DType::kBF16},       {28, DType::kU16},
    {29, DType::kF8E4M3}, {30, DType::kF8E5M2}, {31, DType::kF8E4M3FNUZ}, {32, DType::kF8E5M2FNUZ}};

struct Weight {
  std::string name, path;
  bool pickled = false;
  std::optional<std::uint64_t> dtype, layout;
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;
};

/// {"config": {NAME: {"path_name", "use_pickle", "tensor_meta": {"dtype", "layout", "sizes":
/// [{"as_int"}], "strides", "storage_offset": {"as_int"}, ...}, ...}}}; the rest is passed over.
class ConfigHandler : public JsonHandler {
 public:
  explicit ConfigHandler(const std::string& label) : label_(label) {}
  std::vector<Weight> weights;

  void begin(JsonFrames frames, bool) override {
    if (frames.size() != 2 || frames[0].key != "config") return;
    if (weights.size() == kMaxTensors)
      throw Error(Errc::kLimit, label_ + " lists more than 1,000,000 tensors");
    weights.push_back({.name = frames[1].key});
  }
  void end(JsonFrames) override {}
  void text(JsonFrames frames, std::string& value) override {
    if (in_weight(frames, 3) && frames[2].key == "path_name") weights.back().path = value;
  }
  void truth(JsonFrames frames, bool value) override {
    if (in_weight(frames, 3) && frames[2].key == "use_pickle") weights.back().pickled = value;
  }
  void whole(JsonFrames frames, std::uint64_t value) override {
    if (!in_weight(frames, 4) || frames[2].key != "tensor_meta") return;
    const std::string& field = frames[3].key;
    Weight& weight = weights.back();
    if (frames.size() == 4 && field == "dtype") weight.dtype = value;
    if (frames.size() == 4 && field == "layout") weight.layout = value;
    if (frames.back().key != "as_int") return;
    if (frames.size() == 5 && field == "storage_offset") weight.offset = number(value);
    if (frames.size() == 6 && field == "sizes") append(weight.sizes, value);
    if (frames.size() == 6 && field == "strides") append(weight.strides, value);
  }
  void other(JsonFrames frames) override {
    if (in_weight(frames, 5) && frames.back().key == "as_int")
      throw Error(Errc::kCorrupt, label_ + ": tensor " + printable(frames[1].key) +
                                      " has a size or stride that is not a non-negative integer");
  }

 private:
  static bool in_weight(JsonFrames frames, std::size_t least) {
    return frames.size() >= least && frames[0].key == "config";
  }
  std::int64_t number(std::uint64_t value) const {
    if (value >> 63 != 0) throw Error(Errc::kLimit, label_ + " has a number that is too large");
    return static_cast<std::int64_t>(value);
  }
  void append(std::vector<std::int64_t>& list, std::uint64_t value) const {
    if (list.size() > kMaxTensorRank)
      throw Error(Errc::kLimit, label_ + " has a tensor of more than 8 dimensions");
    list.push_back(number(value));
  }

  const std::string& label_;
};

/// "folder/" of the archive, "" where there is none.
std::string root_of(const ZipArchive& zip) {
  for (const auto& [name, entry] : zip.entries())
    if (const std::size_t slash = name.find('/');
        slash != std::string::npos && std::string_view(name).substr(slash + 1) == kFormat)
      return name.substr(0, slash + 1);
  return "";
}

/// An entry of the older archives, in a folder or not.
std::string entry_ending(const ZipArchive& zip, std::string_view end) {
  for (const auto& [name, entry] : zip.entries())
    if (name == end || name.ends_with("/" + std::string(end))) return name;
  return "";
}

class ExportedReader {
 public:
  ExportedReader(std::span<const std::byte> bytes, const std::string& label,
                 const OpenOptions& options)
      : bytes_(bytes), label_(label), options_(options), zip_(bytes, label), root_(root_of(zip_)) {}

  TensorBundle read() {
    const std::string folder = root_ + "data/weights/";
    std::map<std::string, std::string> programs;  // name to entry
    for (const auto& [name, entry] : zip_.entries()) {
      if (root_.empty() || !name.starts_with(folder)) continue;
      const std::string file = name.substr(folder.size());
      if (file.ends_with(kConfigEnd))
        programs.emplace(file.substr(0, file.size() - kConfigEnd.size()), name);
      else if (file.ends_with(".pt"))
        programs.emplace(file.substr(0, file.size() - 3), name);
    }
    if (const std::string old = entry_ending(zip_, "serialized_state_dict.pt"); !old.empty())
      programs.emplace("model", old);
    const std::string entry = choose(programs);
    TensorBundle bundle = entry.ends_with(".pt") ? read_nested(entry) : read_raw(entry, folder);
    note_constants(bundle);
    if (bundle.tensors.empty())
      throw Error(Errc::kUnsupported, label_ + " is a torch.export program without weights");
    sort_by_name(bundle, label_);
    return bundle;
  }

 private:
  const std::string& choose(const std::map<std::string, std::string>& programs) const {
    if (programs.empty()) refuse();
    if (!options_.part.empty() && programs.size() > 1) {
      const auto found = programs.find(options_.part);
      if (found != programs.end()) return found->second;
    } else if (programs.size() == 1) {
      return programs.begin()->second;
    }
    std::string names;
    for (const auto& [name, entry] : programs)
      names += (names.empty() ? "" : ", ") + printable(name);
    if (!options_.part.empty())
      throw Error(Errc::kNotFound,
                  label_ + " has no program " + printable(options_.part) + "; it has " + names);
    throw Error(Errc::kUsage, label_ + " holds " + std::to_string(programs.size()) +
                                  " programs: " + names + "; choose one with `part` NAME");
  }

  [[noreturn]] void refuse() const {
    const std::string compiled = root_ + "data/aotinductor/";
    const auto at = zip_.entries().lower_bound(compiled);
    if (at != zip_.entries().end() && at->first.starts_with(compiled))
      throw Error(Errc::kUnsupported, label_ +
                                          " is an AOTInductor package: compiled code, not weights; "
                                          "take what torch.export.save wrote of the same model");
    throw Error(Errc::kUnsupported, label_ + " is a .pt2 archive without weights of torch.export");
  }

  /// The bundle's bytes are in the mapped file, as a nested zip is stored plain.
  TensorBundle read_nested(const std::string& entry) const {
    OpenOptions options = options_;
    options.part.clear();
    return read_state_dict(zip_.read(entry), label_ + ": " + printable(entry), options);
  }

  TensorBundle read_raw(const std::string& config, const std::string& folder) const {
    const std::string label = label_ + ": " + printable(config);
    const auto text = zip_.read(config);
    ConfigHandler handler(label);
    scan_json({reinterpret_cast<const char*>(text.data()), text.size()}, label, 16, handler);
    TensorBundle bundle;
    StridedReader reader(bundle, bytes_.size());
    std::map<std::string, std::span<const std::byte>> storages;
    for (const Weight& weight : handler.weights) {
      check_tensor_name(weight.name, label_);
      const std::string what = label_ + ": tensor " + printable(weight.name);
      const auto dtype = kScalarTypes.find(weight.dtype.value_or(0));
      if (weight.pickled || dtype == kScalarTypes.end() || weight.layout != kStrided)
        throw Error(Errc::kUnsupported,
                    what + (weight.pickled ? " is a pickled tensor of a class of its own"
                            : weight.layout != kStrided ? " is sparse"
                                                        : " has an unknown dtype"));
      TensorEntry entry{weight.name, dtype->second, weight.sizes, {}};
      tensor_bytes(entry.dtype, entry.shape, what);
      const auto [known, added] = storages.try_emplace(weight.path);
      if (added) known->second = zip_.read(folder + weight.path);
      reader.read(entry, known->second, weight.offset, weight.strides, what);
      bundle.tensors.push_back(std::move(entry));
    }
    return bundle;
  }

  /// They belong to the program, not to the module's state dict.
  void note_constants(TensorBundle& bundle) const {
    std::vector<LeftOut> constants;
    for (const auto& [name, entry] : zip_.entries()) {
      const std::string folder = root_ + "data/constants/tensor_";
      if (name.starts_with(folder))
        constants.push_back(
            {"constant " + name.substr(folder.size()), 1, static_cast<std::int64_t>(entry.size)});
    }
    if (constants.empty()) return;
    LeftOut all{"the program's constants", constants.size(), 0};
    for (const LeftOut& each : constants) {
      all.bytes += each.bytes;
      bundle.left_out.push_back(each.name);
    }
    bundle.notes.push_back("left out: the program, " + left_out_text({all}));
  }

  std::span<const std::byte> bytes_;
  const std::string& label_;
  const OpenOptions& options_;
  ZipArchive zip_;
  std::string root_;
};

}  // namespace

bool is_exported_program(const ZipArchive& zip) {
  return !root_of(zip).empty() || !entry_ending(zip, kOldProgram).empty();
}

TensorBundle read_exported_program(std::span<const std::byte> bytes, const std::string& label,
                                   const OpenOptions& options) {
  return ExportedReader(bytes, label, options).read();
}

TensorBundle read_exported_program(const std::filesystem::path& path, const OpenOptions& options) {
  auto map = std::make_shared<const MappedFile>(path);
  TensorBundle bundle = read_exported_program(map->bytes(), printable(path.string()), options);
  if (options.part.empty()) bundle.contents.push_back(map->bytes());
  bundle.owners.push_back(std::move(map));
  return bundle;
}

}  // namespace gbcompress
