/// Writes the files that the tests of this folder read.
///   write_golden golden DIR     DIR/v2 and DIR/errors, as they are committed
///   write_golden samples DIR    random artifacts and what they expand to, for gbz_reader.py
/// Released golden files are never written anew: a reader that no longer decodes them is wrong.

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "artifact/decode.h"
#include "base/digest.h"
#include "base/file.h"
#include "golden/craft.h"
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

void write_golden(const fs::path& folder) {
  fs::create_directories(folder / "v2");
  fs::create_directories(folder / "errors");
  nlohmann::json digests, codes;
  for (const auto& [name, writer] : samples::golden()) {
    const auto bytes = writer.encode();
    const auto reader = ArtifactReader::from_bytes(bytes, name);
    put(folder / "v2" / (name + ".gbz"), bytes);
    for (std::size_t i = 0; i < reader.tensors().size(); ++i)
      digests[name][reader.tensors()[i].name] = to_hex(sha256(decode_tensor(reader, i, samples::place_all())));
  }
  for (const auto& bad : craft::bad_files()) {
    put(folder / "errors" / (bad.name + ".gbz"), bad.bytes);
    codes[bad.name] = errc_name(bad.code);
  }
  put_json(folder / "v2" / "digests.json", digests);
  put_json(folder / "errors" / "codes.json", codes);
}

void write_samples(const fs::path& folder) {
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    const auto bytes = samples::random_artifact(1000 + seed).encode();
    const std::string name = "sample-" + std::to_string(seed);
    put(folder / (name + ".gbz"), bytes);
    put(folder / (name + ".safetensors"),
        samples::expanded(ArtifactReader::from_bytes(bytes, name)));
  }
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  if (what != "golden" && what != "samples") {
    std::fprintf(stderr, "usage: write_golden golden|samples DIR\n");
    return 2;
  }
  try {
    what == "golden" ? gbcompress::write_golden(argv[2]) : gbcompress::write_samples(argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
