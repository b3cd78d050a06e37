#include "plugin/plugin_call.h"

#include <c10/util/Exception.h>

#include <new>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// "plugin FILE, layer type ID, tensor NAME"
std::string named(const PluginCall& call) {
  std::string text(call.origin);
  const auto add = [&](std::string_view kind, std::string_view name) {
    if (name.empty()) return;
    if (!text.empty()) text += ", ";
    text += std::string(kind) + " " + printable(name);
  };
  add(call.kind, call.id);
  add("tensor", call.tensor);
  return text;
}

/// LibTorch's messages go on with a stack trace; the first line says what is wrong.
std::string first_line(std::string_view text) {
  return "\"" + printable(text.substr(0, text.find('\n'))) + "\"";
}

bool passes(PassedErrors passed, Errc code) {
  if (passed != PassedErrors::kOfRequest) return passed == PassedErrors::kAll;
  return code == Errc::kUsage || code == Errc::kConfig || code == Errc::kNonFinite ||
         code == Errc::kLimit || code == Errc::kUnsupported;
}

}  // namespace

void plugin_failed(const PluginCall& call, const std::string& why) {
  throw Error(Errc::kPluginFailed, named(call) + ": " + std::string(call.function) + " " + why +
                                       "; this is a defect of the plugin");
}

void rethrow_named(const PluginCall& call) {
  const std::string threw = named(call) + ": " + std::string(call.function) + " threw ";
  try {
    throw;
  } catch (const Error& error) {
    if (error.code() == Errc::kInterrupted || error.code() == Errc::kPluginFailed ||
        passes(call.passed, error.code()))
      throw;
    throw Error(Errc::kPluginFailed, threw + first_line(error.what()));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const c10::Error& error) {
    throw Error(Errc::kPluginFailed, threw + first_line(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw Error(Errc::kPluginFailed, threw + first_line(error.what()));
  } catch (...) {
    throw Error(Errc::kPluginFailed, threw + "something that is not a std::exception");
  }
}

}  // namespace gbcompress
