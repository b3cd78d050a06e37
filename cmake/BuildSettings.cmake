# One interface target carries the language level, warnings and sanitizers of our own code; nothing
# is set globally.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_EXTENSIONS OFF)

add_library(gbc_settings INTERFACE)
target_compile_features(gbc_settings INTERFACE cxx_std_20)
# No fused multiply-add behind our back: decoded weights are the same bits on every processor.
# Designated initialisers leave the other fields at their defaults on purpose.
target_compile_options(gbc_settings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-unused-parameter
  -Wno-missing-field-initializers -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns of a copy onto itself, or of one beyond all memory, in "text" + std::string (its bug 105651), and takes
  # the sources that a unity file includes for headers, where classes may not have members of unnamed namespaces.
  target_compile_options(gbc_settings INTERFACE -fpch-preprocess -Wno-restrict -Wno-stringop-overflow
    -Wno-subobject-linkage)
else()
  # Sizes of containers are unsigned and sizes of tensors signed; GCC's -Wconversion leaves signs out too.
  target_compile_options(gbc_settings INTERFACE -Wno-sign-conversion)
endif()
# gbc_seal(TARGET...): libraries whose names are visible only where a header says so (version.h). Clang
# does not hand what a namespace's block says on to functions that are defined outside of such a block.
function(gbc_seal)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set_target_properties(${ARGN} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  endif()
endfunction()
if(GBC_SANITIZE)
  target_compile_options(gbc_settings INTERFACE -fsanitize=${GBC_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(gbc_settings INTERFACE -fsanitize=${GBC_SANITIZE})
endif()
if(GBC_COVERAGE)  # counted by threads too
  target_compile_options(gbc_settings INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(gbc_settings INTERFACE --coverage)
endif()
