#include "options.h"

#include <gbcompress/error.h>

#include <algorithm>
#include <charconv>

namespace gbcompress::nets {
namespace {

constexpr std::int64_t kMaxChannels = 4096, kMaxClasses = 1 << 20, kUsualChannels = 128;
constexpr std::size_t kMaxConvolutions = 5;  // each halves 32 rows

const ParameterInfo* find(const ModelRequest& request, const std::string& name) {
  const auto found = std::find_if(request.weights.begin(), request.weights.end(),
                                  [&](const ParameterInfo& weight) { return weight.name == name; });
  return found == request.weights.end() ? nullptr : &*found;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

std::vector<std::int64_t> of_weights(const ModelRequest& request) {
  std::vector<std::int64_t> channels;
  while (channels.size() < kMaxConvolutions) {
    const ParameterInfo* weight =
        find(request, "conv" + std::to_string(channels.size() + 1) + ".0.weight");
    if (!weight || weight->shape.size() != 4 || weight->shape[0] < 1 ||
        weight->shape[0] > kMaxChannels)
      break;
    channels.push_back(weight->shape[0]);
  }
  return channels;
}

}  // namespace

Options::Options(const ModelRequest& request, std::vector<std::string> names)
    : request_(request), names_(std::move(names)), parts_(split(request.options, ':')) {
  if (parts_.size() > names_.size()) {
    std::string form = request.arch.substr(0, request.arch.find(':'));
    for (const std::string& name : names_) form += ":" + name;
    throw Error(Errc::kUsage,
                "--arch " + printable(request.arch) + " has too many parts; the form is " + form);
  }
  parts_.resize(names_.size());
}

void Options::refuse(std::size_t index, const std::string& rule) const {
  throw Error(Errc::kUsage,
              "--arch " + printable(request_.arch) + ": " + names_[index] + " must be " + rule);
}

std::vector<std::int64_t> Options::numbers(std::size_t index, std::int64_t most) const {
  std::vector<std::int64_t> result;
  if (parts_[index].empty()) return result;
  for (const std::string& text : split(parts_[index], ',')) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, result.emplace_back());
    if (error != std::errc() || stop != end || result.back() < 1 || result.back() > most)
      refuse(index, "1 to " + std::to_string(most) + ", or such numbers separated by commas");
  }
  return result;
}

std::int64_t Options::classes(std::size_t index, const std::string& weight) const {
  const std::vector<std::int64_t> given = numbers(index, kMaxClasses);
  if (given.size() > 1) refuse(index, "one number");
  if (given.size() == 1) return given[0];
  const ParameterInfo* info = find(request_, weight);
  const bool good =
      info && info->shape.size() == 2 && info->shape[0] >= 1 && info->shape[0] <= kMaxClasses;
  return good ? info->shape[0] : 10;
}

bool Options::is_plain(std::size_t index, const std::string& norm) const {
  if (parts_[index] == "plain") return true;
  if (!parts_[index].empty()) refuse(index, "the word plain, or left out");
  return !request_.weights.empty() && !find(request_, norm);
}

std::vector<std::int64_t> channels_of(const ModelRequest& request, const Options& options) {
  std::vector<std::int64_t> channels = options.numbers(0, kMaxChannels);
  if (channels.size() > kMaxConvolutions)
    throw Error(Errc::kUsage, "--arch " + printable(request.arch) +
                                  " has more than 5 convolutions; each halves the 32 rows of an "
                                  "image");
  if (channels.size() > 1) return channels;
  if (channels.empty()) {
    std::vector<std::int64_t> found = of_weights(request);
    if (!found.empty()) return found;
  }
  const std::int64_t c = channels.empty() ? kUsualChannels : channels[0];
  return {c, c, 2 * c, 2 * c, 4 * c};
}

}  // namespace gbcompress::nets
