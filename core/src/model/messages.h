#pragma once
/// Pieces of error messages.

#include <c10/util/ArrayRef.h>

#include <exception>
#include <string>

namespace gbcompress {

std::string shape_text(c10::IntArrayRef shape);  ///< "[3, 32, 32]"

/// The one line of an exception of LibTorch that says what is wrong: no backtrace, no listing of
/// TorchScript source, printable, without a full stop.
std::string reason(const std::exception& error);

}  // namespace gbcompress
