#include <boost/program_options/options_description.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "base/checked.h"
#include "base/text.h"
#include "command.h"
#include "exit_status.h"
#include "format/file_kind.h"
#include "format/tensor_bundle.h"
#include "gbcompress/artifact.h"
#include "gbcompress/error.h"
#include "listing.h"
#include "model_options.h"
#include "plan_options.h"
#include "table.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

std::string tiles_text(const GNetPlan& plan) {
  return with_commas(plan.grid().tiles()) + " of " + std::to_string(plan.tile_rows) + "x" +
         std::to_string(plan.tile_cols);
}

ordered_json plan_json(const ArtifactTensor& tensor) {
  const GNetPlan& plan = tensor.plan;
  ordered_json kernel_codes = ordered_json::array(), entry;
  for (const AxisCode& code : plan.kernel_codes) kernel_codes.push_back(code_text(code));
  entry["type"] = plan.type_id;
  entry["revision"] = plan.type_revision;
  entry["tiles"] = plan.grid().tiles();
  entry["tile_shape"] = {plan.tile_rows, plan.tile_cols};
  entry["generator"] = generator_name(plan.generator);
  if (is_product(plan.generator)) {
    entry["rank"] = plan.rank;
  } else {
    entry["inputs"] = gnet_inputs(plan);
    entry["hidden"] = plan.hidden;
    entry["row_code"] = code_text(plan.row_code);
    entry["col_code"] = code_text(plan.col_code);
    entry["kernel_codes"] = kernel_codes;
  }
  entry["parameters"] = plan_parameters(plan);
  entry["coding"] = coding_name(tensor.coding);
  return entry;
}

bool has_step(const ArtifactTensor& tensor) {
  return tensor.kind == TensorKind::kCoded || tensor.kind == TensorKind::kResidual;
}

double bits_a_weight(const ArtifactTensor& tensor, double bits) {
  return bits /
         static_cast<double>(std::max<std::int64_t>(1, checked_elements(tensor.shape, "a tensor")));
}

/// @param bits  of the file
ordered_json tensor_json(const ArtifactTensor& tensor, double bits) {
  ordered_json entry = {{"name", tensor.name},
                        {"shape", tensor.shape},
                        {"dtype", dtype_name(tensor.dtype)},
                        {"kind", kind_name(tensor.kind)},
                        {"stored_bytes", std::llround(bits / 8)},
                        {"bits_per_weight", bits_a_weight(tensor, bits)}};
  if (tensor.kind == TensorKind::kTied) entry["tied_to"] = tensor.tied_to;
  if (has_step(tensor)) {
    if (tensor.mantissa_bits > 0) {
      entry["mantissa_bits"] = tensor.mantissa_bits;
    } else if (is_real(tensor.dtype)) {
      entry["step"] = step_size(tensor.step);
      entry["row_steps"] = tensor.row_steps;
    }
  }
  if (has_plan(tensor.kind)) entry.update(plan_json(tensor));
  return entry;
}

/// What a tensor is made of, in a few words.
std::string made_of(const ArtifactTensor& tensor) {
  char text[40];
  if (tensor.mantissa_bits > 0)
    std::snprintf(text, sizeof text, "short floats, %d bits", tensor.mantissa_bits);
  else if (!is_real(tensor.dtype))
    std::snprintf(text, sizeof text, "whole numbers");
  else
    std::snprintf(text, sizeof text, "step %.4g%s", static_cast<double>(step_size(tensor.step)),
                  tensor.row_steps ? " by row" : "");
  switch (tensor.kind) {
    case TensorKind::kGenerated:
      return tiles_text(tensor.plan) + ", " + generator_text(tensor.plan);
    case TensorKind::kResidual:
      return tiles_text(tensor.plan) + ", " + generator_text(tensor.plan) + ", " + text;
    case TensorKind::kCoded:
      return text;
    case TensorKind::kTied:
      return "= " + printable(tensor.tied_to);
    default:
      return "";
  }
}

