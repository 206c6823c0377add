#!/usr/bin/env bash
# Makes a Debian 12 machine ready, again and again without harm:
#   packaging/setup.sh            packages, .venv, the onggi package (SDK, onggi, onggid) installed in it
#   packaging/setup.sh --tools    packages and .venv with the tools of the tests; the package is not built
# Needs root, or sudo. PYTHON names another interpreter than python3 (3.11 or later).
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() { if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi; }

install_packages() {
  local missing=() package
  while read -r package; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done < <(grep -v '^#' packaging/packages.txt)
  [[ ${#missing[@]} == 0 ]] && return
  echo "installing ${#missing[@]} packages: ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

make_environment() {
  local python=${PYTHON:-python3}
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    { echo "setup: $python is older than 3.11; name another with PYTHON=…" >&2; exit 1; }
  [[ -x .venv/bin/python ]] || "$python" -m venv .venv
  .venv/bin/python -m pip install -q --disable-pip-version-check -r packaging/python-run.txt -r packaging/python-test.txt
}

install_packages
make_environment
if [[ ${1:-} != --tools ]]; then
  # Again only when a source is newer than what is installed.
  stamp=.venv/onggi-installed
  if [[ ! -e $stamp || -n $(find src python api cmake tools/generate.py tools/generation CMakeLists.txt pyproject.toml -newer $stamp -type f -not -name '*.so' -not -name '*.pyc' -print -quit) ]]; then
    echo "building and installing onggi (some minutes the first time)"
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation .
    touch $stamp
  fi
fi
