# What `cmake --install` puts into a prefix: the libraries and the plugins (component runtime), and what
# programs and plugins are built with (component sdk). The command line installs itself. With
# GBCOMPRESS_PORTABLE_ONLY the prefix has gbcompress::portable, and no header that needs more.
include(CMakePackageConfigHelpers)
set(GBC_SDK_DATA_DIR ${CMAKE_INSTALL_DATADIR}/gbcompress)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gbcompress)
# docs/library.md marks the same headers.
set(portable_headers arch_layout artifact artifact_tensor artifact_writer atomic_file base_model bottleneck_options calibrate checkpoint codec
    coded_values compare compress_options decode error expanded_files expanded_folder gnet metric model_folders options packed_originals plan position_code
    recipe report schedule settings statistics stored_tensor tensors tile_grid train_options version weights)

install(TARGETS gbc_portable EXPORT gbcompressPortableTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT sdk)
install(EXPORT gbcompressPortableTargets NAMESPACE gbcompress:: DESTINATION ${package_dir} COMPONENT sdk)
set(notices LICENSE NOTICE)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")  # Debian has the license already, and wants no other copy
  set(notices NOTICE)
endif()
install(FILES ${notices} DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)

if(GBCOMPRESS_PORTABLE_ONLY)
  list(TRANSFORM portable_headers REPLACE "(.+)" "core/include/gbcompress/\\1.h")
  install(FILES ${portable_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gbcompress COMPONENT sdk)
else()
  install(TARGETS gbcompress EXPORT gbcompressTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT sdk)
  install(EXPORT gbcompressTargets NAMESPACE gbcompress:: DESTINATION ${package_dir} COMPONENT sdk)
  install(DIRECTORY core/include/gbcompress sdk/include/gbcompress
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT sdk FILES_MATCHING PATTERN "*.h")
  install(DIRECTORY sdk/contract sdk/template DESTINATION ${GBC_SDK_DATA_DIR} COMPONENT sdk)
endif()
if(GBCOMPRESS_WHEEL)  # Debian has Highway as a shared library only, and Boost's archive serves programs alone
  get_target_property(highway gbc_highway INTERFACE_LINK_LIBRARIES)
  file(REAL_PATH ${highway} highway)
  install(FILES ${highway} DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME libhwy.so.1 COMPONENT runtime)
  install(FILES $<TARGET_FILE:Boost::program_options> DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
endif()

set(package_files sdk/cmake/GbcompressPlugin.cmake)
if(NOT GBCOMPRESS_PORTABLE_ONLY)
  list(APPEND package_files sdk/cmake/plugin.map sdk/cmake/plugin_digest.cmake cmake/FindLibTorch.cmake)
endif()
set(installed_config ${CMAKE_BINARY_DIR}/CMakeFiles/installed/gbcompressConfig.cmake)
configure_package_config_file(sdk/cmake/gbcompressConfig.cmake.in ${installed_config}
  INSTALL_DESTINATION ${package_dir} PATH_VARS GBC_SDK_DATA_DIR GBC_PLUGIN_DIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gbcompressConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${installed_config} ${CMAKE_BINARY_DIR}/gbcompressConfigVersion.cmake ${package_files}
        DESTINATION ${package_dir} COMPONENT sdk)

# The build folder is a package too: find_package() takes it as it takes a prefix. Headers and the contract suite are
# those of the sources, and plugins are installed where the program of the build folder looks for them.
function(gbc_package_of_build_folder)
  export(EXPORT gbcompressPortableTargets NAMESPACE gbcompress:: FILE ${CMAKE_BINARY_DIR}/gbcompressPortableTargets.cmake)
  if(NOT GBCOMPRESS_PORTABLE_ONLY)
    export(EXPORT gbcompressTargets NAMESPACE gbcompress:: FILE ${CMAKE_BINARY_DIR}/gbcompressTargets.cmake)
  endif()
  foreach(file IN LISTS package_files)
    configure_file(${file} ${CMAKE_BINARY_DIR} COPYONLY)
  endforeach()
  set(GBC_SDK_DATA_DIR ${PROJECT_SOURCE_DIR}/sdk)
  set(GBC_PLUGIN_DIR ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/plugins)
  configure_package_config_file(sdk/cmake/gbcompressConfig.cmake.in ${CMAKE_BINARY_DIR}/gbcompressConfig.cmake
    INSTALL_PREFIX ${CMAKE_BINARY_DIR} INSTALL_DESTINATION . PATH_VARS GBC_SDK_DATA_DIR GBC_PLUGIN_DIR)
endfunction()
gbc_package_of_build_folder()

# For builds without CMake. The prefix follows from where the file lies, so that it may be moved.
file(RELATIVE_PATH prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pc "${prefix_from_pc}")
configure_file(sdk/cmake/gbcompress-portable.pc.in ${CMAKE_BINARY_DIR}/gbcompress-portable.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/gbcompress-portable.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT sdk)
