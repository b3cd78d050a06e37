#!/usr/bin/env bash
# Installs a package where nothing else is, as its users do, and times the way to a first compressed file.
#   bare_root.sh FOLDER SUITE [MIRROR] -- WHEEL|DEB...     as root, with debootstrap
#   bare_root.sh FOLDER - -- WHEEL...                      in a root that is there: FOLDER has a python3
# SUITE: bookworm, trixie, noble, ... FOLDER is made where it does not exist: Debian's or Ubuntu's
# smallest system with python3 and python3-venv, without compiler. Its apt and pip see the network as
# this machine's do. Prints seconds; ends with 1 where something does not do what docs/guides/install.md says.
set -euo pipefail
(($# >= 4)) || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
folder=$1 suite=$2 mirror=
shift 2
[[ $1 == -- ]] || { mirror=$1; shift; }
[[ $1 == -- ]] || { echo "bare_root: -- is missing before the packages" >&2; exit 2; }
shift
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
model=samples/digits/mlp-64-128-64-10.safetensors

die() { printf 'bare_root: %s\n' "$*" >&2; exit 1; }
inside() { chroot "$folder" /usr/bin/env -i PATH=/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root LC_ALL=C.UTF-8 "$@"; }
[[ $(id -u) == 0 ]] || die "run it as root: it makes a root folder and works in it"
if [[ $suite != - && ! -d $folder ]]; then
  # An Ubuntu that is newer than this machine's debootstrap is made as all since 7.10 are.
  script=
  [[ -z $mirror || -e /usr/share/debootstrap/scripts/$suite ]] || script=gutsy
  debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv ${mirror:+--components=main,universe --no-check-gpg} \
    "$suite" "$folder" $mirror $script >"$folder.log" 2>&1 || die "debootstrap failed: see $folder.log"
fi
# The network, as here.
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
  if [[ -e $file ]]; then cp -L "$file" "$folder$file"; fi
done
mkdir -p "$folder/dev"
[[ -e $folder/dev/null ]] || mknod -m 666 "$folder/dev/null" c 1 3
[[ -e $folder/dev/urandom ]] || mknod -m 666 "$folder/dev/urandom" c 1 9
# The dynamic linker asks it where a program lies, to find what lies beside.
mount -t proc proc "$folder/proc"
trap 'umount "$folder/proc"' EXIT
inside sh -c '! command -v cc gcc g++ clang' >/dev/null || die "$folder has a compiler"
. "$folder/etc/os-release"
printf '%s, %s\n' "$PRETTY_NAME" "$(inside ldd --version | head -n 1)"

since() { printf '%s.%02d' $(($1 / 100)) $(($1 % 100)); }
now() { echo $(($(date +%s%N) / 10000000)); }

# The first compressed file, back again, and what needs LibTorch: one sentence, status 1.
try_command() {
  cp "$source/$model" "$folder/root/m.safetensors"
  inside gbcompress compress /root/m.safetensors --ratio 8 --force -q -o /root/m.gbz >/dev/null || die "compress failed"
  end=$(now)
  inside gbcompress expand /root/m.gbz -o /root/back.safetensors --force -q >/dev/null || die "expand failed"
  inside gbcompress compare /root/m.safetensors /root/back.safetensors >/dev/null || die "compare failed"
  local said status=0
  said=$(inside gbcompress eval /root/m.gbz --data digits 2>&1) || status=$?
  inside gbcompress doctor | grep -q "^missing  *LibTorch" || die "doctor does not say that LibTorch is missing"
  [[ $status == 1 && $(wc -l <<<"$said") == 1 && $said == *LibTorch* ]] || die "without LibTorch eval ended with $status and said: $said"
  bytes=$(stat -c %s "$folder/root/m.gbz")
}

for package in "$@"; do
  name=${package##*/}
  cp "$package" "$folder/root/$name"
  case $name in
    *.whl)
      rm -rf "$folder/venv"
      start=$(now)
      inside python3 -m venv /venv
      inside pip install -q --disable-pip-version-check --no-cache-dir --only-binary :all: "/root/$name" || die "pip failed"
      installed=$(now)
      try_command
      inside python -c 'import gbcompress as g; n = len(g.load_file("/root/m.gbz")); assert n == 6, n' || die "the package does not load the file"
      ;;
    *.deb)
      rm -rf "$folder/venv"  # a wheel's program would be found first
      inside apt-get -qq update
      start=$(now)
      inside env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "/root/$name" >"$folder.log" 2>&1 || die "apt-get failed: see $folder.log"
      installed=$(now)
      try_command
      inside env DEBIAN_FRONTEND=noninteractive apt-get -qq purge -y gbcompress >>"$folder.log" 2>&1 || die "purge failed"
      [[ -z $(inside sh -c 'command -v gbcompress') ]] || die "purge left the program"
      ;;
    *) die "$name is neither a wheel nor a Debian package" ;;
  esac
  printf '%s: installed in %s s, first compressed file (%s bytes) after %s s\n' "$name" "$(since $((installed - start)))" "$bytes" \
    "$(since $((end - start)))"
  ((end - start < 6000)) || die "that took more than 60 s"
done
