/// Writes the files that the tests of this folder read.
///   write_golden golden DIR     DIR/v2 and DIR/errors, as they are committed
///   write_golden samples DIR    random artifacts and what they expand to, for gbz_reader.py
///   write_golden accepted DIR   beside every file of DIR that is accepted, FILE.safetensors
/// Released golden files are never written anew: a reader that no longer decodes them is wrong.

#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/file.h"
#include "format/safetensors/safetensors.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/weights.h"
#include "golden/craft.h"
#include "golden/delta_sample.h"
#include "golden/samples.h"

namespace gbcompress {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path, true);
  file.write(bytes);
  file.commit();
}

void put_json(const fs::path& path, const nlohmann::json& content) {
  put(path, craft::to_bytes(content.dump(2) + "\n"));
}

/// The tensors of a delta, behind a draft of that error.
void write_layers(const fs::path& file, double max_error) {
  compress_layers(samples::delta().now.bundle, file, {.max_error = max_error, .overwrite = true});
}

void write_golden(const fs::path& folder) {
  fs::create_directories(folder / "v2");
  fs::create_directories(folder / "errors");
  nlohmann::json digests, codes;
  for (const auto& [name, writer] : samples::golden()) {
    const auto bytes = writer.encode();
    const auto reader = ArtifactReader::from_bytes(bytes, name);
    put(folder / "v2" / (name + ".gbz"), bytes);
    for (std::size_t i = 0; i < reader.tensors().size(); ++i)
      digests[name][reader.tensors()[i].name] =
          to_hex(sha256(decode_tensor(reader, i, samples::place_all())));
  }
  for (const auto& bad : craft::bad_files()) {
    put(folder / "errors" / (bad.name + ".gbz"), bad.bytes);
    codes[bad.name] = errc_name(bad.code);
  }
  const samples::DeltaSample delta = samples::delta();
  fs::create_directories(folder / "deltas");
  put(folder / "deltas" / "delta.gbz", delta.writer.encode());
  write_safetensors(folder / "deltas" / "base.safetensors", delta.base.bundle.tensors, {}, true);
  write_safetensors(folder / "deltas" / "now.safetensors", delta.now.bundle.tensors, {}, true);
  write_layers(folder / "deltas" / "layers.gbz", 0.05);
  const samples::DeltaSample pieces = samples::pieces();
  put(folder / "deltas" / "pieces.gbz", pieces.writer.encode());
  for (const auto& [name, made] :
       {std::pair("pieces-first", &pieces.base), std::pair("pieces-second", &pieces.second),
        std::pair("pieces-now", &pieces.now)})
    write_safetensors(folder / "deltas" / (std::string(name) + ".safetensors"),
                      made->bundle.tensors, {}, true);
  put_json(folder / "v2" / "digests.json", digests);
  put_json(folder / "errors" / "codes.json", codes);
}

void write_sample(const fs::path& folder, const std::string& name, const ArtifactWriter& writer) {
  const auto bytes = writer.encode();
  put(folder / (name + ".gbz"), bytes);
  put(folder / (name + ".safetensors"), samples::expanded(ArtifactReader::from_bytes(bytes, name)));
}

void write_samples(const fs::path& folder) {
  for (std::uint64_t seed = 0; seed < 25; ++seed)
    write_sample(folder, "sample-" + std::to_string(seed), samples::random_artifact(1000 + seed));
  for (const double error : {0.3, 0.01, 1e-6}) {
    const std::string name = "layers-" + std::to_string(error);
    write_layers(folder / (name + ".gbz"), error);
    put(folder / (name + ".safetensors"),
        samples::expanded(ArtifactReader::open(folder / (name + ".gbz"))));
  }
  write_sample(folder, "wide-small", samples::wide_artifact(CodecProfile::kSmall));
  write_sample(folder, "wide-lanes", samples::wide_artifact(CodecProfile::kLanes));
}

void write_accepted(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  for (const fs::path& file : files) try {
      const auto reader = ArtifactReader::open(file);
      reader.verify();
      if (!reader.is_delta()) put(file.string() + ".safetensors", samples::expanded(reader));
    } catch (const Error&) {
    }
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) {
  using namespace gbcompress;
  const std::string what = argc == 3 ? argv[1] : "";
  const std::map<std::string, void (*)(const fs::path&)> modes = {
      {"golden", write_golden}, {"samples", write_samples}, {"accepted", write_accepted}};
  const auto mode = modes.find(what);
  if (mode == modes.end()) {
    std::fprintf(stderr, "usage: write_golden golden|samples|accepted DIR\n");
    return 2;
  }
  try {
    mode->second(argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
