# Compiles through ccache where it is installed. GCC's precompiled headers need the two sloppiness
# words, and hash_dir off lets clones in different folders share results.
find_program(GBC_CCACHE ccache)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH gbc_repository)
if(GBC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_NOHASHDIR=1 CCACHE_BASEDIR=${gbc_repository} ${GBC_CCACHE})
endif()
