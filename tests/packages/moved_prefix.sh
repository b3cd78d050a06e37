#!/usr/bin/env bash
# An installation works wherever its folder is: moved_prefix.sh BUILD_DIR SOURCE_DIR CMAKE
set -euo pipefail
build=$1 source=$2 cmake=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset GBCOMPRESS_PLUGIN_PATH GBCOMPRESS_TORCH LD_LIBRARY_PATH
export XDG_DATA_HOME=$work/data OMP_NUM_THREADS=1
die() { echo "$*"; exit 1; }

"$cmake" --install "$build" --component runtime --prefix "$work/first" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
if grep -rlaF "$work/first" "$work/first"; then die "these files name the prefix they were installed into"; fi
mkdir "$work/elsewhere"
mv "$work/first" "$work/elsewhere/a folder"
gbcompress="$work/elsewhere/a folder/bin/gbcompress"
model=$source/samples/digits/mlp-64-128-64-10.safetensors

# What runs is what was moved, not the build tree's.
libraries=$(LD_TRACE_LOADED_OBJECTS=1 "$gbcompress")
grep -q "=> $work/elsewhere/a folder/.*libgbcompress_portable" <<<"$libraries" || die "another library is loaded: $libraries"
"$gbcompress" compress "$model" --ratio 8 -q -o "$work/light.gbz" >/dev/null
"$gbcompress" doctor | tee "$work/doctor.txt" | grep -qF "a folder/lib" || { cat "$work/doctor.txt"; die "doctor does not name the moved plugins"; }
"$gbcompress" compress --from-scratch --arch mlp:64-16-10 --data digits --mode generated --max-bytes 2k --epochs 1 -q \
  -o "$work/trained.gbz" >/dev/null || [[ $? == 4 ]]
"$gbcompress" eval "$work/trained.gbz" --data digits >/dev/null

# LibTorch may move too; another version is one sentence, and what needs none goes on.
torch=$(sed -n 's/.*libtorch_cpu.so => \(.*\)\/lib\/libtorch_cpu.so .*/\1/p' <<<"$(ldd "$work/elsewhere/a folder/lib"*/libgbcompress.so.*.*)" | head -n 1)
ln -s "$torch" "$work/torch"
GBCOMPRESS_TORCH=$work/torch "$gbcompress" eval "$work/trained.gbz" --data digits >/dev/null
mkdir "$work/other"
refused() {  # TEXT
  local said status=0
  said=$(GBCOMPRESS_TORCH=$work/other "$gbcompress" eval "$work/trained.gbz" --data digits 2>&1) || status=$?
  [[ $status == 1 && $(wc -l <<<"$said") == 1 && $said == *"$1"* ]] || die "not refused with \"$1\", but with status $status: $said"
  GBCOMPRESS_TORCH=$work/other "$gbcompress" expand "$work/light.gbz" --force -q -o "$work/back.safetensors" >/dev/null
}
refused "has neither version.py nor build-version"
echo "2.10.0+cpu" >"$work/other/build-version"
refused 'is 2.10.0; `pip install'
echo "__version__ = '2.12.0+cu130'" >"$work/other/version.py"
refused 'is 2.12.0; `pip install'
echo "__version__ = '2.11.0'" >"$work/other/version.py"
refused "cannot be loaded"
