#pragma once
/// Calls into a plugin's code. What it throws is named by plugin, part and tensor, and so is a
/// signal that ends the process meanwhile.

#include <string>
#include <string_view>

namespace gbcompress {

/// Which Errors of a plugin pass as they are.
enum class PassedErrors {
  kNone,
  kOfRequest,  ///< those about options and inputs, which are the user's
  kAll,
};

/// Which function of which plugin is called, and for what. The texts outlive the call; parts that
/// are empty are left out of messages.
struct PluginCall {
  std::string_view origin;    ///< "plugin /usr/lib/mirror.so", printable
  std::string_view kind;      ///< "layer type"
  std::string_view id;        ///< "mirror"
  std::string_view function;  ///< "init"
  std::string_view tensor;    ///< full name
  PassedErrors passed = PassedErrors::kNone;
};

/// @param why  what the function did although it may not
/// @throws Error(kPluginFailed) "plugin FILE, layer type ID, tensor NAME: FUNCTION WHY; this is a
/// defect of the plugin"
[[noreturn]] void plugin_failed(const PluginCall& call, const std::string& why);

/// While it lives, a signal that ends the process, or exit(), first writes one line to standard
/// error that names the call. Handlers that were there before are called afterwards.
class CrashNote {
 public:
  explicit CrashNote(const PluginCall& call) noexcept;
  ~CrashNote();
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;

 private:
  const PluginCall* outer_;
};

/// To be called inside a handler of exceptions.
/// @throws Error(kPluginFailed) with the exception's own reason; unchanged: std::bad_alloc, an
///         Error that requests a stop, and Errors that pass
[[noreturn]] void rethrow_named(const PluginCall& call);

/// @return what `act` returns
template <typename F>
auto call_plugin(const PluginCall& call, F&& act) {
  const CrashNote note(call);
  try {
    return act();
  } catch (...) {
    rethrow_named(call);
  }
}

}  // namespace gbcompress
