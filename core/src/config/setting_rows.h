#pragma once
/// The table of all settings.

#include "config/setting_row.h"
#include "gbcompress/options.h"

namespace gbcompress {

const std::vector<SettingRow<Settings>>& setting_rows();
/// Those of the section [target]; setting one clears the others.
std::vector<SettingRow<Settings>> target_rows();
/// Keys of a [[layer]] table, all of them overrides for the parameters that `match` names.
const std::vector<SettingRow<LayerRule>>& layer_rows();

}  // namespace gbcompress
