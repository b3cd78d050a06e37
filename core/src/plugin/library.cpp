#define BOOST_DLL_USE_STD_FS
#include "plugin/library.h"

#include <dlfcn.h>

#include <boost/dll/shared_library.hpp>
#include <mutex>
#include <vector>

#include "gbcompress/error.h"
#include "gbcompress/plugin.h"
#include "plugin/refuse.h"

namespace gbcompress {
namespace {

/// Keeps a handle for ever: autograd graphs, vtables and thread-local destructors may point into
/// the library until the very end of the process.
boost::dll::shared_library& keep(boost::dll::shared_library library) {
  static std::mutex mutex;
  static auto* libraries = new std::vector<std::unique_ptr<boost::dll::shared_library>>;
  const std::scoped_lock lock(mutex);
  libraries->push_back(std::make_unique<boost::dll::shared_library>(std::move(library)));
  return *libraries->back();
}

boost::dll::shared_library open_now(const std::filesystem::path& file) {
  std::error_code failed;
  boost::dll::shared_library library(file, boost::dll::load_mode::rtld_now, failed);
  if (library.is_loaded()) return library;
  const char* reason = ::dlerror();
  refuse_plugin(
      file, "cannot be linked into this program: " + printable(reason ? reason : failed.message()) +
                "; build it again with gbcompress_add_plugin()");
}

}  // namespace

const Plugin& open_plugin_library(const std::filesystem::path& file) {
  boost::dll::shared_library& library = keep(open_now(file));
  if (!library.has(kPluginEntryName))
    refuse_plugin(file, std::string("has no entry function ") + kPluginEntryName +
                            "; use GBC_PLUGIN once, and export that name");
  // Called through a type that may throw: an entry written by hand may lack noexcept.
  const auto entry = &library.get<const Plugin*()>(kPluginEntryName);
  const Plugin* plugin = nullptr;
  try {
    plugin = entry();
  } catch (const std::exception& error) {
    refuse_plugin(file, "threw in its entry function: " + printable(error.what()));
  } catch (...) {
    refuse_plugin(file, "threw something that is not a std::exception in its entry function");
  }
  if (!plugin)
    refuse_plugin(file, "returned nothing from its entry function; report it to its author");
  return *plugin;
}

}  // namespace gbcompress
