#include "outcome.h"

#include <new>
#include <string>

#include "command.h"
#include "exit_status.h"
#include "flag_words.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "gbcompress/tensors.h"

namespace gbcompress::cli {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

int report(bool json, Errc code, const std::string& text, int status) {
  const std::string message = with_flags(text);
  say(message);
  write_error_file(message);  // torchrun shows it, where it started us
  if (json)
    print_json({{"error", {{"code", errc_name(code)}, {"message", message}, {"status", status}}}});
  return status;
}

/// An input that became shorter explains any other error, so it is reported instead.
int watched(const std::function<int()>& act) {
  int status = kDone;
  try {
    status = act();
  } catch (const std::exception&) {
    check_mapped_inputs();
    throw;
  }
  check_mapped_inputs();
  return status;
}

}  // namespace

int told(bool json, const std::function<int()>& act) {
  try {
    return watched(act);
  } catch (const Error& error) {
    const bool writing = dynamic_cast<const WriteError*>(&error) != nullptr;
    return report(json, error.code(), error.what(),
                  exit_status(error.code(), writing, interrupt_requested()));
  } catch (const std::bad_alloc&) {
    return report(json, Errc::kFailure, "there is not enough memory for this", kFailed);
  } catch (const std::exception& error) {
    return report(json, Errc::kFailure, "failed: " + printable(first_line(error.what())), kFailed);
  }
}

}  // namespace gbcompress::cli
