#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <algorithm>
#include <sstream>

#include "gbcompress/plugin.h"
#include "gbcompress/registry.h"

namespace gbcompress {
namespace {

const std::string* value_of(const PluginFingerprint& fingerprint, const std::string& key) {
  for (const auto& [name, value] : fingerprint.fields)
    if (name == key) return &value;
  return nullptr;
}

std::string language(const std::string& value) {
  if (value == "201703L") return "C++17";
  if (value == "202002L") return "C++20";
  if (value == "202302L") return "C++23";
  return "__cplusplus " + value;
}

std::string string_layout(const std::string& value) {
  return value == "1" ? "the new std::string (_GLIBCXX_USE_CXX11_ABI=1)"
                      : "the old std::string (_GLIBCXX_USE_CXX11_ABI=" + value + ")";
}

std::string explain(const std::string& key, const std::string& plugin, const std::string& host) {
  if (key == "abi")
    return "it was built for plugin interface " + plugin + ", this program has " + host;
  if (key == "torch")
    return "it was built for LibTorch " + plugin + ", this program has " + host +
           ", and C++ classes of LibTorch differ between versions";
  if (key == "gcc")
    return "it was compiled by a compiler that counts as GCC " + plugin +
           ", this program was compiled by GCC " + host;
  if (key == "std")
    return "it was compiled as " + language(plugin) + ", this program as " + language(host);
  if (key == "cxx11abi")
    return "it was compiled with " + string_layout(plugin) + ", this program with " +
           string_layout(host);
  return "its " + key + " is " + plugin + ", this program's is " + host;
}

std::string version_text(std::uint64_t abi_version) {
  return std::to_string(abi_version >> 56) + "." + std::to_string((abi_version >> 48) & 255) + "." +
         std::to_string((abi_version >> 40) & 255);
}

}  // namespace

PluginFingerprint host_fingerprint() {
  PluginFingerprint result{.name = "gbcompress", .version = GBC_VERSION_STRING, .fields = {}};
  std::istringstream words(GBC_FINGERPRINT);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    result.fields.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return result;
}

std::vector<std::string> explain_mismatch(const PluginFingerprint& plugin,
                                          const PluginFingerprint& host) {
  std::vector<std::string> result;
  for (const auto& [key, wanted] : host.fields) {
    const std::string* value = value_of(plugin, key);
    if (!value)
      result.emplace_back("field " + key + " is missing, this program has " + wanted);
    else if (*value != wanted)
      result.emplace_back("field " + key + " differs, " + explain(key, *value, wanted));
  }
  for (const auto& [key, value] : plugin.fields)
    if (!value_of(host, key))
      result.emplace_back("field " + key + " has the value " + value +
                          ", and this program has no such field");
  if (result.empty() && plugin.fields != host.fields)
    result.emplace_back("its marker names the same things twice or in another order");
  return result;
}

std::optional<std::string> torch_runtime_mismatch() {
  const std::uint64_t running = aoti_torch_abi_version();
  if (running == TORCH_ABI_VERSION) return std::nullopt;
  return "compiled for LibTorch " + version_text(TORCH_ABI_VERSION) + " but running with " +
         version_text(running) + "; build gbcompress again against the LibTorch that it runs with";
}

}  // namespace gbcompress
