#pragma once
/// The config.json of Transformers beside weights in a `.gbz`: two members at the front of its
/// object name the method and the file, for the loader of the Python package. All other bytes stay.

#include <string>
#include <string_view>

namespace gbcompress {

/// @param artifact  name of the `.gbz` in the same folder
/// @return `config` as it is without "model_type", of more than 1 MiB, or if it is not JSON. A
///         quantization_config of another method stays, as does a transformers_weights
std::string with_packed_weights(std::string_view config, std::string_view artifact);

/// Removes the members that with_packed_weights() added, which gives the bytes that it was given.
std::string without_packed_weights(std::string_view config);

}  // namespace gbcompress
