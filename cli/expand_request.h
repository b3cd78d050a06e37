#pragma once

#include <cstdint>
#include <string>

#include "command.h"
#include "gbcompress/artifact.h"

namespace gbcompress::cli {

/// What `expand` was asked, whoever decodes.
struct ExpandRequest {
  std::string input, output;
  ArtifactLimits limits;
  bool overwrite = false, json = false;

  /// @throws Error(kUsage); as check_writable()
  explicit ExpandRequest(const Arguments& arguments);
  /// Checked as a whole. @throws as ArtifactReader::open() and verify()
  ArtifactReader open() const;
  /// Prints what was written. @return the exit status
  int report(const ArtifactReader& artifact, std::int64_t bytes) const;
};

}  // namespace gbcompress::cli
