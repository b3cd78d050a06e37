#pragma once
/// The only header a plugin includes. One exported C function, C++ inside, exact match required.
///
///   #include <gbcompress/plugin.h>
///   GBC_PLUGIN("row", "0.1.0", [](gbcompress::Registrar& r) {
///     r.register_gnet_type("Row", &spec_row, &build_row);
///   })
///
/// No exception leaves the function, and nothing is registered by static constructors. The host
/// reads the marker string from the file's bytes before loading it, and never unloads it.

#include <c10/util/Exception.h>
#include <torch/headeronly/version.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>

#include "gbcompress/error.h"
#include "gbcompress/gnet.h"
#include "gbcompress/registry.h"
#include "gbcompress/strategy.h"
#include "gbcompress/version.h"

/// History of the plugin interface. A plugin is loaded only by a host of the same number.
///   1  first release
///   2  strategies: Registrar::register_strategy(), BuiltModel::stages
#define GBC_PLUGIN_ABI 2

#define GBC_FINGERPRINT                                                      \
  "abi=" GBC_STRINGIFY(                                                      \
      GBC_PLUGIN_ABI) " torch=" TORCH_VERSION                                \
                      " gcc=" GBC_STRINGIFY(__GNUC__) " std=" GBC_STRINGIFY( \
                          __cplusplus) " cxx11abi=" GBC_STRINGIFY(_GLIBCXX_USE_CXX11_ABI)

namespace gbcompress {

/// What the entry function returns. Fields are only ever appended; strings are static UTF-8.
struct Plugin {
  std::uint32_t struct_size;
  std::uint32_t abi_version;
  const char* fingerprint;
  const char* name;
  const char* version;
  /// False: nothing may be used, and `error` holds a zero-terminated reason.
  bool (*register_types)(Registrar& registrar, char* error, std::size_t error_bytes) noexcept;
};

using PluginEntry = const Plugin* (*)() noexcept;
inline constexpr const char* kPluginEntryName = "gbcompress_plugin_v1";

}  // namespace gbcompress

/// GBC_PLUGIN(NAME, VERSION, callable(Registrar&)): NAME and VERSION are string literals, NAME of
/// [a-z0-9_] beginning with a letter, VERSION without blanks. Use it once in a library, outside any
/// namespace.
#define GBC_PLUGIN(NAME, VERSION, ...)                                                           \
  __attribute__((used, retain)) static const char gbc_plugin_marker[] =                          \
      "@(#)gbcompress-plugin " NAME " " VERSION " " GBC_FINGERPRINT;                             \
  static bool gbc_plugin_register(gbcompress::Registrar& gbc_registrar, char* error,             \
                                  std::size_t error_bytes) noexcept {                            \
    try {                                                                                        \
      (__VA_ARGS__)(gbc_registrar);                                                              \
      return true;                                                                               \
    } catch (const c10::Error& x) {                                                              \
      std::snprintf(error, error_bytes, "%s", x.what_without_backtrace());                       \
    } catch (const std::exception& x) {                                                          \
      std::snprintf(error, error_bytes, "%s", x.what());                                         \
    } catch (...) {                                                                              \
      std::snprintf(error, error_bytes, "threw something that is not a std::exception");         \
    }                                                                                            \
    return false;                                                                                \
  }                                                                                              \
  extern "C" __attribute__((visibility("default"))) const gbcompress::Plugin*                    \
  gbcompress_plugin_v1() noexcept {                                                              \
    static const gbcompress::Plugin plugin{sizeof plugin, GBC_PLUGIN_ABI, GBC_FINGERPRINT,       \
                                           NAME,          VERSION,        &gbc_plugin_register}; \
    return &plugin;                                                                              \
  }
