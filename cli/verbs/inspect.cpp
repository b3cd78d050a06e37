#include <boost/program_options.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "command.h"
#include "each_input.h"
#include "exit_status.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/tensors.h"
#include "gbcompress/weights.h"
#include "idle_options.h"
#include "listing.h"
#include "model_options.h"
#include "report.h"
#include "source_of.h"
#include "stored_bases.h"
#include "stored_table.h"
#include "table.h"
#include "torch_module.h"
#include "verb_table.h"

namespace gbcompress::cli {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

std::string tiles_text(const GNetSpec& spec) {
  return with_commas(spec.grid().tiles()) + " of " + std::to_string(spec.tile_rows) + "x" +
         std::to_string(spec.tile_cols);
}

ordered_json spec_json(const ArtifactTensor& tensor) {
  const GNetSpec& spec = tensor.spec;
  ordered_json kernel_codes = ordered_json::array(), entry;
  for (const AxisCode& code : spec.kernel_codes) kernel_codes.push_back(code_text(code));
  entry["type"] = spec.type_id;
  entry["revision"] = spec.type_revision;
  entry["tiles"] = spec.grid().tiles();
  entry["tile_shape"] = {spec.tile_rows, spec.tile_cols};
  entry["generator"] = generator_name(spec.generator);
  if (is_product(spec.generator)) {
    entry["rank"] = spec.rank;
  } else {
    entry["inputs"] = gnet_inputs(spec);
    entry["hidden"] = spec.hidden;
    entry["row_code"] = code_text(spec.row_code);
    entry["col_code"] = code_text(spec.col_code);
    entry["kernel_codes"] = kernel_codes;
  }
  entry["parameters"] = spec_parameters(spec);
  entry["coding"] = coding_name(tensor.coding);
  return entry;
}

bool has_step(const ArtifactTensor& tensor) {
  return tensor.kind == TensorKind::kQuantized || tensor.kind == TensorKind::kPredicted;
}

double bits_a_weight(const ArtifactTensor& tensor, double bits) {
  return bits / static_cast<double>(std::max<std::int64_t>(1, tensor_elements(tensor.shape)));
}

ordered_json tensor_json(const ArtifactTensor& tensor, const StoredTensor& stored) {
  const double bits = 8 * stored.bytes;
  ordered_json entry = {{"name", tensor.name},
                        {"shape", tensor.shape},
                        {"dtype", dtype_name(tensor.dtype)},
                        {"kind", kind_name(tensor.kind)},
                        {"stored_bytes", std::llround(bits / 8)},
                        {"bits_per_weight", bits_a_weight(tensor, bits)}};
  if (!stored.profile.empty()) entry["profile"] = stored.profile;
  if (tensor.kind == TensorKind::kTied) entry["tied_to"] = tensor.tied_to;
  if (has_step(tensor)) {
    if (tensor.mantissa_bits > 0) {
      entry["mantissa_bits"] = tensor.mantissa_bits;
    } else if (tensor.levels.palette > 0) {
      entry["palette"] = tensor.levels.palette;
    } else if (tensor.levels.positions > 0) {
      entry["predicted_positions"] = tensor.levels.positions;
    } else if (tensor.levels.used()) {
      entry["factor_blocks"] = {tensor.levels.block_rows, tensor.levels.block_cols};
    } else if (is_real(tensor.dtype)) {
      entry["step"] = step_size(tensor.step);
      entry["row_steps"] = tensor.row_steps;
    }
  }
  entry.update(sources_json(tensor));
  if (has_spec(tensor.kind)) entry.update(spec_json(tensor));
  return entry;
}

/// What a tensor is made of, in a few words.
std::string made_of(const ArtifactReader& artifact, const ArtifactTensor& tensor) {
  char text[40];
  if (tensor.mantissa_bits > 0)
    std::snprintf(text, sizeof text, "short floats, %d bits", tensor.mantissa_bits);
  else if (tensor.levels.palette > 0)
    std::snprintf(text, sizeof text, "%d levels", static_cast<int>(tensor.levels.palette));
  else if (tensor.levels.positions > 0)
    std::snprintf(text, sizeof text, "predicted along lines");
  else if (tensor.levels.used())
    std::snprintf(text, sizeof text, "integers times exact factors");
  else if (!is_real(tensor.dtype))
    std::snprintf(text, sizeof text, "integers");
  else
    std::snprintf(text, sizeof text, "step %.4g%s", static_cast<double>(step_size(tensor.step)),
                  tensor.row_steps ? " by row" : "");
  switch (tensor.kind) {
    case TensorKind::kGenerated:
      return tiles_text(tensor.spec) + ", " + generator_text(tensor.spec);
    case TensorKind::kPredicted:
      return tiles_text(tensor.spec) + ", " + generator_text(tensor.spec) + ", " + text;
    case TensorKind::kQuantized:
      return (tensor.on_base ? "base, " : "") + std::string(text);
    case TensorKind::kTied:
      return "= " + printable(tensor.tied_to);
    default:
      return sources_text(artifact, tensor);
  }
}

/// Without data no tensor of quantized weights has a larger error: at least half of its squares
/// stay.
constexpr double kMostWithoutData = 0.5;
constexpr const char* kDataMovedThem =
    "errors above 0.5 are those of weights that data moved (calibrated or trained), and say "
    "nothing "
    "about the quality; compare MODEL FILE --data D measures it\n";

/// What an artifact holds, tensor by tensor.
struct ArtifactListing {
  Table table{5};
  std::string note;  ///< how to read the errors; "" where they mean what they say
  ordered_json list = ordered_json::array();
  std::int64_t generated = 0, parameters = 0;

