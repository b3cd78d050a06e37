// The rows of the section [target].
#include "config/setting_rows.h"

namespace gbcompress {
namespace {

#define GBC_TARGET_FIELD(path) \
  [](auto& s) -> auto& { return s.path; }

using S = Settings;

bool above_one(double x) { return x > 1; }
bool at_least_zero(double x) { return x >= 0; }
bool share(double x) { return x > 0 && x < 1; }
bool bits_range(double x) { return x > 0 && x <= 64; }

/// "8", "8x" and "8:1".
SettingValue ratio_text(std::string_view text) {
  if (text.ends_with("x") || text.ends_with("X")) text.remove_suffix(1);
  if (text.ends_with(":1")) text.remove_suffix(2);
  return number_text(text);
}

/// "0.01" and "1%".
SettingValue share_text(std::string_view text) {
  const bool percent = text.ends_with("%");
  if (percent) text.remove_suffix(1);
  const SettingValue number = number_text(text);
  const auto value = as_number(number);
  return percent && value ? SettingValue(*value / 100) : number;
}

/// For a file that need not be smaller than the model's.
std::string lossless_advice(const SettingValue& value) {
  const auto ratio = as_number(value);
  return ratio && *ratio > 0 && *ratio <= 1 ? "; use `mode` exact and no target to keep every bit"
                                            : "";
}

SettingRow<S> with_advice(SettingRow<S> row, std::string (*advice)(const SettingValue&)) {
  row.advice = advice;
  return row;
}

SettingRow<S> with_unit(SettingRow<S> row, SettingValue (*read)(std::string_view)) {
  row.with_unit = read;
  return row;
}

/// A target replaces those that a lower layer set.
template <typename Field>
SettingRow<S> target_row(SettingRow<S> row, Field field) {
  row.set = [plain = row.set, field](S& settings, const SettingValue& value) {
    S tried = settings;
    if (!plain(tried, value)) return false;
    settings.compress.target = {};
    field(settings) = field(tried);
    return true;
  };
  return row;
}

}  // namespace

std::vector<SettingRow<Settings>> target_rows() {
  return {
      target_row(
          with_advice(
              with_unit(number_row<S>("target.ratio", "a number above 1, such as 8, 8x or 8:1",
                                      above_one, "Bytes of the model file over bytes of the result",
                                      GBC_TARGET_FIELD(compress.target.ratio)),
                        ratio_text),
              lossless_advice),
          GBC_TARGET_FIELD(compress.target.ratio)),
      target_row(integer_row<S>("target.max_bytes", 1, std::numeric_limits<std::int64_t>::max(),
                                "Largest size of the result, bytes",
                                GBC_TARGET_FIELD(compress.target.max_bytes)),
                 GBC_TARGET_FIELD(compress.target.max_bytes)),
      target_row(number_row<S>("target.bits", "a number above 0, at most 64", bits_range,
                               "Largest size of the result in bits per weight of the model",
                               GBC_TARGET_FIELD(compress.target.bits)),
                 GBC_TARGET_FIELD(compress.target.bits)),
      target_row(number_row<S>("target.max_drop", "a number of at least 0", at_least_zero,
                               "Largest quality drop on the held-out split, in the metric's unit",
                               GBC_TARGET_FIELD(compress.target.max_drop)),
                 GBC_TARGET_FIELD(compress.target.max_drop)),
      target_row(
          with_unit(number_row<S>("target.max_error",
                                  "a number above 0 and below 1, such as 0.001 or 0.1%", share,
                                  "Largest relative squared weight error of any tensor (with "
                                  "g-nets or calibration: of all together), without training",
                                  GBC_TARGET_FIELD(compress.target.max_error)),
                    share_text),
          GBC_TARGET_FIELD(compress.target.max_error)),
  };
}

}  // namespace gbcompress
