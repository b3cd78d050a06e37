# gbc_add_cuda_module(NAME SOURCES file.cu ...): a library that is opened at run time. CUDA's runtime
# is linked in statically: the module then needs nothing of the toolkit where it runs, and loads
# where there is no driver, so that it can say so.
set(GBCOMPRESS_CUDA_ARCHITECTURES 80 90 CACHE STRING
    "GPU architectures to compile for; the last one is also kept as PTX for newer GPUs")
# "80-real;90": machine code for all, PTX for the last.
list(TRANSFORM GBCOMPRESS_CUDA_ARCHITECTURES APPEND "-real" OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
list(POP_BACK CMAKE_CUDA_ARCHITECTURES)
list(GET GBCOMPRESS_CUDA_ARCHITECTURES -1 last)
list(APPEND CMAKE_CUDA_ARCHITECTURES ${last})

if(NOT CMAKE_CUDA_COMPILER)
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH
               PATHS /usr/local/cuda PATH_SUFFIXES bin)
endif()
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "nvcc was not found, and GBCOMPRESS_CUDA needs it; install the CUDA toolkit 13, or give -DCMAKE_CUDA_COMPILER=FILE.")
endif()
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.2)
  message(FATAL_ERROR "nvcc ${CMAKE_CUDA_COMPILER_VERSION} is too old, 12.2 or newer is needed.")
endif()
list(TRANSFORM GBCOMPRESS_CUDA_ARCHITECTURES PREPEND "sm_" OUTPUT_VARIABLE architectures)
list(JOIN architectures ", " architectures)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" version ${CMAKE_CUDA_COMPILER_VERSION})
set(GBC_CUDA_BUILT_WITH "nvcc ${version} for ${architectures}")
message(STATUS "CUDA module: ${GBC_CUDA_BUILT_WITH}")

function(gbc_add_cuda_module name)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  add_library(${name} MODULE ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/core/include ${PROJECT_SOURCE_DIR}/core/src)
  target_compile_definitions(${name} PRIVATE GBC_CUDA_BUILT_WITH="${GBC_CUDA_BUILT_WITH}")
  # CMake 3.25 does not know which standards nvcc 13 has, and then asks for none.
  target_compile_options(${name} PRIVATE -std=c++20 -Xcompiler=-Wall,-Wextra,-Wno-missing-field-initializers)
  target_link_options(${name} PRIVATE -Wl,-z,defs -Wl,--exclude-libs,ALL)
  set_target_properties(${name} PROPERTIES CUDA_STANDARD 20 CUDA_RUNTIME_LIBRARY Static
                        CUDA_VISIBILITY_PRESET hidden)
  install(TARGETS ${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cuda)
endfunction()

# gbc_add_nccl(NAME SOURCES ...): the part that speaks NCCL, where its header is: that of the package
# beside LibTorch first, which belongs to it, then the system's. The library is opened at run time.
find_path(GBC_NCCL_INCLUDE nccl.h HINTS ${LibTorch_ROOT_DIR}/../nvidia/nccl/include NO_DEFAULT_PATH)
find_path(GBC_NCCL_INCLUDE nccl.h HINTS ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
function(gbc_add_nccl name)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  if(NOT GBC_NCCL_INCLUDE)
    message(STATUS "NCCL: nccl.h was not found, the CUDA module is built without it")
    return()
  endif()
  message(STATUS "NCCL: header in ${GBC_NCCL_INCLUDE}")
  target_sources(${name} PRIVATE ${arg_SOURCES})
  set_source_files_properties(${arg_SOURCES} PROPERTIES INCLUDE_DIRECTORIES ${GBC_NCCL_INCLUDE})
  target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS})
  get_filename_component(library ${GBC_NCCL_INCLUDE}/../lib ABSOLUTE)
  if(EXISTS ${library}/libnccl.so.2)
    set_target_properties(${name} PROPERTIES BUILD_RPATH ${library} INSTALL_RPATH ${library})
  endif()
endfunction()
