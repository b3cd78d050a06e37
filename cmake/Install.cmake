# What `cmake --install` puts into a prefix: both libraries and the plugins (component runtime), and
# what a plugin project needs (component sdk). The command line installs itself.
if(GBCOMPRESS_PORTABLE_ONLY)
  install(TARGETS gbc_portable LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
          NAMELINK_COMPONENT sdk)
  return()
endif()
include(CMakePackageConfigHelpers)
set(GBC_SDK_DATA_DIR ${CMAKE_INSTALL_DATADIR}/gbcompress)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gbcompress)

if(GBCOMPRESS_WHEEL)  # Debian has Highway as a shared library only, and Boost's archive serves programs alone
  get_target_property(highway gbc_highway INTERFACE_LINK_LIBRARIES)
  file(REAL_PATH ${highway} highway)
  install(FILES ${highway} DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME libhwy.so.1 COMPONENT runtime)
  install(FILES $<TARGET_FILE:Boost::program_options> DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
endif()
install(TARGETS gbc_portable gbcompress EXPORT gbcompressTargets
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT sdk)
install(EXPORT gbcompressTargets NAMESPACE gbcompress:: DESTINATION ${package_dir} COMPONENT sdk)
install(DIRECTORY core/include/gbcompress sdk/include/gbcompress
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT sdk FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(DIRECTORY sdk/contract sdk/template DESTINATION ${GBC_SDK_DATA_DIR} COMPONENT sdk)

configure_package_config_file(sdk/cmake/gbcompressConfig.cmake.in
  ${CMAKE_BINARY_DIR}/gbcompressConfig.cmake INSTALL_DESTINATION ${package_dir}
  PATH_VARS GBC_SDK_DATA_DIR GBC_PLUGIN_DIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gbcompressConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/gbcompressConfig.cmake
              ${CMAKE_BINARY_DIR}/gbcompressConfigVersion.cmake
              cmake/FindLibTorch.cmake sdk/cmake/GbcompressPlugin.cmake sdk/cmake/plugin.map
              sdk/cmake/plugin_digest.cmake
        DESTINATION ${package_dir} COMPONENT sdk)
