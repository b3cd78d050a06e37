# Plants violations of the ladder in a small tree, and sees each of them found.
#   cmake -DCHECKER=check_ladder.cmake -DTREE=DIR -P ladder_test.cmake    DIR is made anew
set(rungs one two three four five six seven eight nine ten)

function(make_tree)
  file(REMOVE_RECURSE ${TREE})
  set(page "| rung | holds | LibTorch |\n|---|---|---|\n")
  foreach(rung IN LISTS rungs)
    string(APPEND page "| `${rung}` | some things | no |\n")
    file(WRITE ${TREE}/core/src/${rung}/own.h "#pragma once\n#include <vector>\n#include <sys/stat.h>\n")
  endforeach()
  string(APPEND page "\n| rung | its headers |\n|---|---|\n| `two` | `low.h`, `low_2.h` |\n| `nine` | `high.h` |\n")
  file(WRITE ${TREE}/docs/explanation/architecture.md "${page}")
  file(WRITE ${TREE}/core/include/gbcompress/low.h "#include \"gbcompress/low_2.h\"\n")
  file(WRITE ${TREE}/core/include/gbcompress/low_2.h "#pragma once\n")
  file(WRITE ${TREE}/core/include/gbcompress/high.h "#include <gbcompress/low.h>\n")
  file(WRITE ${TREE}/core/src/nine/all.cpp "#include \"one/own.h\"\n#include \"nine/own.h\"\n#include \"gbcompress/low.h\"\n")
endfunction()

# `sentences`: what the checker must say; none: the tree is good.
function(expect what)
  execute_process(COMMAND ${CMAKE_COMMAND} -DROOT=${TREE} -P ${CHECKER}
                  RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT ARGN AND NOT status EQUAL 0)
    message(SEND_ERROR "${what}: a good tree is refused:\n${out}")
  elseif(ARGN AND status EQUAL 0)
    message(SEND_ERROR "${what}: not found")
  endif()
  foreach(sentence IN LISTS ARGN)
    string(FIND "${out}" "${sentence}" place)
    if(place LESS 0)
      message(SEND_ERROR "${what}: \"${sentence}\" is not said, but:\n${out}")
    endif()
  endforeach()
endfunction()

make_tree()
expect("as it should be")

# A file of rung `three`, with its only line.
foreach(plant
    "a.h|#include \"four/own.h\""
    "a.cpp|#include \"ten/own.h\""
    "a.cu|#include \"four/own.h\""
    "a.cuh|#include \"four/own.h\""
    "deep/a.cpp|#include \"four/own.h\""
    "a.cpp|#include <four/own.h>"
    "a.cpp|  #include \"four/own.h\""
    "a.cpp|#  include \"four/own.h\""
    "a.cpp|\t#\tinclude\t<four/own.h>"
    "a.cpp|#include\"four/own.h\""
    "a.cpp|#include \"gbcompress/high.h\""
    "a.cu|#include <gbcompress/high.h>")
  string(REPLACE "|" ";" parts "${plant}")
  list(GET parts 0 name)
  list(GET parts 1 line)
  make_tree()
  file(WRITE ${TREE}/core/src/three/${name} "#pragma once\n${line}\n")
  expect("${name}: ${line}" "core/src/three/${name}: " "reaches upward")
endforeach()

# Files beside the core.
foreach(folder cli plugins/linear samples/01 sdk/contract)
  make_tree()
  file(WRITE ${TREE}/${folder}/a.cpp "#include \"gbcompress/high.h\"\n#include \"own/part.h\"\n#include <sys/stat.h>\n")
  expect("${folder}: a public header")
  foreach(line "#include \"one/own.h\"" "#  include <one/own.h>")
    make_tree()
    file(WRITE ${TREE}/${folder}/a.cpp "${line}\n")
    expect("${folder}: ${line}" "${folder}/a.cpp: " "a private header of the core")
  endforeach()
  make_tree()
  file(WRITE ${TREE}/${folder}/a.h "#include \"../core/src/one/own.h\"\n")
  expect("${folder}: a relative path" "${folder}/a.h: " "leads into the core")
  make_tree()
  file(WRITE ${TREE}/${folder}/a.h "#include \"gbcompress/unknown.h\"\n")
  expect("${folder}: a public header that is none" "${folder}/a.h: " "is in no row of the table")
endforeach()

make_tree()
file(WRITE ${TREE}/core/src/three/a.cpp "#include \"../four/own.h\"\n")
expect("a relative path" "core/src/three/a.cpp: " "write the path from core/src")

make_tree()
file(WRITE ${TREE}/core/src/three/a.cpp "#include \"fuor/own.h\"\n")
expect("a folder that is none" "core/src/three/a.cpp: " "is of no rung")

make_tree()
file(WRITE ${TREE}/core/src/eleven/a.cpp "\n")
expect("a folder without a row" "core/src/eleven is no rung of the table")

make_tree()
file(WRITE ${TREE}/core/src/three/a.cpp "#include \"gbcompress/unknown.h\"\n")
expect("a public header that is none" "core/src/three/a.cpp: " "is in no row of the table of public headers")

make_tree()
file(WRITE ${TREE}/core/include/gbcompress/new.h "#pragma once\n")
expect("a public header without a row" "core/include/gbcompress/new.h is in no row of the table")

make_tree()
file(REMOVE ${TREE}/core/include/gbcompress/low_2.h)
expect("a row without its header" "there is no public header low_2.h")

make_tree()
file(APPEND ${TREE}/docs/explanation/architecture.md "| `ten` | `low.h` |\n")
expect("a header in two rows" "low.h is in the table of public headers twice")

make_tree()
file(WRITE ${TREE}/core/include/gbcompress/low.h "#include \"gbcompress/high.h\"\n")
expect("a public header that includes a higher one" "core/include/gbcompress/low.h: " "reaches upward")

make_tree()
file(WRITE ${TREE}/core/include/gbcompress/high.h "#include \"one/own.h\"\n")
expect("a public header that includes a private one" "core/include/gbcompress/high.h: "
       "a public header includes a private one")

make_tree()
file(WRITE ${TREE}/docs/explanation/architecture.md "nothing\n")
expect("no tables" "the table of rungs was not found")
