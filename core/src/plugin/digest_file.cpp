#include "plugin/digest_file.h"

#include <algorithm>

#include "base/file.h"
#include "gbcompress/error.h"
#include "plugin/refuse.h"

namespace gbcompress {
namespace {
namespace fs = std::filesystem;

constexpr std::size_t kMaxManifest = 4096;
constexpr std::size_t kDigits = 64;

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

}  // namespace

fs::path digest_path(const fs::path& plugin) { return plugin.string() + ".sha256"; }

bool digest_is_known(const fs::path& plugin, const std::string& digest) {
  const fs::path manifest = digest_path(plugin);
  std::error_code failed;
  if (fs::symlink_status(manifest, failed).type() == fs::file_type::not_found) return false;
  std::string line;
  try {
    line = read_text(manifest, kMaxManifest);
  } catch (const Error& error) {
    refuse_plugin(plugin,
                  "is not loaded, because its manifest is of no use: " + std::string(error.what()));
  }
  const std::string stored = line.substr(0, kDigits);
  const std::string name = "  " + plugin.filename().string() + "\n";
  if (stored.size() != kDigits || !std::all_of(stored.begin(), stored.end(), is_hex) ||
      line.substr(kDigits) != name)
    refuse_plugin(plugin, "is not loaded, because its manifest " + printable(manifest.string()) +
                              " is damaged; install the plugin again");
  if (stored != digest)
    refuse_plugin(plugin,
                  "has other bytes than its manifest " + printable(manifest.string()) +
                      " says: one of the two was damaged or changed; install the plugin again");
  return true;
}

}  // namespace gbcompress
