#include "model/recurrent_names.h"

#include <cstdint>
#include <map>

namespace gbcompress {
namespace {

bool is_matrix_of(const ParameterInfo& info, std::string_view matrix, bool cell) {
  if (info.shape.size() != 2 || !info.local_name.starts_with(matrix)) return false;
  const std::string_view rest = std::string_view(info.local_name).substr(matrix.size());
  return cell ? rest.empty() : rest.starts_with("_l");
}

/// What one module's matrices say of it.
struct Seen {
  std::int64_t rows = 0, cols = 0;  ///< of the first weight_hh
  std::int64_t projected = 0;       ///< hidden units that weight_hr projects; 0 without it
  bool cell = false;
};

std::string type_of(const Seen& seen) {
  const std::int64_t hidden = seen.projected > 0 ? seen.projected : seen.cols;
  if (hidden < 1 || seen.rows % hidden != 0) return "";
  const std::int64_t gates = seen.rows / hidden;
  if (seen.projected > 0) return gates == 4 ? "LSTM" : "";
  const std::string cell = seen.cell ? "Cell" : "";
  if (gates == 4) return "LSTM" + cell;
  if (gates == 3) return "GRU" + cell;
  return gates == 1 ? "RNN" + cell : "";
}

}  // namespace

void guess_recurrent_types(std::vector<NamedParameter>& tensors) {
  std::map<std::string, Seen> modules;
  for (const NamedParameter& tensor : tensors) {
    const ParameterInfo& info = tensor.info;
    for (const bool cell : {false, true}) {
      if (is_matrix_of(info, "weight_hh", cell)) {
        Seen& seen = modules[info.module_path];
        if (seen.rows == 0) {
          seen.rows = info.shape[0];
          seen.cols = info.shape[1];
          seen.cell = cell;
        }
      } else if (!cell && is_matrix_of(info, "weight_hr", cell)) {
        modules[info.module_path].projected = info.shape[1];
      }
    }
  }
  for (NamedParameter& tensor : tensors) {
    const auto found = modules.find(tensor.info.module_path);
    if (found == modules.end()) continue;
    const std::string type = type_of(found->second);
    if (type.empty()) continue;
    for (const char* matrix : {"weight_ih", "weight_hh", "weight_hr"})
      if (is_matrix_of(tensor.info, matrix, found->second.cell)) tensor.info.module_type = type;
  }
}

}  // namespace gbcompress
