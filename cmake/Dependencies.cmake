# Every outside piece, each with the command that installs it.
function(gbc_require found piece package)
  if(NOT ${found})
    message(FATAL_ERROR "${piece} was not found; install it with `apt-get install ${package}`, or run `scripts/setup`.")
  endif()
endfunction()

if(NOT GBCOMPRESS_PORTABLE_ONLY)
  include(FindLibTorch)
  if(LibTorch_PROBLEM)
    message(FATAL_ERROR "${LibTorch_PROBLEM}")
  endif()
  message(STATUS "LibTorch ${LibTorch_VERSION} at ${LibTorch_ROOT_DIR}")
endif()

# In a wheel they are linked in: it runs where they are not installed.
if(GBCOMPRESS_WHEEL)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
  set(ZLIB_USE_STATIC_LIBS ON)
  # Boost's archive is made for programs: the module that trains is a library, and takes the shared one along.
  set(Boost_USE_STATIC_LIBS ${GBCOMPRESS_PORTABLE_ONLY})
endif()

find_package(Threads REQUIRED)
find_package(Boost 1.74 QUIET COMPONENTS program_options)
gbc_require(Boost_FOUND "Boost 1.74 with program_options" "libboost-dev libboost-program-options-dev")
find_package(nlohmann_json 3.11 QUIET)
gbc_require(nlohmann_json_FOUND "nlohmann-json 3.11" nlohmann-json3-dev)
find_package(ZLIB QUIET)
gbc_require(ZLIB_FOUND "zlib" zlib1g-dev)

# toml++, zstd, xxHash, Highway, protozero: Debian's packages do not all have a CMake file.
function(gbc_find_library target header library package)
  find_path(${target}_INCLUDE ${header})
  gbc_require(${target}_INCLUDE "${header}" ${package})
  add_library(${target} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${target} INTERFACE ${${target}_INCLUDE})
  if(library)
    find_library(${target}_LIBRARY ${library})
    gbc_require(${target}_LIBRARY "lib${library}" ${package})
    target_link_libraries(${target} INTERFACE ${${target}_LIBRARY})
  endif()
endfunction()
gbc_find_library(gbc_tomlplusplus toml++/toml.h "" libtomlplusplus-dev)
gbc_find_library(gbc_zstd zstd.h zstd libzstd-dev)
gbc_find_library(gbc_xxhash xxhash.h xxhash libxxhash-dev)
gbc_find_library(gbc_highway hwy/highway.h hwy libhwy-dev)
gbc_find_library(gbc_protozero protozero/pbf_reader.hpp "" libprotozero-dev)

# libfuse3 is optional: `mount` needs it, in a module of its own. A wheel runs where it is not installed.
set(GBC_FUSE FALSE)
if(NOT GBCOMPRESS_WHEEL)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(fuse3 QUIET IMPORTED_TARGET fuse3)
    set(GBC_FUSE ${fuse3_FOUND})
  endif()
  if(NOT GBC_FUSE)
    message(STATUS "libfuse3 was not found: `gbcompress mount` is not built; `apt-get install pkg-config libfuse3-dev fuse3` adds it")
  endif()
endif()

if(GBC_BUILD_TESTS)
  find_package(GTest QUIET)
  gbc_require(GTest_FOUND "GoogleTest" "libgtest-dev libgmock-dev")
endif()

# gbc_add_pch(NAME [OPTIONS ...] LIBRARIES ... HEADERS <a.h> ...): headers that are compiled once for
# everybody who says gbc_use_pch(TARGET NAME). Such targets must compile with the same options.
function(gbc_add_pch name)
  cmake_parse_arguments(arg "" "" "OPTIONS;LIBRARIES;HEADERS" ${ARGN})
  file(WRITE ${CMAKE_BINARY_DIR}/${name}.cpp "")
  add_library(${name} STATIC ${CMAKE_BINARY_DIR}/${name}.cpp)
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  target_link_libraries(${name} PRIVATE gbc_settings ${arg_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()
function(gbc_use_pch target pch)
  target_precompile_headers(${target} REUSE_FROM ${pch})
  get_target_property(kind ${target} TYPE)
  if(kind STREQUAL "EXECUTABLE")
    # CMake would give programs -fPIE, and GCC then silently ignores the header made with -fPIC.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()
if(GBCOMPRESS_PORTABLE_ONLY)
  return()
endif()
# LibTorch's headers: torch/torch.h costs 19 s a file, ATen/ATen.h 5 s. What is left when they come
# precompiled is 6 s and 1.4 s (templates that a header asks for are made in every file), so files
# that need tensors alone do not see modules.
gbc_add_pch(gbc_aten_pch LIBRARIES LibTorch::LibTorch
  HEADERS <ATen/ATen.h> <ATen/Parallel.h> <ATen/core/grad_mode.h>)
gbc_add_pch(gbc_torch_pch LIBRARIES LibTorch::LibTorch HEADERS <torch/torch.h>)
function(gbc_use_torch_pch target)
  gbc_use_pch(${target} gbc_torch_pch)
endfunction()
