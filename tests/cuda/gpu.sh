#!/bin/sh
# With a card: sh tests/cuda/gpu.sh [--no-bench]
# Builds examples/cuda/train_gpt.cu for the card present and checks that losses and weights are the same, bit for bit, whatever the
# budget, the arm, streams or graph; a small model under compute-sanitizer; then tests/bench/cuda.sh. No network, and no more than
# ten minutes: what matters most comes first, what there is no time for is counted as skipped.
# Ends with tables: record them in docs/benchmarks.md, with card, driver and date. Where a command may take ten minutes, and the bench
# should have them all: sh tests/cuda/gpu.sh --no-bench, then LIMIT=560 sh tests/bench/cuda.sh.
cd "$(dirname "$0")/../.." || exit 2
out=build/gpu
mkdir -p "$out"
have() { command -v "$1" >/dev/null 2>&1; }
have nvcc || { echo "gpu.sh: no nvcc on the path"; exit 2; }
card() { nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || cat /proc/driver/nvidia/version 2>/dev/null; }
[ -n "$(card)" ] || { echo "gpu.sh: no card, or no driver: nothing was tested"; exit 2; }
start=$(date +%s)
passed=0 failed=0 skipped=0
table="$out/table.txt"
: >"$table"
row() { printf '%-42s %-14s %s\n' "$1" "$2" "$3" >>"$table"; }
spent() { echo $(($(date +%s) - start)); }

echo "== build"
if ! nvcc -O3 -arch=native -Xcompiler -fopenmp,-ffp-contract=off -o "$out/train_gpt" examples/cuda/train_gpt.cu -lcublas >"$out/log" 2>&1; then
    echo "FAILED: nvcc"; head -n 20 "$out/log"; exit 1
fi
nvcc -x cu -arch=native -I. -o "$out/runtime" tests/compile/cuda.c >"$out/log" 2>&1 && "$out/runtime" && passed=$((passed + 1)) || { failed=$((failed + 1)); echo "FAILED: the runtime"; cat "$out/log"; }

# What a run says of its results: losses and the hash of all weights and states; where gradients are put together in host memory,
# which rounds once more, the loss before the first update.
digest() { if [ $loose = 1 ]; then grep '^loss 0 ' "$1"; else grep -E '^(loss|weights) ' "$1"; fi; }
loose=0

# same NAME REFERENCE OPTIONS...: runs, and compares with the reference.
same() {
    name=$1 reference=$2
    shift 2
    if [ "$(spent)" -ge $until ]; then skipped=$((skipped + 1)); late=$((late + 1)); return; fi
    timeout 120 "$out/train_gpt" README.md --digest --quiet "$@" >"$out/run" 2>"$out/run.err"
    code=$?
    if [ $code = 3 ]; then
        skipped=$((skipped + 1)); row "$name" "does not fit" "$(head -c 100 "$out/run.err")"
    elif [ $code = 0 ] && [ "$(digest "$out/run")" = "$(digest "$reference")" ]; then
        passed=$((passed + 1)); row "$name" "same bits" "$(sed -n 's/.*\(planned_mib=[0-9]*\).*\(step_ms=[0-9.]*\).*\(captured=[01]\).*/\1 \2 \3/p' "$out/run")"
    else
        failed=$((failed + 1)); row "$name" "FAILED ($code)" "$(head -c 200 "$out/run.err")"
        digest "$out/run" | diff - "$reference" | head -n 4
    fi
}

echo "== the same bits"
until=240 late=0 # seconds from the start; the sanitizer has until 330
for more in "" "--accumulate 3"; do
    for model in gpt2-tiny llama-tiny gpt2-124m; do
        case $model in
        *tiny) size="--batch 32 --context 128 --steps 6" ;;
        *) size="--batch 16 --context 512 --steps 5" ;;
        esac
        [ "$(spent)" -lt $until ] || { skipped=$((skipped + 1)); late=$((late + 1)); continue; }
        ref="$out/reference"
        if ! timeout 120 "$out/train_gpt" README.md --digest --quiet --model $model $size $more --arm all-resident --streams --untuned >"$ref" 2>"$out/run.err"; then
            failed=$((failed + 1)); row "$model $more" "FAILED" "$(head -c 200 "$out/run.err")"; continue
        fi
        same "$model $more as a graph" "$ref" --model $model $size $more --arm all-resident
        for arm in every-block llmc-2 remat offload joint; do
            for budget in 85% 55%; do
                [ $model = gpt2-124m ] && [ -n "$more" ] && continue
                case "$arm $more" in offload\ --*|joint\ --*) loose=1 ;; esac
                same "$model $more $arm $budget" "$ref" --model $model $size $more --arm $arm --budget $budget --host 8G
                loose=0
            done
        done
        same "$model $more remat 60% streams" "$ref" --model $model $size $more --arm remat --budget 60% --streams
    done
done

echo "== compute-sanitizer"
if have compute-sanitizer; then
    for tool in memcheck racecheck initcheck; do
        limit=$((330 - $(spent)))
        if [ $limit -lt 5 ]; then skipped=$((skipped + 1)); row "compute-sanitizer $tool" "no time left" ""; continue; fi
        if timeout $limit compute-sanitizer --tool $tool --error-exitcode 9 "$out/train_gpt" README.md --quiet --model gpt2-tiny --batch 2 --context 32 --steps 3 --arm joint --budget 60% --host 8G --untuned >"$out/run" 2>&1; then
            passed=$((passed + 1)); row "compute-sanitizer $tool" "clean" ""
        elif [ $? = 124 ]; then
            skipped=$((skipped + 1)); row "compute-sanitizer $tool" "no time left" ""
        elif grep -q 'too small for step kind' "$out/run"; then
            skipped=$((skipped + 1)); row "compute-sanitizer $tool" "skipped" ""
        else
            failed=$((failed + 1)); row "compute-sanitizer $tool" "FAILED" ""; grep -E '=========' "$out/run" | head -n 12
        fi
    done
else
    skipped=$((skipped + 1)); row compute-sanitizer "not here" ""
fi

echo
card
date -u +%Y-%m-%d
cat "$table"
[ $late = 0 ] || echo "($late of the runs that compare bits were left out: no time)"
echo "$passed passed, $failed failed, $skipped skipped ($(spent) s)"
if [ "$1" != "--no-bench" ]; then
    LIMIT=${LIMIT:-$((580 - $(spent)))} sh tests/bench/cuda.sh "$out/train_gpt"
fi
[ $failed = 0 ]
