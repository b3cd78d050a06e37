#pragma once
/// The one place the project's version is written; CMake reads it from here.

#define GBC_VERSION_MAJOR 0
#define GBC_VERSION_MINOR 1
#define GBC_VERSION_PATCH 0

#define GBC_STRINGIFY_(x) #x
#define GBC_STRINGIFY(x) GBC_STRINGIFY_(x)
#define GBC_VERSION_STRING              \
  GBC_STRINGIFY(GBC_VERSION_MAJOR)      \
  "." GBC_STRINGIFY(GBC_VERSION_MINOR)  \
  "." GBC_STRINGIFY(GBC_VERSION_PATCH)
