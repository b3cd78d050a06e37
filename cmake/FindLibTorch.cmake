# LibTorch (CPU libraries) as our own imported target, LibTorch::LibTorch. No CUDA toolkit, no
# `import torch`: two folders and two libraries are all that is needed.
#
# Where there is none that fits, LibTorch_PROBLEM says why and what to do, and there is no target.
# Looked for, in order: -DGBCOMPRESS_TORCH / $GBCOMPRESS_TORCH (the folder that holds include/ and
# lib/), Torch_DIR (…/share/cmake/Torch), the project's own environment (.deps/venv), and the Python
# on the PATH, located without importing it.
set(GBCOMPRESS_TORCH "" CACHE PATH "Folder of an existing LibTorch: the one with include/ and lib/")
set(LibTorch_PROBLEM "")
set(torch_root "")
if(GBCOMPRESS_TORCH)
  set(torch_root ${GBCOMPRESS_TORCH})
elseif(DEFINED ENV{GBCOMPRESS_TORCH} AND NOT "$ENV{GBCOMPRESS_TORCH}" STREQUAL "")
  set(torch_root $ENV{GBCOMPRESS_TORCH})
elseif(Torch_DIR)
  get_filename_component(torch_root ${Torch_DIR}/../../.. ABSOLUTE)
elseif(DEFINED ENV{Torch_DIR} AND NOT "$ENV{Torch_DIR}" STREQUAL "")
  get_filename_component(torch_root $ENV{Torch_DIR}/../../.. ABSOLUTE)
else()
  file(GLOB torch_candidates ${CMAKE_CURRENT_LIST_DIR}/../.deps/venv/lib/python3*/site-packages/torch)
  foreach(candidate IN LISTS torch_candidates)
    if(EXISTS ${candidate}/lib/libtorch_cpu.so)
      get_filename_component(torch_root ${candidate} ABSOLUTE)
    endif()
  endforeach()
  if(NOT torch_root)
    find_program(GBC_PYTHON python3)
    if(GBC_PYTHON)
      execute_process(
        COMMAND ${GBC_PYTHON} -c "import importlib.util as u, os; s = u.find_spec('torch'); print(os.path.dirname(s.origin) if s and s.origin else '', end='')"
        OUTPUT_VARIABLE torch_root ERROR_QUIET)
    endif()
  endif()
endif()

if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/../scripts/setup)
  set(torch_hint "Run `scripts/setup` to install LibTorch 2.11.0 from PyPI into .deps/, or give an existing one with -DGBCOMPRESS_TORCH=DIR.")
else()  # installed
  set(torch_hint "Install it with `pip install torch==2.11.0`, or give an existing one with -DGBCOMPRESS_TORCH=DIR.")
endif()
if(NOT torch_root)
  set(LibTorch_PROBLEM "LibTorch was not found. ${torch_hint}")
  return()
endif()
foreach(piece lib/libtorch_cpu.so lib/libc10.so include/torch/csrc/api/include/torch/torch.h include/torch/headeronly/version.h)
  if(NOT EXISTS ${torch_root}/${piece})
    set(LibTorch_PROBLEM "LibTorch at ${torch_root} lacks ${piece} (2.11 or newer is needed). ${torch_hint}")
    return()
  endif()
endforeach()
file(STRINGS ${torch_root}/include/torch/headeronly/version.h torch_version_lines
     REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" torch_version_parts "${torch_version_lines}")
list(JOIN torch_version_parts "." LibTorch_VERSION)
if(LibTorch_VERSION VERSION_LESS 2.11)
  set(LibTorch_PROBLEM "LibTorch ${LibTorch_VERSION} at ${torch_root} is too old, 2.11 or newer is needed. ${torch_hint}")
  return()
endif()
set(LibTorch_ROOT_DIR ${torch_root})

# The wheel's libraries name two CUDA libraries that PyPI keeps in folders beside it; the linker
# must be told, at run time their own RPATH finds them. A CPU-only LibTorch has neither.
file(GLOB torch_neighbours LIST_DIRECTORIES true ${torch_root}/../nvidia/*/lib)
set(torch_link_path "-Wl,-rpath-link,${torch_root}/lib")
foreach(folder IN LISTS torch_neighbours)
  string(APPEND torch_link_path ":${folder}")
endforeach()

# at::parallel_for is a template of LibTorch's headers: compiled without OpenMP it runs on one thread,
# silently. The OpenMP that LibTorch brings is linked, so that there is one pool of threads and
# at::set_num_threads() governs it.
find_package(OpenMP QUIET COMPONENTS CXX)
if(NOT OpenMP_CXX_FOUND)
  set(LibTorch_PROBLEM "The compiler has no OpenMP, which LibTorch's threads need; use GCC.")
  return()
endif()
file(GLOB torch_openmp ${torch_root}/lib/libgomp*.so* ${torch_root}/../torch.libs/libgomp*.so*)
if(NOT torch_openmp)
  set(torch_openmp ${OpenMP_CXX_LIBRARIES})
endif()
list(GET torch_openmp 0 torch_openmp)

if(NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION ${torch_root}/lib/libc10.so)
  add_library(LibTorch::LibTorch SHARED IMPORTED)
  set_target_properties(LibTorch::LibTorch PROPERTIES
    IMPORTED_LOCATION ${torch_root}/lib/libtorch_cpu.so
    INTERFACE_INCLUDE_DIRECTORIES "${torch_root}/include;${torch_root}/include/torch/csrc/api/include"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${torch_root}/include;${torch_root}/include/torch/csrc/api/include"
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO"
    INTERFACE_COMPILE_OPTIONS "$<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>"
    INTERFACE_LINK_LIBRARIES "LibTorch::c10;${torch_openmp}"
    INTERFACE_LINK_OPTIONS "${torch_link_path}")
endif()
