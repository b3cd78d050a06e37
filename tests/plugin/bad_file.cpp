/// Plugin files that are wrong before anything is registered, one for each GBC_CASE_*. Written
/// without the SDK's header, which does not let these mistakes happen.
#include <torch/headeronly/version.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "gbcompress/version.h"

#ifndef GBC_CASE_ABI
#define GBC_CASE_ABI GBC_STRINGIFY(GBC_HOST_ABI)
#endif
#ifndef GBC_CASE_TORCH
#define GBC_CASE_TORCH TORCH_VERSION
#endif
#ifndef GBC_CASE_NAME
#define GBC_CASE_NAME "bad"
#endif
#define GBC_CASE_FINGERPRINT                                                                     \
  "abi=" GBC_CASE_ABI " torch=" GBC_CASE_TORCH                                                   \
  " gcc=" GBC_STRINGIFY(__GNUC__) " std=" GBC_STRINGIFY(__cplusplus) " cxx11abi=" GBC_STRINGIFY( \
      _GLIBCXX_USE_CXX11_ABI)

#ifdef GBC_CASE_PREVIOUS_ABI
#include "previous_marker.h"  // as it was stored
#endif
#ifndef GBC_CASE_MARKER
#define GBC_CASE_MARKER "@(#)gbcompress-plugin " GBC_CASE_NAME " 0.1.0 " GBC_CASE_FINGERPRINT
#endif

__attribute__((used, retain)) static const char gbc_plugin_marker[] = GBC_CASE_MARKER;

namespace {
struct Plugin {
  std::uint32_t struct_size, abi_version;
  const char *fingerprint, *name, *version;
  bool (*register_types)(void*, char*, std::size_t);
};
bool registers_nothing(void*, char*, std::size_t) { return true; }
bool fails_silently(void*, char*, std::size_t) { return false; }
bool throws(void*, char*, std::size_t) { throw std::runtime_error("from a function of C"); }
}  // namespace

#ifdef GBC_CASE_UNRESOLVED
extern "C" void gbc_test_nobody_defines_this();
#endif

#ifndef GBC_CASE_NO_ENTRY
extern "C" __attribute__((visibility("default"))) const Plugin* gbcompress_plugin_v1() {
  static Plugin plugin{sizeof plugin, GBC_HOST_ABI, GBC_CASE_FINGERPRINT,
                       GBC_CASE_NAME, "0.1.0",      &registers_nothing};
#if defined(GBC_CASE_NULL)
  return nullptr;
#elif defined(GBC_CASE_ENTRY_THROWS)
  throw std::runtime_error("not today");
#elif defined(GBC_CASE_UNRESOLVED)
  gbc_test_nobody_defines_this();
#elif defined(GBC_CASE_SMALL)
  plugin.struct_size = 8;
#elif defined(GBC_CASE_OTHER_NAME)
  plugin.name = "beta";
#elif defined(GBC_CASE_NO_FUNCTION)
  plugin.register_types = nullptr;
#elif defined(GBC_CASE_FAILS_SILENTLY)
  plugin.register_types = &fails_silently;
#elif defined(GBC_CASE_REGISTER_THROWS)
  plugin.register_types = &throws;
#endif
  return &plugin;
}
#endif
