#include "comparison.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "exit_status.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/tensors.h"
#include "listing.h"
#include "model_options.h"
#include "source_of.h"
#include "table.h"

namespace gbcompress::cli {
namespace {

using nlohmann::ordered_json;

std::string error_text(const ComparedTensor& tensor) {
  if (!tensor.b) return "only in A";
  if (!tensor.a) return "only in B";
  if (!tensor.same_shape()) return "another shape";
  if (tensor.same) return "0";
  if (!tensor.error) return "differs";
  return std::isfinite(*tensor.error) ? short_number(*tensor.error) : "not a number";
}

/// "300x784", or "300x784 | 300x780" where they differ.
template <typename Text>
std::string either(const ComparedTensor& tensor, Text text) {
  if (!tensor.a || !tensor.b) return text(tensor.a ? *tensor.a : *tensor.b);
  const std::string a = text(*tensor.a), b = text(*tensor.b);
  return a == b ? a : a + " | " + b;
}

std::string bits_text(const std::optional<StoredTensor>& tensor) {
  return tensor ? fixed(tensor->bits(), 2) : "-";
}

std::string table_text(const Comparison& comparison) {
  Table table(3);
  table.row({"name", "shape", "dtype", "bits A", "bits B", "error"});
  for (const ComparedTensor& tensor : comparison.tensors)
    table.row(
        {printable(tensor.name),
         either(tensor, [](const StoredTensor& t) { return shape_text(t.shape); }),
         either(tensor, [](const StoredTensor& t) { return std::string(dtype_name(t.dtype)); }),
         bits_text(tensor.a), bits_text(tensor.b), error_text(tensor)});
  return table.text();
}

ordered_json side_json(const std::optional<StoredTensor>& tensor) {
  if (!tensor) return nullptr;
  return {{"dtype", dtype_name(tensor->dtype)},
          {"shape", tensor->shape},
          {"stored", tensor->stored},
          {"bits", tensor->bits()},
          {"bytes", tensor->bytes}};
}

ordered_json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? ordered_json(*value) : ordered_json();
}

ordered_json file_json(const Compared& side) {
  return {{"file", side.file.string()},
          {"format", side.format},
          {"file_bytes", side.tensors.file_bytes()},
          {"tensors", side.tensors.tensors().size()}};
}

ordered_json outputs_json(const ComparedOutputs& outputs) {
  return {{"data", outputs.data},
          {"samples", outputs.samples},
          {"metric", {{"name", outputs.metric}, {"a", outputs.a}, {"b", outputs.b}}},
          {"agreement_percent", outputs.agreement},
          {"divergence_nats", number(outputs.divergence)},
          {"largest_difference", number(outputs.largest_difference)}};
}

ordered_json to_json(const ComparedPair& pair, const Comparison& comparison,
                     const std::optional<ComparedOutputs>& outputs) {
  ordered_json list = ordered_json::array();
  for (const ComparedTensor& tensor : comparison.tensors)
    list.push_back({{"name", tensor.name},
                    {"a", side_json(tensor.a)},
                    {"b", side_json(tensor.b)},
                    {"same", tensor.same},
                    {"error", number(tensor.error)},
                    {"energy", number(tensor.energy)}});
  return {{"a", file_json(pair.a)},
          {"b", file_json(pair.b)},
          {"same", comparison.same},
          {"differ", comparison.differ},
          {"only_a", comparison.only_a},
          {"only_b", comparison.only_b},
          {"other_shape", comparison.other_shape},
          {"other_dtype", comparison.other_dtype},
          {"error", number(comparison.total_error)},
          {"outputs", outputs ? outputs_json(*outputs) : ordered_json()},
          {"tensors", list}};
}

void print_file(const char* name, const Compared& side) {
  std::cout << name << ": " << printable(side.file.string()) << ", " << side.format << ", "
            << with_commas(static_cast<std::int64_t>(side.tensors.tensors().size())) << " tensors, "
            << with_commas(side.tensors.file_bytes()) << " bytes\n";
}

void print_outputs(const ComparedOutputs& outputs) {
  const auto text = [&](double value) {
    if (outputs.unit.empty()) return short_number(value);
    return fixed(value, outputs.unit == "%" ? 2 : 4) + " " + outputs.unit;
  };
  Table table;
  table.row({"", "A", "B"});
  table.row({outputs.heading, text(outputs.a), text(outputs.b)});
  table.row({"same prediction", "", fixed(outputs.agreement, 2) + " %"});
  table.row({"KL divergence of B from A", "", short_number(outputs.divergence) + " nats"});
  table.row({"largest output difference", "", short_number(outputs.largest_difference)});
  table.row({"samples", "", with_commas(outputs.samples)});
  std::cout << "\n" << table.text();
}

/// A `.gbz`, or nothing; one whose layer types need plugins counts as unreadable here.
std::optional<ArtifactReader> artifact_of(const std::filesystem::path& file, FileKind kind,
                                          bool& readable) {
  if (kind != FileKind::kArtifact) return {};
  ArtifactReader artifact = ArtifactReader::open(file);
  artifact.verify();
  const auto& tensors = artifact.tensors();
  readable = readable && std::all_of(tensors.begin(), tensors.end(), is_placed);
  return artifact;
}

}  // namespace

std::optional<ComparedPair> open_pair(const Arguments& arguments) {
  const std::filesystem::path a = arguments.words()[0], b = arguments.words()[1];
  const FileKind kind_a = sniff(a), kind_b = sniff(b);
  if (kind_a == FileKind::kTorchScript || kind_b == FileKind::kTorchScript) return {};
  bool readable = true;
  const auto of_a = artifact_of(a, kind_a, readable), of_b = artifact_of(b, kind_b, readable);
  if (!readable) return {};
  const OpenOptions options = model_options(arguments);
  const auto source = [&](const std::filesystem::path& file, const auto& own, const auto& other) {
    if (own) return TensorSource::of(*own);
    TensorBundle tensors = other ? source_of(*other, file, options) : open_tensors(file, options);
    say_notes(arguments, tensors.notes);
    return TensorSource::of(std::move(tensors));
  };
  return ComparedPair{{a, format_name(kind_a, a), source(a, of_a, of_b)},
                      {b, format_name(kind_b, b), source(b, of_b, of_a)}};
}

int print_comparison(const Arguments& arguments, const ComparedPair& pair,
                     const std::optional<ComparedOutputs>& outputs) {
  const Comparison comparison = compare_tensors(pair.a.tensors, pair.b.tensors);
  if (arguments.json()) {
    print_json(to_json(pair, comparison, outputs));
    return kDone;
  }
  print_file("A", pair.a);
  print_file("B", pair.b);
  std::cout << "\n"
            << table_text(comparison) << "\n"
            << with_commas(comparison.same) << " tensors are equal, "
            << with_commas(comparison.differ) << " differ (" << with_commas(comparison.other_shape)
            << " in shape, " << with_commas(comparison.other_dtype) << " in type), "
            << with_commas(comparison.only_a) << " only in A, " << with_commas(comparison.only_b)
            << " only in B\nrelative squared error of all " << short_number(comparison.total_error)
            << "\n";
  if (outputs) print_outputs(*outputs);
  return kDone;
}

}  // namespace gbcompress::cli
