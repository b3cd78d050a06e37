#pragma once
/// How the tensors of a file ended, for people and for programs.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gbcompress/weights.h"
#include "table.h"

namespace gbcompress::cli {

/// Rows "exact tensors" and "worst tensors": the three with the largest errors.
void add_stored_rows(Table& table, const std::vector<StoredTensor>& tensors);
/// Every tensor in a line: how it is stored, shape, step, bits per weight, bytes,
/// relative squared error.
std::string stored_listing(const std::vector<StoredTensor>& tensors);
/// The relative squared error, or "-" where nothing was compared.
std::string error_text(const StoredTensor& tensor);
/// Keys "error" and "energy"; null where nothing was compared.
nlohmann::ordered_json error_json(const StoredTensor& tensor);
nlohmann::ordered_json stored_json(const std::vector<StoredTensor>& tensors);

}  // namespace gbcompress::cli
