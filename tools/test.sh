#!/usr/bin/env bash
# Every test there is, from nothing, as `make test` and CI run them. Stages go on after a failure, so that
# one run says all; the last line counts. `tools/test.sh lint unit` runs only the stages named.
set -uo pipefail
cd "$(dirname "$0")/.."
jobs=$(nproc)
logs=build/test-logs
mkdir -p "$logs"
passed=0 failed=0
wanted=("$@")

stage() {
  local name=$1 began=$SECONDS
  shift
  if [[ ${#wanted[@]} -gt 0 && ! " ${wanted[*]} " =~ " $name " ]]; then return; fi
  echo "== $name"
  if "$@" >"$logs/$name.log" 2>&1; then
    passed=$((passed + 1))
    echo "   passed in $((SECONDS - began)) s"
  else
    failed=$((failed + 1))
    echo "   FAILED in $((SECONDS - began)) s; the end of $logs/$name.log:"
    tail -n 60 "$logs/$name.log" | sed 's/^/   | /'
  fi
}

build() { cmake --preset "$1" >/dev/null && cmake --build --preset "$1" -j "$jobs" "${@:2}"; }

# GCC, warnings as errors, every unit test; the Python modules too.
unit() {
  cmake --preset dev -DONGGI_PYTHON=ON >/dev/null && cmake --build --preset dev -j "$jobs" &&
    ctest --preset dev --timeout 300
}

# Runs a preset's tests of some modules, building only those.
sanitized() {
  local preset=$1 targets=() module
  shift
  for module in "$@"; do targets+=("${module}_test"); done
  local names="$*"
  build "$preset" --target "${targets[@]}" &&
    ctest --preset "$preset" --timeout 600 -R "^(${names// /|})\$"
}

# Address and undefined-behaviour sanitizers, and clang's analysis of locks. Not the sandbox: its limits
# on address space and system calls leave a sanitizer no room.
asan() {
  sanitized asan base metrics redis io http backend backend_memory backend_posix backend_layers \
    catalog_sqlite vfolder api_backendai
}

# The thread sanitizer, where threads meet.
tsan() { sanitized tsan base metrics io http backend_layers catalog_sqlite vfolder; }

tidy() {
  git ls-files 'src/*.cc' | grep -v '_test\.cc$' |
    xargs -P "$jobs" -n 4 clang-tidy-19 --quiet -p build/dev 2>&1 |
    grep -v 'warnings generated\|Suppressed\|Use -header-filter' | { ! grep -E 'error:|warning:' -A 6; }
}

# Each fuzzer for some seconds, from its corpus.
fuzz() {
  cmake --preset fuzz -DFUZZ_SECONDS="${FUZZ_SECONDS:-5}" >/dev/null &&
    cmake --build --preset fuzz -j "$jobs" --target fuzzers &&
    ctest --test-dir build/fuzz --output-on-failure -R '_fuzz$'
}

api() { .venv/bin/python tools/run_api_tests.py build/dev/bin/onggid; }

# pip install ., and from then on the installed package is what is tested.
install() { packaging/setup.sh; }

# What fails is tried once more and named in the log: a busy machine can outlast a sandbox test's patience.
python() {
  local -x PATH=$PWD/.venv/bin:$PATH ONGGI_BIN=$PWD/build/dev/bin
  .venv/bin/python -m pytest -q --maxfail=10 python/tests tests ||
    .venv/bin/python -m pytest -q --last-failed --last-failed-no-failures none python/tests tests
}

quickstart() { QUICKSTART_IMAGES=600 QUICKSTART_EPOCHS=1 .venv/bin/python examples/quickstart/quickstart.py; }

echo "== setup"
packaging/setup.sh --tools || exit 1
stage lint tools/lint.sh
stage unit unit
stage api api
stage install install
stage python python
stage quickstart quickstart
stage fuzz fuzz
stage asan asan
stage tsan tsan
stage tidy tidy
echo "all in $((SECONDS / 60)) min $((SECONDS % 60)) s"
echo "$passed passed, $failed failed"
[[ $failed == 0 ]]
