#!/usr/bin/env bash
# All benchmarks, one after the other; each writes bench/results/NAME.json and NAME.png.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release -DONGGI_TESTS=ON >/dev/null
cmake --build --preset release --target loopback http_load sandbox_run onggi-broker
export ONGGI_BENCH_BIN=$PWD/build/release/bin
for name in transfer daemon sandbox offload; do
  echo "== $name"
  .venv/bin/python "bench/$name.py"
done
.venv/bin/python bench/figures.py  # README.md shows them
