#include "gbcompress/registry.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/digest.h"
#include "gbcompress/error.h"
#include "gbcompress/plugin.h"
#include "plugin/digest_file.h"
#include "plugin/library.h"
#include "plugin/plugin_call.h"
#include "plugin/probe.h"
#include "plugin/read_plugin.h"
#include "plugin/refuse.h"

namespace gbcompress {
namespace {
namespace fs = std::filesystem;

bool everybody_may_write(const fs::path& path) {
  std::error_code failed;
  return (fs::status(path, failed).permissions() & fs::perms::others_write) != fs::perms::none;
}

/// A plugin is code that runs with all rights of the user: no other user may have been able to put
/// it there. In a folder like /tmp (sticky) others cannot replace a file of ours.
void check_permissions(const fs::path& file) {
  if (everybody_may_write(file))
    refuse_plugin(file,
                  "may be written by everybody, so that its code may be anybody's; check where it "
                  "comes from, then `chmod o-w` it");
  const fs::path folder = file.parent_path();
  std::error_code failed;
  const auto sticky = fs::status(folder, failed).permissions() & fs::perms::sticky_bit;
  if (everybody_may_write(folder) && sticky == fs::perms::none)
    refuse_plugin(
        file,
        "lies in a folder that everybody may write to, so that its code may be anybody's; "
        "move it, or `chmod o-w` the folder");
}

std::string joined(const std::vector<std::string>& sentences) {
  std::string result;
  for (const std::string& sentence : sentences) result += (result.empty() ? "" : "; ") + sentence;
  return result;
}

/// The description must be of this interface and say what the marker says.
void check_description(const fs::path& file, const Plugin& plugin,
                       const PluginFingerprint& marker) {
  if (plugin.struct_size < sizeof(Plugin) || plugin.abi_version != GBC_PLUGIN_ABI)
    refuse_plugin(file,
                  "describes itself with plugin interface " + std::to_string(plugin.abi_version) +
                      " and " + std::to_string(plugin.struct_size) + " bytes, this program has " +
                      std::to_string(GBC_PLUGIN_ABI) + " and " + std::to_string(sizeof(Plugin)) +
                      "; build it again with this program's SDK");
  if (!plugin.name || !plugin.version || !plugin.fingerprint || !plugin.register_types)
    refuse_plugin(file, "describes itself incompletely; use GBC_PLUGIN");
  if (plugin.name != marker.name || plugin.version != marker.version ||
      plugin.fingerprint != marker.text())
    refuse_plugin(file, "calls itself " + printable(plugin.name) + " " + printable(plugin.version) +
                            ", its marker says " + marker.name + " " + marker.version +
                            "; use GBC_PLUGIN once in a library");
}

void run_registration(const fs::path& file, const Plugin& plugin, Registrar& registrar) {
  // The type without noexcept: a function written by hand may lack it.
  bool (*const register_types)(Registrar&, char*, std::size_t) = plugin.register_types;
  std::array<char, 1024> reason{};
  bool done = false;
  try {
    done = register_types(registrar, reason.data(), reason.size());
  } catch (const std::exception& error) {
    refuse_plugin(file, "threw while registering: " + printable(error.what()));
  } catch (...) {
    refuse_plugin(file, "threw something that is not a std::exception while registering");
  }
  if (done) return;
  reason.back() = '\0';
  const std::string text(reason.data());
  // LibTorch's messages go on with a stack trace; the first line says what is wrong.
  refuse_plugin(
      file, "failed to register: " + (text.empty() ? std::string("it gave no reason")
                                                   : printable(text.substr(0, text.find('\n')))));
}

/// Loads the library into this process and lets it register.
Registry::Added register_library(const fs::path& file, const PluginFingerprint& marker,
                                 Registry& registry) {
  const Plugin& plugin = open_plugin_library(file);
  check_description(file, plugin, marker);
  return registry.stage("plugin " + printable(file.string()),
                        [&](Registrar& registrar) { run_registration(file, plugin, registrar); });
}

}  // namespace

const LoadedPlugin& PluginHost::load(const fs::path& file) { return *load_file(file, false); }

const LoadedPlugin* PluginHost::load_file(const fs::path& given, bool skip_copies) {
  std::error_code failed;
  fs::path file = fs::canonical(given, failed);
  if (failed) file = given;  // reading it says why
  const std::vector<std::byte> bytes = read_plugin(file);
  const std::string digest = to_hex(sha256(bytes));
  const PluginFingerprint marker = scan_plugin(bytes, printable(file.string()));
  const auto same = std::find_if(loaded_.begin(), loaded_.end(), [&](const LoadedPlugin& other) {
    return other.fingerprint.name == marker.name;
  });
  if (same != loaded_.end()) {
    if (same->sha256 != digest)
      refuse_plugin(file, "is called " + marker.name + ", as is the other plugin " +
                              printable(same->file.string()) +
                              " that is loaded; load only one of the two");
    if (skip_copies) return nullptr;
    refuse_plugin(file,
                  "is loaded already, from " + printable(same->file.string()) + "; give it once");
  }
  check_permissions(file);
  const auto differences = explain_mismatch(marker, host_fingerprint());
  if (!differences.empty())
    refuse_plugin(file, "does not fit this program: " + joined(differences) +
                            "; build it again with this program's SDK");

  // Damage inside code looks like code: only a digest kept elsewhere tells, or trying it elsewhere.
  if (!digest_is_known(file, digest))
    probe_in_child(file, [&] {
      Registry scratch;  // so that what is registered ends there as well
      register_library(file, marker, scratch);
    });
  const std::string origin = "plugin " + printable(file.string());
  const PluginCall call{
      .origin = origin, .kind = {}, .id = {}, .function = "loading it", .tensor = {}};
  const CrashNote note(call);
  Registry::Added added = register_library(file, marker, registry_);
  loaded_.push_back({file, marker, digest, std::move(added.gnet_types), std::move(added.models),
                     std::move(added.strategies)});
  return &loaded_.back();
}

void PluginHost::load_folder(const fs::path& folder) {
  std::error_code failed;
  if (!fs::is_directory(folder, failed)) return;
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed))
    if (entry->path().extension() == ".so") files.push_back(entry->path());
  if (failed) refused_.emplace_back(folder, "the folder cannot be read: " + failed.message());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    try {
      if (everybody_may_write(folder))
        refuse_plugin(
            file,
            "lies in a folder of the search path that everybody may write to; `chmod o-w` "
            "the folder, or give the file to `PluginHost::load()`");
      load_file(file, true);
    } catch (const std::exception& error) {
      refused_.emplace_back(file, error.what());
    }
  }
}

void PluginHost::load_installed() {
  for (const fs::path& folder : search_path()) load_folder(folder);
}

}  // namespace gbcompress