  /// @param tensors  stored_tensors(), or compared with a source
  ArtifactListing(const ArtifactReader& artifact, const std::vector<StoredTensor>& tensors,
                  bool compared)
      : gnets_(std::any_of(artifact.tensors().begin(), artifact.tensors().end(),
                           [](const ArtifactTensor& tensor) { return has_spec(tensor.kind); })),
        lanes_(artifact.profile() == CodecProfile::kLanes) {
    std::vector<std::string> head = {"name",       "shape",  "dtype", "kind",           "made of",
                                     "parameters", "coding", "bytes", "bits per weight"};
    if (compared) head.push_back("error");
    row(head);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      add(artifact, artifact.tensors()[i], tensors[i], compared);
  }

 private:
  /// Without g-nets there is nothing to say in their two columns.
  void row(std::vector<std::string> cells) {
    if (!gnets_) cells.erase(cells.begin() + 5, cells.begin() + 7);
    table.row(cells);
  }

  /// In a file of profile lanes.
  bool apart(const StoredTensor& stored) const { return lanes_ && stored.profile == "small"; }

  const bool gnets_, lanes_;

  void add(const ArtifactReader& artifact, const ArtifactTensor& tensor, const StoredTensor& stored,
           bool compared) {
    const bool made = has_spec(tensor.kind);
    if (made) {
      ++generated;
      parameters += spec_parameters(tensor.spec);
    }
    list.push_back(tensor_json(tensor, stored));
    if (compared) list.back().update(error_json(stored));
    const std::string kind(kind_name(tensor.kind));
    std::vector<std::string> row = {
        printable(tensor.name),
        shape_text(tensor.shape),
        std::string(dtype_name(tensor.dtype)),
        !made                                   ? kind
        : tensor.kind == TensorKind::kPredicted ? printable(tensor.spec.type_id) + " " + kind
                                                : printable(tensor.spec.type_id),
        made_of(artifact, tensor) + (apart(stored) ? ", profile small" : ""),
        made ? with_commas(spec_parameters(tensor.spec)) : "",
        made ? std::string(coding_name(tensor.coding)) : "",
        with_commas(std::llround(stored.bytes)),
        fixed(bits_a_weight(tensor, 8 * stored.bytes), 2)};
    if (compared) row.push_back(error_text(stored));
    this->row(row);
    if (compared && tensor.kind == TensorKind::kQuantized && stored.error > kMostWithoutData)
      note = kDataMovedThem;
  }
};

ordered_json chain_json(const std::vector<ChainLink>& chain) {
  ordered_json links = ordered_json::array();
  for (const ChainLink& link : chain)
    links.push_back(
        {{"file", link.file.empty() ? ordered_json() : ordered_json(link.file.string())},
         {"digest", link.digest},
         {"bytes", link.bytes}});
  return links;
}

/// One line a link; "" for a file that is no delta.
std::string chain_text(const std::vector<ChainLink>& chain) {
  std::string text;
  for (const ChainLink& link : chain)
    text += (text.empty() ? "chain  " : "       ") +
            (link.file.empty()
                 ? "missing: no file in this folder has " + link.digest
                 : printable(link.file.string()) + ", " + with_commas(link.bytes) + " bytes") +
            "\n";
  return text;
}

/// Of a file with layers; nothing of others.
ordered_json layers_json(const ArtifactReader& artifact) {
  if (const ArtifactReader* draft = artifact.draft())
    return {{"draft_bytes", draft->file_bytes()},
            {"exact_bytes", artifact.file_bytes() - draft->file_bytes()}};
  if (!artifact.is_draft()) return {};
  return {{"draft_bytes", artifact.file_bytes()}, {"exact_bytes", nullptr}};
}

std::string layers_text(const ArtifactReader& artifact) {
  if (const ArtifactReader* draft = artifact.draft())
    return "layers: a draft, the first " + with_commas(draft->file_bytes()) +
           " bytes, and the exact part, the other " +
           with_commas(artifact.file_bytes() - draft->file_bytes()) + "\n";
  return artifact.is_draft() ? "layers: the draft alone, without the exact part\n" : "";
}

ordered_json originals_json(const ArtifactReader& artifact) {
  ordered_json list = ordered_json::array();
  if (const auto originals = originals_of(artifact))
    for (const OriginalInfo& file : originals->files)
      list.push_back(
          {{"name", file.name},
           {"bytes", file.bytes},
           {"sha256", file.sha256.empty() ? ordered_json() : ordered_json(file.sha256)}});
  return list;
}

/// The files that expanding gives back, as they were or with other values.
std::string originals_text(const ArtifactReader& artifact) {
  const auto originals = originals_of(artifact);
  if (!originals) return "";
  const bool exact = originals->is_exact();
  std::string text = exact ? "expands to the original " : "expands to the ";
  text += originals->files.size() > 1 ? "files" : "file";
  text += exact ? ", byte for byte:\n" : ", with the values of this file:\n";
  for (const OriginalInfo& file : originals->files) {
    text += "  " + printable(file.name) + ", " + with_commas(file.bytes) + " bytes";
    text += file.sha256.empty() ? "\n" : ", sha256 " + file.sha256 + "\n";
  }
  return text;
}

ordered_json to_json(const ArtifactReader& artifact, const fs::path& file,
                     const ArtifactListing& listing, const std::vector<ChainLink>& chain) {
  const auto settings = ordered_json::parse(artifact.settings(), nullptr, false);
  return {{"file", file.string()},
          {"format", "gbz"},
          {"version", kArtifactVersion},
          {"arch", artifact.arch()},
          {"identity", artifact.identity()},
          {"bases", bases_json(artifact, chain)},
          {"digest", artifact.digest()},
          {"chain", chain_json(chain)},
          {"file_bytes", artifact.file_bytes()},
          {"layers", layers_json(artifact)},
          {"header_bytes", artifact.header_bytes()},
          {"output_bytes", artifact.output_bytes()},
          {"originals", originals_json(artifact)},
          {"profile", profile_name(artifact.profile())},
          {"generated_tensors", listing.generated},
          {"gnet_parameters", listing.parameters},
          {"tensors", listing.list},
          {"note", listing.note},
          {"settings", settings.is_discarded() ? ordered_json() : settings}};
}

void print_artifact(const ArtifactReader& artifact, const fs::path& file,
                    const ArtifactListing& listing, const std::vector<ChainLink>& chain) {
  const double ratio = static_cast<double>(artifact.output_bytes()) /
                       static_cast<double>(std::max<std::int64_t>(1, artifact.file_bytes()));
  std::cout << printable(file.string()) << ": gbz version " << kArtifactVersion << ", "
            << (artifact.arch().empty() ? "no architecture" : printable(artifact.arch()))
            << "\nsha256 " << artifact.identity() << bases_text(artifact) << "\n"
            << chain_text(chain) << "\n"
            << listing.table.text() << "\n"
            << with_commas(static_cast<std::int64_t>(artifact.tensors().size())) << " tensors";
  if (listing.generated > 0)
    std::cout << ", " << listing.generated << " of them generated by "
              << with_commas(listing.parameters) << " parameters";
  std::cout << "\n"
            << with_commas(artifact.file_bytes()) << " bytes (header "
            << with_commas(artifact.header_bytes()) << "), " << with_commas(artifact.output_bytes())
            << " expanded, ratio " << fixed(ratio, 2) << "\n"
            << layers_text(artifact) << originals_text(artifact) << listing.note;
}

void inspect_artifact(const fs::path& file, const Arguments& arguments, Report& page) {
  const ArtifactReader artifact = open_layer(file, layer_of(arguments));
  artifact.verify();
  const bool compared = arguments.has("against");
  std::optional<TensorSource> original;
  std::vector<StoredTensor> tensors;
  if (compared) {
    TensorBundle source = source_of(artifact, arguments.text("against"), model_options(arguments));
    tensors = compare_with_source(artifact, source);
    original = TensorSource::of(std::move(source));
  } else {
    tensors = stored_tensors(artifact);
  }
  const ArtifactListing listing(artifact, tensors, compared);
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const std::vector<ChainLink> chain = chain_of(artifact, folder);
  if (arguments.json())
    print_json(to_json(artifact, file, listing, chain));
  else
    print_artifact(artifact, file, listing, chain);
  if (!page.wanted()) return;
  page.show(artifact, std::move(original));
  page.write(to_json(artifact, file, listing, chain));
}

void inspect_model(const fs::path& file, FileKind kind, const Arguments& arguments, Report& page) {
  TensorBundle bundle = open_tensors(file, model_options(arguments));
  Listing listing{.format = format_name(kind, file),
                  .metadata = bundle.metadata,
                  .notes = bundle.notes,
                  .file_bytes = bundle.file_bytes};
  std::map<std::string, std::string> words;
  for (const auto& [name, operators] : consumers_of(bundle)) words[name] = joined(operators, ", ");
  if (!words.empty()) listing.column = "consumers";
  if (listing.format == "gguf") {
    words = gguf_types(file);
    listing.column = "type";
  }
  for (const TensorEntry& entry : bundle.tensors)
    if (entry.name != kContainer)
      listing.tensors.push_back({entry.name, words[entry.name], entry.dtype, entry.shape,
                                 static_cast<std::int64_t>(entry.bytes.size())});
  page.show(TensorSource::of(std::move(bundle)));
  print_listing(file, listing, arguments.json(), page);
}

void add_inspect_options(boost::program_options::options_description& into) {
  auto add = into.add_options();
  add("plan", "print the g-nets that each parameter would get, from names and shapes");
  add("against", boost::program_options::value<std::string>()->value_name("MODEL"),
      "for a .gbz: the error of each tensor to the file that it was made from");
  add("draft", "of a .gbz that was compressed with --layers, its first part alone");
  add_model_options(into);
  add("world", text_value("N"), "with --plan: number of processes");
  add("arch", text_value("NAME"),
      "with --plan: architecture, for a file that holds names and values only");
  add("config", text_value("FILE"),
      "with --plan: read settings from a TOML file, as compress does");
  add("set", boost::program_options::value<std::vector<std::string>>()->value_name("KEY=VALUE"),
      "with --plan: one setting; repeatable");
  add_report_options(into, /*force=*/true);
}

int inspect_one(const Arguments& arguments) {
  const fs::path file = model_in(arguments.words()[0]);
  const FileKind kind = sniff(file);
  std::vector<std::string> idle;
  if (arguments.has("plan")) {
    if (kind == FileKind::kArtifact)
      throw Error(Errc::kUsage, "a .gbz holds its g-nets; leave out --plan to print them");
    if (arguments.has("report"))
      throw Error(Errc::kUsage,
                  "--report contradicts --plan: a report shows the contents of a file");
    if (arguments.has("against"))
      throw Error(Errc::kUsage, "--against contradicts --plan: it compares the contents of a .gbz");
    note_idle_force(arguments, idle);
    note_idle_parts(arguments, {file}, idle);
    say_notes(arguments, idle);
    return run_with_torch("inspect", arguments);
  }
  for (const char* option : {"world", "arch", "config", "set"})
    if (arguments.has(option))
      throw Error(Errc::kUsage, std::string("--") + option + " needs --plan");
  if (arguments.has("draft") && kind != FileKind::kArtifact)
    throw Error(Errc::kUsage, "--draft inspects the draft of a .gbz");
  if (arguments.has("against") && kind != FileKind::kArtifact)
    throw Error(Errc::kUsage, "--against compares a .gbz with the file it was made of");
  note_idle(arguments, {"plugin"}, "inspect runs no layer types", idle);
  note_idle_force(arguments, idle);
  note_idle_parts(arguments,
                  {arguments.has("against") ? fs::path(arguments.text("against")) : file}, idle);
  say_notes(arguments, idle);
  if (kind == FileKind::kTorchScript) return run_with_torch("inspect", arguments);
  Report page(arguments, "inspect", file.string());
  if (kind == FileKind::kArtifact)
    inspect_artifact(file, arguments, page);
  else
    inspect_model(file, kind, arguments, page);
  return kDone;
}

int run_inspect(const Arguments& arguments) { return run_parts(arguments, inspect_one); }

}  // namespace

const Verb& inspect_verb() {
  static const Verb verb = {"inspect",
                            "List the tensors of a file, or the g-nets that they would get.",
                            "FILE [--plan [--world N] [options]]",
                            "  gbcompress inspect model.gbz\n"
                            "  gbcompress inspect model.gbz --against model.safetensors\n"
                            "  gbcompress inspect model.safetensors --json\n"
                            "  gbcompress inspect model.torchscript.pt\n"
                            "  gbcompress inspect model.safetensors --plan --world 8\n",
                            1,
                            1,
                            add_inspect_options,
                            run_inspect,
                            false,
                            {},
                            {"info"}};
  return verb;
}

}  // namespace gbcompress::cli
