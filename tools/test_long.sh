#!/usr/bin/env bash
# What is too long for every change: more random cases, sanitizers, the second compiler.
#
# The output is kept in results/test-long.txt, with the commands that made it.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p results build
exec > >(tee results/test-long.txt) 2>&1

say() { printf '\n$ %s\n' "$*"; "$@"; }
quietly() { say "$@" >build/test-long.log || { cat build/test-long.log; return 1; }; }

git rev-parse HEAD
# Cases per RapidCheck property (100 by default), and our own sweeps in their long form.
quietly cmake --preset core -DFITSTEP_TEST_TIMEOUT=3600
quietly cmake --build --preset core -j "${JOBS:-2}"
say env RC_PARAMS=max_success=2000 FITSTEP_LONG=1 ctest --preset core

for preset in asan tsan; do
  quietly cmake --preset "$preset"
  quietly cmake --build --preset "$preset" -j "${JOBS:-2}"
done
# `make test-long` has configured build/lint.
if command -v clang-tidy >/dev/null; then
  say python3 tools/lint.py --thorough clang-tidy
else
  echo "clang-tidy is not here: the static analyzer was NOT run (make .venv/lint-ready)"
fi
export RC_PARAMS=max_success=300
say ctest --preset asan
# What is slow and has no threads is left out.
say ctest --preset tsan -E '^(stress|property)_test'
say build/tsan/property_test --gtest_brief=1 --gtest_filter='Lanes.*:DiskRun.*:CodedRun.*'

if command -v clang++ >/dev/null; then
  say clang++ --version
  # Each source alone, so that none counts on what another one includes.
  quietly cmake --preset core -B build/clang -DCMAKE_CXX_COMPILER=clang++ -DFITSTEP_UNITY=OFF
  quietly cmake --build build/clang -j "${JOBS:-2}"
  say ctest --test-dir build/clang --output-on-failure -j "${JOBS:-2}"
else
  echo "clang++ is not here: the second compiler was NOT tried (Debian package clang)"
fi
