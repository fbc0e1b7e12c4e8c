#!/usr/bin/env bash
# Lets libFuzzer at every reader, each for its share of FUZZ_SECONDS (`make fuzz`).
#
# Starts from tests/fuzz/seeds/READER; what it finds on the way stays in build/fuzz/corpus. A fault
# ends it and leaves its input as build/fuzz/READER-crash-...; the statistics are kept in
# results/fuzz.txt. The readers may be named: tools/fuzz.sh plan machine
set -euo pipefail
cd "$(dirname "$0")/.."
readers=(program packed plan machine layout)
if (($#)); then readers=("$@"); fi
seconds=$((${FUZZ_SECONDS:-600} / ${#readers[@]}))
export UBSAN_OPTIONS=print_stacktrace=1

mkdir -p results
result=results/fuzz.txt
{
  echo "$ FUZZ_SECONDS=${FUZZ_SECONDS:-600} tools/fuzz.sh ${readers[*]}"
  git describe --always --dirty
  "${FUZZ_CXX:-clang++}" --version | head -n 1
} >"$result"
for reader in "${readers[@]}"; do
  corpus=build/fuzz/corpus/$reader
  mkdir -p "$corpus"
  log=build/fuzz/$reader.log
  echo "fuzzing $reader for $seconds s"
  build/fuzz/fuzz_"$reader" "$corpus" "tests/fuzz/seeds/$reader" -max_total_time="$seconds" \
    -artifact_prefix="build/fuzz/$reader-" -timeout=20 -rss_limit_mb=4096 -max_len=20000 \
    -print_final_stats=1 >"$log" 2>&1 || { tail -n 40 "$log"; exit 1; }
  {
    printf '\n%s\n' "$reader"
    grep -E '^#[0-9]+.*DONE|^Done|^stat::' "$log"
  } | tee -a "$result"
done