void inspect_artifact(const fs::path& file, bool json) {
  const ArtifactReader artifact = ArtifactReader::open(file);
  artifact.verify();
  const std::vector<double> bits = artifact.tensor_bits();
  std::int64_t generated = 0, parameters = 0;
  ordered_json list = ordered_json::array();
  Table table(5);
  table.row({"name", "shape", "dtype", "kind", "made of", "parameters", "coding", "bytes",
             "bits a weight"});
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const ArtifactTensor& tensor = artifact.tensors()[i];
    const bool made = has_plan(tensor.kind);
    if (made) {
      ++generated;
      parameters += plan_parameters(tensor.plan);
    }
    list.push_back(tensor_json(tensor, bits[i]));
    const std::string kind(kind_name(tensor.kind));
    table.row({printable(tensor.name), shape_text(tensor.shape),
               std::string(dtype_name(tensor.dtype)),
               !made                                  ? kind
               : tensor.kind == TensorKind::kResidual ? printable(tensor.plan.type_id) + " " + kind
                                                      : printable(tensor.plan.type_id),
               made_of(tensor), made ? with_commas(plan_parameters(tensor.plan)) : "",
               made ? std::string(coding_name(tensor.coding)) : "",
               with_commas(std::llround(bits[i] / 8)), fixed(bits_a_weight(tensor, bits[i]), 2)});
  }
  const double ratio = static_cast<double>(artifact.output_bytes()) /
                       static_cast<double>(std::max<std::int64_t>(1, artifact.file_bytes()));
  if (json) {
    const auto settings = ordered_json::parse(artifact.settings(), nullptr, false);
    print_json({{"file", file.string()},
                {"format", "gbz"},
                {"version", kArtifactVersion},
                {"arch", artifact.arch()},
                {"identity", artifact.identity()},
                {"file_bytes", artifact.file_bytes()},
                {"header_bytes", artifact.header_bytes()},
                {"output_bytes", artifact.output_bytes()},
                {"profile", profile_name(artifact.profile())},
                {"generated_tensors", generated},
                {"gnet_parameters", parameters},
                {"tensors", list},
                {"settings", settings.is_discarded() ? ordered_json() : settings}});
    return;
  }
  std::cout << printable(file.string()) << ": gbz version " << kArtifactVersion << ", "
            << (artifact.arch().empty() ? "no architecture" : printable(artifact.arch()))
            << "\nsha256 " << artifact.identity() << "\n\n"
            << table.text() << "\n"
            << with_commas(static_cast<std::int64_t>(artifact.tensors().size())) << " tensors, "
            << generated << " of them generated by " << with_commas(parameters) << " parameters; "
            << with_commas(artifact.file_bytes()) << " bytes (header "
            << with_commas(artifact.header_bytes()) << "), " << with_commas(artifact.output_bytes())
            << " expanded, ratio " << fixed(ratio, 2) << "\n";
}

std::string format_name(FileKind kind) {
  switch (kind) {
    case FileKind::kSafetensors:
      return "safetensors";
    case FileKind::kFolder:
      return "folder";
    case FileKind::kExported:
      return "exported";
    default:
      return "state_dict";
  }
}

void inspect_model(const fs::path& file, FileKind kind, const OpenOptions& options, bool json) {
  const TensorBundle bundle = open_tensors(file, options);
  Listing listing{.format = format_name(kind),
                  .metadata = bundle.metadata,
                  .notes = bundle.notes,
                  .file_bytes = bundle.file_bytes};
  for (const TensorEntry& entry : bundle.tensors)
    listing.tensors.push_back(
        {entry.name, "", entry.dtype, entry.shape, static_cast<std::int64_t>(entry.bytes.size())});
  print_listing(file, listing, json);
}

void options(boost::program_options::options_description& into) {
  into.add_options()("plan", "say which g-nets each parameter would get, from names and shapes");
  add_plan_options(into);
}

int run(const Arguments& arguments) {
  const fs::path file = arguments.words()[0];
  const FileKind kind = sniff(file);
  if (arguments.has("plan")) {
    if (kind == FileKind::kArtifact)
      throw Error(Errc::kUsage, "a .gbz holds its plan; leave out --plan to see it");
    return run_with_torch("inspect", arguments);
  }
  for (const char* option : {"world", "arch", "config", "set"})
    if (arguments.has(option))
      throw Error(Errc::kUsage, std::string("--") + option + " needs --plan");
  if (kind == FileKind::kTorchScript) return run_with_torch("inspect", arguments);
  if (kind == FileKind::kArtifact)
    inspect_artifact(file, arguments.json());
  else
    inspect_model(file, kind, model_options(arguments), arguments.json());
  return kDone;
}

}  // namespace

const Verb& inspect_verb() {
  static const Verb verb = {"inspect",
                            "List what a file holds, or would be planned as.",
                            "FILE [--plan [--world N] [options]]",
                            "  gbcompress inspect model.gbz\n"
                            "  gbcompress inspect model.safetensors --json\n"
                            "  gbcompress inspect model.torchscript.pt\n"
                            "  gbcompress inspect model.safetensors --plan --world 8\n",
                            1,
                            1,
                            options,
                            run};
  return verb;
}

}  // namespace gbcompress::cli
