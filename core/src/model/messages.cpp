#include "model/messages.h"

#include <c10/util/Exception.h>

#include "gbcompress/error.h"

namespace gbcompress {

std::string shape_text(c10::IntArrayRef shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string reason(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  // TorchScript's interpreter puts the cause behind the listing.
  constexpr std::string_view kCause = "RuntimeError: ";
  if (const auto cause = text.rfind(kCause); cause != std::string::npos)
    text.erase(0, cause + kCause.size());
  const auto first = text.find_first_not_of(" \n\t");
  text.erase(0, std::min(first, text.size()));
  text.resize(std::min(text.find('\n'), text.size()));
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  constexpr std::size_t kLongest = 300;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + " ...";
  return text.empty() ? "no reason given" : printable(text);
}

}  // namespace gbcompress
