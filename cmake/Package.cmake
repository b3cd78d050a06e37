# A Debian package of the command and the library: `cpack -G DEB` in a build folder of -DGBCOMPRESS_PORTABLE_ONLY=ON, so that it
# depends on Debian's libraries alone. LibTorch is not in Debian at the version that training needs.
if(NOT GBCOMPRESS_PORTABLE_ONLY)
  return()
endif()
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME gbcompress)
set(CPACK_PACKAGE_CONTACT "gbcompress maintainers <maintainers@users.noreply.a-seed-09666549.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compresses neural networks")
set(CPACK_PACKAGE_DESCRIPTION "Compresses the weights of neural networks to small files,
expands them bit for bit, compares models, and shows what a file lost.
This package has all that needs no LibTorch: the command, and the C++ library with
headers, CMake files and pkg-config.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime sdk)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# Beside the library, for programs that link with it and for ldconfig.
set(documents ${CMAKE_CURRENT_BINARY_DIR}/debian)
file(WRITE ${documents}/shlibs "libgbcompress_portable ${PROJECT_VERSION_MAJOR} gbcompress (>= ${PROJECT_VERSION})\n")
file(WRITE ${documents}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${documents}/shlibs ${documents}/triggers)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
include(CPack)

# What Debian's policy asks of every package: a copyright file that names the licence, a changelog, and
# compressed manual pages.
file(WRITE ${documents}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: gbcompress

Files: *
Copyright: 2026 the gbcompress authors
License: Apache-2.0
 On Debian systems the licence is in /usr/share/common-licenses/Apache-2.0.
")
string(TIMESTAMP today "%a, %d %b %Y %H:%M:%S +0000" UTC)  # of SOURCE_DATE_EPOCH, where it is set
file(WRITE ${documents}/changelog "gbcompress (${PROJECT_VERSION}) unstable; urgency=medium

  * Built from the sources of ${PROJECT_VERSION}; their CHANGELOG.md says what changed.

 -- ${CPACK_PACKAGE_CONTACT}  ${today}
")
execute_process(COMMAND gzip -9nf ${documents}/changelog COMMAND_ERROR_IS_FATAL ANY)
install(FILES ${documents}/copyright ${documents}/changelog.gz
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/gbcompress COMPONENT runtime)
install(CODE "file(GLOB pages \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1/gbcompress*.1\")
execute_process(COMMAND gzip -9nf \${pages} COMMAND_ERROR_IS_FATAL ANY)" COMPONENT runtime)
