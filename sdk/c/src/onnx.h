#pragma once
/// The ONNX model of a file, as a whole and with its large initializers apart.

#include <span>
#include <vector>

#include "file.h"

namespace gbz {

/// Fills in file.model and measures it; leaves it null where the file holds no model.
gbz_status find_model(gbz_file& file, gbz_error* error);
/// What fills a hole.
std::vector<std::byte> filling_of(const gbz_file& file, const gbcompress::Hole& hole);
/// A skeleton with the elements in its holes. @param out  of as many bytes
void write_model(const gbz_file& file, const gbcompress::ContainerFile& model,
                 std::span<std::byte> out);

}  // namespace gbz
