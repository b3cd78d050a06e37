# What a plugin project calls. The built-in plugins use the same two functions.

# Ends the configuration where gbcompress::gbcompress is not there.
function(gbc_require_libtorch function)
  if(NOT TARGET gbcompress::gbcompress)
    get_property(problem GLOBAL PROPERTY GBCOMPRESS_LIBTORCH_PROBLEM)
    if(NOT problem)
      set(problem "Ask for it: find_package(gbcompress REQUIRED COMPONENTS gbcompress).")
    endif()
    message(FATAL_ERROR "${function} needs gbcompress::gbcompress. ${problem}")
  endif()
endfunction()

# gbcompress_add_plugin(NAME row SOURCES row.cpp ... [LIBRARIES ...])
#
# Builds row.so, target `row`. Only the entry function is visible in it, every symbol must be found
# when it is linked and again when it is loaded, and it is never unloaded. Beside it lies its manifest,
# row.so.sha256: the program refuses the library where its bytes are others.
function(gbcompress_add_plugin)
  gbc_require_libtorch(gbcompress_add_plugin)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;LIBRARIES")
  if(NOT arg_NAME MATCHES "^[a-z][a-z0-9_]*$")
    message(FATAL_ERROR "gbcompress_add_plugin: NAME \"${arg_NAME}\" must be of [a-z0-9_] and begin with a letter.")
  endif()
  if(NOT arg_SOURCES)
    message(FATAL_ERROR "gbcompress_add_plugin: plugin ${arg_NAME} has no SOURCES.")
  endif()
  set(map ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin.map)
  add_library(${arg_NAME} MODULE ${arg_SOURCES})
  target_compile_features(${arg_NAME} PRIVATE cxx_std_20)
  target_link_libraries(${arg_NAME} PRIVATE gbcompress::gbcompress ${arg_LIBRARIES})
  target_link_options(${arg_NAME} PRIVATE
    "LINKER:--version-script=${map}" "LINKER:-z,now" "LINKER:-z,nodelete")
  if(NOT GBC_SANITIZE AND NOT "${CMAKE_CXX_FLAGS}" MATCHES "-fsanitize")
    # A sanitizer's own symbols are found only when the program is linked.
    target_link_options(${arg_NAME} PRIVATE "LINKER:-z,defs")
  endif()
  set_target_properties(${arg_NAME} PROPERTIES
    PREFIX "" OUTPUT_NAME ${arg_NAME} SUFFIX ".so" LINK_DEPENDS ${map}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON CXX_EXTENSIONS OFF)
  add_custom_command(TARGET ${arg_NAME} POST_BUILD VERBATIM
    COMMAND ${CMAKE_COMMAND} -DFILE=$<TARGET_FILE:${arg_NAME}> -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin_digest.cmake)
endfunction()

# gbcompress_install_plugin(NAME row [DESTINATION folder] [COMPONENT name] [OPTIONAL])
#
# Installs row.so and its manifest, which is of the installed bytes: installing changes where a library
# looks for others, and may strip it. The folder is where the program looks unless it is given. OPTIONAL: a
# plugin that was not built is named and stays out.
function(gbcompress_install_plugin)
  cmake_parse_arguments(PARSE_ARGV 0 arg "OPTIONAL" "NAME;DESTINATION;COMPONENT" "")
  if(NOT arg_DESTINATION)
    set(arg_DESTINATION ${gbcompress_PLUGIN_DIR})
  endif()
  set(component)
  if(arg_COMPONENT)
    set(component COMPONENT ${arg_COMPONENT})
  endif()
  set(optional)
  if(arg_OPTIONAL)
    set(optional OPTIONAL)
  endif()
  install(TARGETS ${arg_NAME} LIBRARY DESTINATION ${arg_DESTINATION} ${component} ${optional})
  if(NOT IS_ABSOLUTE "${arg_DESTINATION}")
    string(PREPEND arg_DESTINATION "\${CMAKE_INSTALL_PREFIX}/")
  endif()
  install(CODE "if(EXISTS \"$<TARGET_FILE:${arg_NAME}>\")
  set(FILE \"\$ENV{DESTDIR}${arg_DESTINATION}/${arg_NAME}.so\")
  include(\"${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin_digest.cmake\")
else()
  message(STATUS \"The plugin ${arg_NAME} was not built and is not installed; the target ${arg_NAME} builds it\")
endif()" ${component})
endfunction()

# gbcompress_add_contract_test(NAME row_contract PLUGIN row
#                              [PARAMETERS Row.weight:64x48 ...] [ARGUMENTS ...])
#
# A test program that loads the plugin as the host does and checks the promises of registry.h for
# each layer type that it registers, and those of strategy.h for each strategy. PARAMETERS are module type, local name and shape of what else
# the types are offered, for types that take none of the usual names and shapes.
function(gbcompress_add_contract_test)
  gbc_require_libtorch(gbcompress_add_contract_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;PLUGIN" "PARAMETERS;ARGUMENTS")
  if(NOT TARGET GTest::gtest)
    find_package(GTest QUIET)
    if(NOT GTest_FOUND)
      message(FATAL_ERROR "The contract tests need GoogleTest; install it with `apt-get install libgtest-dev`.")
    endif()
  endif()
  if(NOT TARGET gbcompress_contract)
    get_property(folder GLOBAL PROPERTY GBCOMPRESS_CONTRACT_DIR)
    add_executable(gbcompress_contract ${folder}/contract_main.cpp ${folder}/contract_cases.cpp
                   ${folder}/gnet_type_contract.cpp ${folder}/strategy_contract.cpp)
    target_link_libraries(gbcompress_contract PRIVATE gbcompress::gbcompress GTest::gtest)
  endif()
  list(TRANSFORM arg_PARAMETERS PREPEND "--parameter=" OUTPUT_VARIABLE parameters)
  add_test(NAME ${arg_NAME}
           COMMAND gbcompress_contract $<TARGET_FILE:${arg_PLUGIN}> ${parameters} ${arg_ARGUMENTS})
  set_tests_properties(${arg_NAME} PROPERTIES TIMEOUT 300)
endfunction()
