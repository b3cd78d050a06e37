# Reading LibTorch's headers and making what they ask for takes most of a file's time, so the files of
# one rung of the core, or of one other folder, are compiled together, a few at once: a quarter of the
# processor time of one by one. Names in their anonymous namespaces are therefore distinct within it.
option(GBCOMPRESS_UNITY "Compile the files of a folder together; off: each alone, as linters need it" ON)
set(GBC_UNITY_FILES 8)  # more would leave one core without work, and cost more when one file changes

# gbc_unite(TARGET...): to be called when they have all their sources.
function(gbc_unite)
  if(NOT GBCOMPRESS_UNITY)
    return()
  endif()
  foreach(target IN LISTS ARGN)
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} OUTPUT_VARIABLE path)
      set(several "")
      if(EXISTS ${path})
        # Files that include themselves once a processor level.
        file(STRINGS ${path} several REGEX "hwy/foreach_target.h" LIMIT_COUNT 1)
      endif()
      if(several)
        set_source_files_properties(${path} TARGET_DIRECTORY ${target} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
        continue()
      endif()
      string(REGEX REPLACE ".*/core/src/([^/]*)/.*" "\\1" name ${path})
      if(name STREQUAL path)
        cmake_path(GET path PARENT_PATH name)
        cmake_path(GET name FILENAME name)
      endif()
      math(EXPR count_${target}_${name} "0${count_${target}_${name}} + 1")
      math(EXPR part "(${count_${target}_${name}} - 1) / ${GBC_UNITY_FILES}")
      set_source_files_properties(${path} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${name}_${part})
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  endforeach()
endfunction()
