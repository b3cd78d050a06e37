#!/usr/bin/env bash
# What a plugin's author does: installs gbcompress, builds plugin projects that see nothing but the
# installed SDK, tests them, loads them; all commands of the guide, the template and the sample as they
# are printed.   out_of_tree.sh BUILD_DIR SOURCE_DIR CMAKE COMPILER
set -euo pipefail
build=$1 source=$2 cmake=$3 compiler=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset GBCOMPRESS_PLUGIN_PATH GBCOMPRESS_TORCH Torch_DIR
export XDG_DATA_HOME=$work/data CMAKE_GENERATOR=Ninja
export OMP_NUM_THREADS=1  # threads that wait for each other would wait for the other tests too
export HOME=$work/home CXX=$compiler
prefix=$HOME/gbcompress
export PATH=$prefix/bin:$(dirname "$cmake"):$PATH
if command -v ccache > /dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi  # the same suite for each project

# The blocks of a page that are commands, in one shell and in FOLDER; a block of C++ takes the place of CODE.
# What they print is in $work/steps.log.
follow() {  # PAGE FOLDER [CODE]
  awk -v code="${3:-}" '
    /^```$/ { if (inside == "cpp") print "END_OF_CODE"; inside = "" }
    inside != "" { print }
    /^```sh$/ { inside = "sh" }
    /^```cpp$/ && code != "" { inside = "cpp"; print "cat > " code " <<\"END_OF_CODE\"" }' "$1" > "$work/steps"
  (cd "$2" && bash -euxo pipefail "$work/steps") > "$work/steps.log" 2>&1 ||
    { cat "$work/steps.log"; echo "a command of $1 failed"; exit 1; }
}
# The last column of a row of the Nth table that the commands of a page printed.
cell() {  # ROW N
  grep "^$1  " "$work/steps.log" | sed -n "$2s/ %\$//; $2s/.* //p"
}
holds() {  # CONDITION MESSAGE
  awk "BEGIN { exit !($1) }" || { cat "$work/steps.log"; echo "$2: $1"; exit 1; }
}

# The guide, in a folder with nothing but the build.
mkdir -p "$work/guide/build" "$HOME"
ln -s "$build" "$work/guide/build/release"
follow "$source/docs/guides/plugin-guide.md" "$work/guide" mirror/mirror.cpp
for file in bin/gbcompress share/man/man1/gbcompress.1 lib/cmake/gbcompress/gbcompressConfig.cmake; do
  [[ -e $prefix/$file ]] || { cat "$work/steps.log"; echo "$file was not installed"; exit 1; }
done
holds "$(cell ratio 1) >= 8 && $(cell 'test accuracy' 1) >= 94" "the template's first file"
holds "$(cell ratio 2) >= 8 && $(cell 'test accuracy' 2) >= 90" "the guide's example"
"$prefix/bin/gbcompress" inspect "$work/guide/halves.gbz" | grep -q "0.weight .* mirror " ||
  { cat "$work/steps.log"; echo "the guide's example generates nothing"; exit 1; }
# As good as the layer type that ships with the program, which plans the same.
cp "$work/steps.log" "$work/guide.log"
"$prefix/bin/gbcompress" compress --from-scratch --arch mlp:64-128-64-10 --data digits --mode generated --ratio 8 --epochs 60 \
  -o "$work/linear.gbz" > "$work/steps.log"
linear=$(cell 'test accuracy' 1)
mv "$work/guide.log" "$work/steps.log"
holds "$(cell 'test accuracy' 1) >= $linear - 2" "the template beside the built-in type"

# The build folder is a package as well.
"$cmake" -S "$work/guide/mirror" -B "$work/in_tree" -DCMAKE_PREFIX_PATH="$build" > "$work/in_tree.log" 2>&1 &&
  "$cmake" --build "$work/in_tree" --target mirror >> "$work/in_tree.log" 2>&1 &&
  "$build/bin/gbcompress" plugins verify "$work/in_tree/mirror.so" >> "$work/in_tree.log" 2>&1 &&
  grep -q "^gbcompress_DIR:PATH=$build$" "$work/in_tree/CMakeCache.txt" ||
  { cat "$work/in_tree.log"; echo "a plugin could not be built against the build folder"; exit 1; }

# A copy, so that nothing beside the project can be reached by a relative path.
build_project() {  # NAME
  "$cmake" -S "$work/$1" -B "$work/$1/build" -DCMAKE_BUILD_TYPE=Release > "$work/configure.log" 2>&1 ||
    { cat "$work/configure.log"; exit 1; }
  sees_only_the_prefix "$1"
  "$cmake" --build "$work/$1/build"
  ctest --test-dir "$work/$1/build" --output-on-failure
}
sees_only_the_prefix() {  # NAME
  # LibTorch may lie in .deps; nothing else of that folder may be seen.
  if grep -F "$source/" "$work/$1/build/CMakeCache.txt" | grep -vF "$source/.deps/"; then
    echo "the project refers to gbcompress's source folder"; exit 1
  fi
}

cp -r "$source/samples/04_plugin_out_of_tree" "$work/circulant"
follow "$work/circulant/README.md" "$work/circulant"
cp "$work/steps.log" "$work/circulant.log"
sees_only_the_prefix circulant
symbols=$(nm -D --defined-only "$work/circulant/build/circulant.so" | awk '$2 != "A" {print $3}' | sed 's/@.*//')
[[ $symbols == gbcompress_plugin_v1 ]] || { echo "circulant.so exports more than its entry: $symbols"; exit 1; }

# A LibTorch of another version is refused before anything is compiled.
torch=$(sed -n 's/.*set(GBCOMPRESS_TORCH "\([^"]*\)".*/\1/p' "$prefix"/lib*/cmake/gbcompress/gbcompressConfig.cmake)
mkdir -p "$work/other/include/torch/headeronly" "$work/other/include/torch/csrc"
ln -s "$torch/lib" "$work/other/lib"
ln -s "$torch/include/torch/csrc/api" "$work/other/include/torch/csrc/api"
sed 's/define TORCH_VERSION_MINOR .*/define TORCH_VERSION_MINOR 99/' \
  "$torch/include/torch/headeronly/version.h" > "$work/other/include/torch/headeronly/version.h"
if "$cmake" -S "$work/circulant" -B "$work/refused" -DCMAKE_PREFIX_PATH="$prefix" \
    -DGBCOMPRESS_TORCH="$work/other" > "$work/refused.log" 2>&1 ||
    ! tr -s ' \n' ' ' < "$work/refused.log" | grep -q "the one at $work/other is 2.99"; then
  echo "a LibTorch of another version was not refused"; cat "$work/refused.log"; exit 1
fi

# Without components there are both libraries, and a LibTorch that is named has to fit there too.
mkdir "$work/plain"
cat > "$work/plain/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(plain LANGUAGES CXX)
find_package(gbcompress REQUIRED)
if(NOT TARGET gbcompress::gbcompress OR NOT TARGET gbcompress::portable OR NOT gbcompress_gbcompress_FOUND)
  message(FATAL_ERROR "a target is missing")
endif()
END
plain=("$cmake" -S "$work/plain" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler")
"${plain[@]}" -B "$work/plain/both" > "$work/plain.log" 2>&1 || { cat "$work/plain.log"; exit 1; }
if "${plain[@]}" -B "$work/plain/refused" -DGBCOMPRESS_TORCH="$work/other" > "$work/plain.log" 2>&1; then
  echo "a LibTorch of another version was not refused without components"; cat "$work/plain.log"; exit 1
fi

# A new plugin by the README that lies in it.
gbcompress=$prefix/bin/gbcompress
"$gbcompress" plugins new tilted_layer -o "$work/tilted_layer"
follow "$work/tilted_layer/README.md" "$work/tilted_layer"
holds "$(cell ratio 1) >= 8 && $(cell 'test accuracy' 1) >= 94" "the first file of a new plugin's README"
"$gbcompress" inspect "$work/tilted_layer/digits.gbz" | grep -q tilted_layer ||
  { cat "$work/steps.log"; echo "digits.gbz was made without the plugin"; exit 1; }

# A strategy from outside trains a new model through g-nets; without its plugin it is named.
cp -r "$source/tests/plugin/direct_feedback" "$work/direct_feedback"
build_project direct_feedback
strategy=$work/direct_feedback/build/direct_feedback.so
"$gbcompress" plugins verify "$strategy" | grep -q "strategies *direct_feedback" ||
  { echo "verify does not name the strategy"; exit 1; }
train=(compress --from-scratch --arch mlp:64-48-10 --data digits --mode quantized --epochs 20
       --strategy direct_feedback --set rate.lambda=0.1)
"$gbcompress" "${train[@]}" --plugin "$strategy" -o "$work/feedback.gbz" --json > "$work/report.json"
after=$(sed -n 's/^ *"after": \([0-9.]*\),\{0,1\}$/\1/p' "$work/report.json" | head -n 1)
awk -v a="$after" 'BEGIN { exit !(a >= 80) }' ||
  { echo "direct feedback reads $after % of the digits"; cat "$work/report.json"; exit 1; }
status=0
"$gbcompress" "${train[@]}" -o "$work/none.gbz" 2> "$work/message" || status=$?
if [[ $status != 5 ]] || ! grep -q "no strategy named direct_feedback.*plugin may be missing" "$work/message"; then
  echo "a strategy without its plugin: status $status"; cat "$work/message"; exit 1
fi

# What the commands of the sample's README made, and what happens without the plugin.
plugin=$work/circulant/build/circulant.so
cp "$work/circulant.log" "$work/steps.log"
trained=$(sed -n 's/.*bytes, \([0-9.]*\) %.*/\1/p' "$work/steps.log")
before=$(sed -n 's/^test accuracy *\([0-9.]*\) .*/\1/p' "$work/steps.log")
# What was expanded is what was trained; what was compressed is small and still reads digits.
holds "$trained >= 75 && $before - $trained < 0.5 && $trained - $before < 0.5" "the trained network and the expanded one"
holds "$(cell ratio 1) >= 6 && $(cell 'test accuracy' 1) >= 75" "the network compressed again"
ln -s "$work/circulant/small.gbz" "$work/small.gbz"
"$gbcompress" inspect "$work/small.gbz" | grep -q circulant ||
  { echo "inspect does not name the layer type"; exit 1; }
status=0
"$gbcompress" expand "$work/small.gbz" -o "$work/none.safetensors" 2> "$work/message" || status=$?
if [[ $status != 5 ]] || ! grep -q circulant "$work/message" || [[ -e $work/none.safetensors ]]; then
  echo "without the plugin: status $status"; cat "$work/message"; exit 1
fi

# Installed, both lie where the command line of that prefix looks for them.
for project in circulant tilted_layer; do
  "$cmake" --install "$work/$project/build" --prefix "$prefix" > /dev/null
done
(cd / && "$gbcompress" plugins list) > "$work/list"
for name in al attention conv dtp embedding linear nets recurrent circulant tilted_layer; do
  grep -q "^$name " "$work/list" || { echo "$name is not found:"; cat "$work/list"; exit 1; }
done
"$gbcompress" expand "$work/small.gbz" -o "$work/some.safetensors"
