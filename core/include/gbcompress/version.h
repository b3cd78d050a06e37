#pragma once
/// The version, which is written here alone (CMake reads it), and what the libraries export.

#define GBC_VERSION_MAJOR 0
#define GBC_VERSION_MINOR 2
#define GBC_VERSION_PATCH 0

#define GBC_STRINGIFY_(x) #x
#define GBC_STRINGIFY(x) GBC_STRINGIFY_(x)
#define GBC_VERSION_STRING              \
  GBC_STRINGIFY(GBC_VERSION_MAJOR)      \
  "." GBC_STRINGIFY(GBC_VERSION_MINOR)  \
  "." GBC_STRINGIFY(GBC_VERSION_PATCH)

/// What the libraries export. They are compiled with hidden visibility, so that a name is visible
/// only where it is declared in a block
///
///   namespace GBC_API gbcompress { ... }
///
/// as all of the public headers are. The lists in tests/exports name every symbol that is visible.
/// A class has to be seen first in such a block, also where it is only declared: GCC 12 keeps the
/// visibility of the first declaration.

#define GBC_API [[gnu::visibility("default")]]
