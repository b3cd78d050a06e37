#pragma once
/// LibTorch from elsewhere than where the program was built: of an installed `torch`, say.

namespace gbcompress::cli {

/// Opens the libraries of the LibTorch that $GBCOMPRESS_TORCH names (the folder that holds lib/),
/// so that what is opened afterwards finds them in place; nothing where the variable is not set.
/// @throws Error(kFailure) where there is none, where its version is not the one this program was
///         built with, or where it cannot be loaded
void open_given_torch();

}  // namespace gbcompress::cli
