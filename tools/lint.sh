#!/usr/bin/env bash
# Formats, layers, types and words. Says what is wrong and fails; changes nothing.
set -uo pipefail
cd "$(dirname "$0")/.."
failed=0
check() { echo "  $1"; shift; "$@" || failed=1; }

cpp_format() { git ls-files '*.cc' '*.h' | xargs clang-format-19 --dry-run -Werror; }
python_format() { .venv/bin/ruff format --check -q . && .venv/bin/ruff check -q .; }
types() {
  # The SDK's types are generated; before the first build they are not there yet.
  .venv/bin/python tools/generate.py python python/src/onggi/_api.py &&
    .venv/bin/mypy --no-error-summary python/src/onggi &&
    MYPYPATH=python/src:examples/quickstart:bench:tools .venv/bin/mypy --no-error-summary \
      bench examples tools/*.py tests/docs tests/tools tests/e2e
}
shell_syntax() { git ls-files '*.sh' .ci/run | xargs -n 1 bash -n; }

check "clang-format" cpp_format
check "layers" .venv/bin/python tools/check_layers.py
check "figures" .venv/bin/python bench/figures.py --check
check "words" .venv/bin/python tools/check_words.py
check "ruff" python_format
check "mypy --strict" types
check "shell" shell_syntax
check "api/openapi.yaml" .venv/bin/python -m openapi_spec_validator --subschema-errors all api/openapi.yaml
exit $failed
