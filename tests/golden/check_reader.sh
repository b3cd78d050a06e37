#!/bin/sh
# check_reader.sh PYTHON WRITE_GOLDEN GOLDEN_FOLDER: the NumPy reader against the C++ decoder.
set -eu
python=$1 write_golden=$2 golden=$3
if ! "$python" -c 'import numpy' 2>/dev/null; then
  echo "skipped: $python has no numpy; install it with: apt-get install python3-numpy"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$write_golden" samples "$folder"

for file in "$folder"/*.gbz; do
  "$python" "$golden/gbz_reader.py" "$file" --compare "${file%.gbz}.safetensors"
done
# Whatever the fuzzers made and the decoder accepts.
mkdir "$folder/fuzz"
cp "$golden"/../fuzz/corpus/gbz/* "$folder/fuzz"
if [ -d "${GBC_FUZZ_FOUND:-}" ]; then  # what a campaign found: build/fuzz/corpus/gbz
  cp -r "$GBC_FUZZ_FOUND"/. "$folder/fuzz"
fi
"$write_golden" accepted "$folder/fuzz"
accepted=0
for expanded in "$folder"/fuzz/*.safetensors; do
  [ -e "$expanded" ] || continue
  "$python" "$golden/gbz_reader.py" "${expanded%.safetensors}" --compare "$expanded" >/dev/null
  accepted=$((accepted + 1))
done
echo "$accepted files of fuzzers are accepted and agree"

for file in "$golden"/v2/*.gbz; do
  "$python" "$golden/gbz_reader.py" "$file" "$folder/out.npz" --digests "$golden/v2/digests.json"
done

"$python" "$golden/gbz_reader.py" "$golden/deltas/delta.gbz" --base "$golden/deltas/base.safetensors" \
  --compare "$golden/deltas/now.safetensors"
"$python" "$golden/gbz_reader.py" "$golden/deltas/pieces.gbz" --base "$golden/deltas/pieces-second.safetensors" \
  --base "$golden/deltas/pieces-first.safetensors" --compare "$golden/deltas/pieces-now.safetensors"

"$python" "$golden/gbz_reader.py" "$golden/deltas/layers.gbz" --compare "$golden/deltas/now.safetensors"

# The comparison can fail: another file's tensors, and a flipped bit.
if "$python" "$golden/gbz_reader.py" "$folder/sample-0.gbz" --compare "$folder/sample-1.safetensors"; then
  echo "two different files were called equal"
  exit 1
fi
"$python" - "$folder/sample-0.safetensors" <<'PYTHON'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(-1, 2)
    last = file.read(1)[0]
    file.seek(-1, 2)
    file.write(bytes([last ^ 1]))
PYTHON
if "$python" "$golden/gbz_reader.py" "$folder/sample-0.gbz" --compare "$folder/sample-0.safetensors"; then
  echo "a flipped bit went unnoticed"
  exit 1
fi
for file in cut_short flipped_bit_in_section version_newer stream_cut stream_with_a_byte_more stream_beyond_the_alphabet; do
  if "$python" "$golden/gbz_reader.py" "$golden/errors/$file.gbz" "$folder/out.npz" 2>/dev/null; then
    echo "$file.gbz was accepted"
    exit 1
  fi
done
echo "all files agree"
