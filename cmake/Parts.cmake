# What the libraries are made of, once more as archives: the libraries are sealed (version.h), and tests,
# fuzzers and benchmarks try their private parts too.
add_library(gbc_parts STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:gbc_portable>)
set_target_properties(gbc_parts PROPERTIES LINKER_LANGUAGE CXX)
target_include_directories(gbc_parts INTERFACE ${PROJECT_SOURCE_DIR}/core/include ${PROJECT_SOURCE_DIR}/core/src)
target_link_libraries(gbc_parts INTERFACE gbc_zstd gbc_xxhash gbc_highway gbc_protozero nlohmann_json::nlohmann_json ZLIB::ZLIB
  Threads::Threads ${CMAKE_DL_LIBS})
if(NOT GBCOMPRESS_PORTABLE_ONLY)
  add_library(gbc_torch_parts STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:gbcompress> $<TARGET_OBJECTS:gbc_modules>)
  set_target_properties(gbc_torch_parts PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(gbc_torch_parts INTERFACE ${PROJECT_SOURCE_DIR}/sdk/include)
  target_link_libraries(gbc_torch_parts INTERFACE gbc_parts LibTorch::LibTorch)
endif()
