#!/bin/sh
# run.sh PYTHON SITE pytest|mypy ARGUMENT...: one of them on the package that lies in SITE.
set -eu
python=$1 site=$2 tool=$3
shift 3
cd "$(dirname "$0")/.."
if ! [ -d "$site/gbcompress" ] || ! "$python" -c "import $tool" 2>/dev/null; then
  echo "skipped: the package was not built, or $python lacks $tool; run scripts/setup --tests"
  exit 77
fi
case $tool in
  pytest) PYTHONPATH=$site exec "$python" -B -m pytest -p no:cacheprovider -q -rs "$@" ;;
  mypy) exec "$python" -m mypy --cache-dir "$(dirname "$site")/mypy" "$@" ;;
esac
