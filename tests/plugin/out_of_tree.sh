#!/usr/bin/env bash
# What a stranger does: installs gbcompress, builds a plugin project that sees nothing but the
# installed SDK, tests it, loads it.   out_of_tree.sh BUILD_DIR SOURCE_DIR CMAKE COMPILER
set -euo pipefail
build=$1 source=$2 cmake=$3 compiler=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset GBCOMPRESS_PLUGIN_PATH GBCOMPRESS_TORCH Torch_DIR
export XDG_DATA_HOME=$work/data CMAKE_GENERATOR=Ninja
export OMP_NUM_THREADS=1  # threads that wait for each other would wait for the other tests too
prefix=$work/prefix

"$cmake" --install "$build" --prefix "$prefix" > "$work/install.log" || { cat "$work/install.log"; exit 1; }

# A copy, so that nothing beside the project can be reached by a relative path.
build_project() {  # NAME
  "$cmake" -S "$work/$1" -B "$work/$1/build" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$compiler" > "$work/configure.log" 2>&1 ||
    { cat "$work/configure.log"; exit 1; }
  # LibTorch may lie in .deps; nothing else of that folder may be seen.
  if grep -F "$source/" "$work/$1/build/CMakeCache.txt" | grep -vF "$source/.deps/"; then
    echo "the project refers to gbcompress's source folder"; exit 1
  fi
  "$cmake" --build "$work/$1/build"
  ctest --test-dir "$work/$1/build" --output-on-failure
}

cp -r "$source/samples/04_plugin_out_of_tree" "$work/circulant"
build_project circulant
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

# A new plugin, as the command line begins one: the commands of its README, the last of which compresses with it.
gbcompress=$prefix/bin/gbcompress
"$gbcompress" plugins new tilted_layer -o "$work/tilted_layer"
sed -n "s|PREFIX|$prefix|; s/^    //p" "$work/tilted_layer/README.md" > "$work/steps"
tail -n 1 "$work/steps" | grep -q '^gbcompress compress .* --plugin build/tilted_layer.so ' ||
  { echo "the README of a new plugin does not end with compressing"; cat "$work/steps"; exit 1; }
(cd "$work/tilted_layer" && PATH=$prefix/bin:$PATH CXX=$compiler bash -euxo pipefail "$work/steps") > "$work/steps.log" 2>&1 ||
  { cat "$work/steps.log"; echo "a command of a new plugin's README failed"; exit 1; }
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

# The way of the sample's README: train, expand, compress, and what happens without the plugin.
plugin=$work/circulant/build/circulant.so
"$gbcompress" plugins verify "$plugin"
"$work/circulant/build/train_circulant" "$plugin" "$work/trained.gbz" | tee "$work/trained.txt"
trained=$(sed -n 's/.*bytes, \([0-9.]*\) %.*/\1/p' "$work/trained.txt")
"$gbcompress" expand "$work/trained.gbz" -o "$work/model.safetensors" --plugin "$plugin"
"$gbcompress" compress "$work/model.safetensors" --arch circulant-net --data digits --mode generated --ratio 6 \
  -o "$work/small.gbz" --plugin "$plugin" --json > "$work/report.json"
field() { sed -n "s/^ *\"$1\": \([0-9.]*\),\{0,1\}$/\1/p" "$work/report.json" | head -n 1; }
before=$(field before) after=$(field after) ratio=$(field ratio)
echo "trained $trained %, expanded $before %, compressed $ratio x: $after %"
# What was expanded is what was trained; what was compressed is small and still reads digits.
awk -v t="$trained" -v b="$before" -v a="$after" -v r="$ratio" \
  'BEGIN { exit !(t >= 75 && b - t < 0.5 && t - b < 0.5 && r >= 6 && a >= 75) }' ||
  { cat "$work/report.json"; exit 1; }
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
