#pragma once
/// What the tests of models and data share.

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "format/safetensors/safetensors.h"
#include "gbcompress/error.h"
#include "gbcompress/model.h"
#include "support/files.h"

namespace gbcompress::testing_support {

using TemporaryFolder = testing::TempDir;

inline void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

inline void write_tensors(const std::filesystem::path& file, const Tensors& tensors) {
  std::vector<at::Tensor> alive;
  std::vector<TensorEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    alive.push_back(tensor.detach().contiguous());
    const auto* data = static_cast<const std::byte*>(alive.back().const_data_ptr());
    entries.push_back({name,
                       to_dtype(tensor.scalar_type()),
                       tensor.sizes().vec(),
                       {data, alive.back().nbytes()}});
  }
  write_safetensors(file, entries, {}, /*overwrite=*/true);
}

inline Tensors tensors_of(const Model& model) {
  Tensors result;
  for (const NamedParameter& entry : model.tensors())
    result.emplace_back(entry.info.name, entry.tensor.detach().clone());
  return result;
}

inline Registry builtin_registry() {
  Registry registry;
  registry.stage("program", register_builtin_models);
  return registry;
}

inline const NamedParameter& find(const Model& model, const std::string& name) {
  for (const NamedParameter& entry : model.tensors())
    if (entry.info.name == name) return entry;
  throw std::runtime_error("no tensor " + name);
}

/// Runs `action` and checks code and words of the Error it must throw.
inline void expect_error(const std::function<void()>& action, Errc code,
                         const std::vector<std::string>& words = {}) {
  try {
    action();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << "no \"" << word << "\" in: " << error.what();
    EXPECT_EQ(std::string(error.what()).find("Exception raised from"), std::string::npos);
  }
}

inline std::filesystem::path shared_data() {
  return std::filesystem::path(GBC_SOURCE_DIR) / ".." / "shared" / "data";
}
#define GBC_NEEDS_SHARED_DATA()                                 \
  if (!std::filesystem::exists(testing_support::shared_data())) \
  GTEST_SKIP() << "the folder ../shared/data with models and data is not here"

}  // namespace gbcompress::testing_support
