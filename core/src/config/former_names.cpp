#include "config/former_names.h"

namespace gbcompress {
namespace {

struct FormerKey {
  std::string_view former, present;
};
constexpr FormerKey kKeys[] = {{"rate.steps", "quant.step_per"},
                               {"rate.quantiser", "rate.quantizer"},
                               {"train.mirror", "train.flip"}};

struct FormerValue {
  std::string_view key, former, present;
};
constexpr FormerValue kValues[] = {
    {"weights.mode", "residual", "quantized"}, {"weights.mode", "raw", "exact"},
    {"layer.mode", "residual", "quantized"},   {"layer.mode", "raw", "exact"},
    {"quant.step_per", "rows", "row"},
};

void warn(const std::string& at, std::string_view former, std::string_view present,
          std::vector<std::string>& warnings) {
  warnings.push_back("warning: " + at + ": " + std::string(former) + " is now called " +
                     std::string(present));
}

}  // namespace

std::string present_key(const std::string& key, const std::string& at,
                        std::vector<std::string>& warnings) {
  for (const auto& [former, present] : kKeys) {
    if (key != former) continue;
    warn(at, former, present, warnings);
    return std::string(present);
  }
  return key;
}

std::string former_key(std::string_view key) {
  for (const auto& [former, present] : kKeys)
    if (key == present) return std::string(former);
  return "";
}

SettingValue present_value(const std::string& key, SettingValue value, const std::string& at,
                           std::vector<std::string>& warnings) {
  const auto* text = std::get_if<std::string>(&value);
  for (const FormerValue& each : kValues) {
    if (!text || key != each.key || *text != each.former) continue;
    // A former key with a former value is one mistake.
    if (warnings.empty() || !warnings.back().ends_with(" is now called " + key))
      warn(at, each.former, each.present, warnings);
    return std::string(each.present);
  }
  return value;
}

}  // namespace gbcompress
