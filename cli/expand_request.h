#pragma once

#include <cstdint>
#include <string>

#include <filesystem>
#include <functional>
#include <optional>

#include "command.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "model_folders.h"

namespace gbcompress::cli {

/// ".onnx" or ".gguf" of a `.gbz` that was made of such a model; of one that keeps its original
/// file, the suffix of that; else ".safetensors".
std::string expanded_suffix(const Arguments& arguments, const std::string& input);

/// The request of `expand`, with either decoder.
struct ExpandRequest {
  std::filesystem::path input;
  ModelOutput output;
  Layer layer;  ///< `--draft` selects the draft
  ArtifactLimits limits;
  bool overwrite = false, json = false;
  /// The original files that go to a folder, if they are kept and -o is one.
  std::optional<OriginalsInfo> originals;

  /// @throws Error(kUsage); as check_writable()
  explicit ExpandRequest(const Arguments& arguments);
  /// Its digest is checked while it is decoded. @throws Error(kUsage) for a draft that is not
  /// there, Error(kTruncated) for a file that ends behind it; as ArtifactReader::open()
  ArtifactReader open_for_decoding() const;
  /// Checked as a whole. @throws as open_for_decoding() and verify()
  ArtifactReader open() const;
  /// With the base that `--base` names. @throws Error(kUsage) for a file that was made with another
  /// one, or with none
  DecodeOptions decoding(const ArtifactReader& artifact, const Arguments& arguments) const;
  /// Calls act(). What a damaged header says may be refused under any status; damage is then the
  /// reason. @throws as act(), and Error(kCorrupt)
  int undamaged(const ArtifactReader& artifact, const std::function<int()>& act) const;
  /// Writes, copies what goes along with a folder, and says so.
  /// @param decode  writes output.file(), unless the original files are written; @return its bytes
  /// @return the exit status
  int write(const ArtifactReader& artifact, const DecodeOptions& options,
            const std::function<std::int64_t()>& decode);

 private:
  ArtifactReader opened(DigestCheck check) const;
  void report(const ArtifactReader& artifact, std::int64_t bytes, std::size_t carried,
              bool same) const;
};

}  // namespace gbcompress::cli
