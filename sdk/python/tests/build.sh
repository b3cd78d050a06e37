#!/bin/sh
# build.sh PYTHON FOLDER: the wheel into FOLDER/wheels, and installed into FOLDER/site.
set -eu
python=$1 folder=$2
cd "$(dirname "$0")/.."
if ! "$python" -c 'import nanobind, scikit_build_core' 2>/dev/null; then
  echo "skipped: $python lacks nanobind or scikit-build-core; run scripts/setup"
  exit 77
fi
# The name that scripts/wheel calls it by: ccache tells compilers apart by their names.
export CXX="${CXX:-c++}"
rm -rf "$folder/wheels"
"$python" -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps \
  -C build-dir="$folder/build" -w "$folder/wheels" .
rm -rf "$folder/site"
"$python" -m pip install -q --disable-pip-version-check --no-deps --no-index --target "$folder/site" \
  "$folder"/wheels/gbcompress-*.whl
ls -l "$folder/wheels"
