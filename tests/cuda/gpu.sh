#!/bin/sh
# With a card: sh tests/cuda/gpu.sh
# One plan of LIMIT seconds (580: for a command that may take ten minutes), what tells most first, each row printed as it is had:
#   build; the runtime: an event in a graph, and steps in streams and as graphs that each find their own values, with 5 ms of work in each
#   the link; GPT-2 124M in streams and as a graph, replays checked, recomputation, copies, bits (tests/bench/cuda.sh: link small offload)
#   a GPT-2 that suits the card: the arms at several budgets (large)
#   with CUDNN_FRONTEND=PATH, the include directory of cuDNN's C++ front end: attention by cuDNN beside the one here (124m@cudnn); cuDNN
#   itself (CUDNN=: its directory) is looked for with the toolkit, and where pip puts it
#   with LLMC=PATH, a checkout of llm.c: llm.c itself and examples/cuda/llmc.cu, its kernels under a plan, at the same batch (port)
#   compute-sanitizer on a tiny model
#   the same bits, losses and weights, from tiny models whatever the budget, the arm, streams or graph, with accumulation
#   Llama-8B in 16 GiB, where the machine has room for it (huge)
# What there is no time for is counted as skipped. Record the tables in docs/benchmarks.md, with card, driver and date. No network.
# DRY=1: all of it without a card, with programs that compute nothing and tiny models (tests/cuda/dry.sh); bits are then not compared.
cd "$(dirname "$0")/../.." || exit 2
out=build/gpu
mkdir -p "$out"
have() { command -v "$1" >/dev/null 2>&1; }
have nvcc || { echo "gpu.sh: no nvcc on the path"; exit 2; }
card() { [ -n "$DRY" ] && echo "no card (dry run)" || nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || cat /proc/driver/nvidia/version 2>/dev/null; }
[ -n "$(card)" ] || { echo "gpu.sh: no card, or no driver: nothing was tested"; exit 2; }
limit=${LIMIT:-580}
start=$(date +%s)
passed=0 failed=0 skipped=0 late=0
row() { printf '%-42s %-14s %s\n' "$1" "$2" "$3"; }
ok() { passed=$((passed + 1)); row "$1" "$2" "$3"; }
bad() { failed=$((failed + 1)); row "$1" "FAILED" "$2"; }
skip() { skipped=$((skipped + 1)); row "$1" "skipped" "$2"; }
spent() { echo $(($(date +%s) - start)); }
card
date -u +%Y-%m-%d

echo "== build"
# The library is C: one object for all programs. What nvcc compiles, it compiles side by side.
flags="-O3 -DRMI_IMPLEMENTED -Xcompiler -fopenmp,-ffp-contract=off"
rm -f "$out"/train_gpt* "$out"/llmc* "$out/runtime"
cuda=${CUDA_HOME:-/usr/local/cuda}
printf '#define _GNU_SOURCE\n#define ROCKMATE_THREADS\n#define ROCKMATE_IMPLEMENTATION\n#include "rockmate.h"\n' >"$out/rockmate.c"
if [ -n "$DRY" ] && [ -f "$ROCKMATE_O" ]; then cp "$ROCKMATE_O" "$out/rockmate.o" # tests/run.sh has compiled it
else nvcc -O2 -I. -c -o "$out/rockmate.o" "$out/rockmate.c"; fi >"$out/log.rockmate" 2>&1 &
library=$!
[ -z "$DRY" ] || CUDNN_FRONTEND=tests/cuda/cudnn
if [ -n "$DRY" ]; then
    for f in dry cudart_standin; do ${CC:-cc} -std=gnu99 -O2 -isystem "$cuda/include" -c -o "$out/$f.o" tests/cuda/$f.c || exit 1; done
    ${CC:-cc} -std=gnu99 -O2 -I. -c -o "$out/less_work.o" tests/less_work.c || exit 1 # its plans need not be good
    flags="$flags -O1 -arch=sm_90" link="-cudart none -Xlinker --wrap=rm_plan_create $out/less_work.o $out/rockmate.o $out/dry.o $out/cudart_standin.o -lm" blas= cudnn=
    [ -f "$ROCKMATE_O" ] && has="-DRMI_IMPLEMENTED $ROCKMATE_O" || has=
    ${CC:-cc} -std=gnu99 -O1 -I. -isystem "$cuda/include" -o "$out/runtime" tests/compile/cuda.c $has "$out/cudart_standin.o" -lm -lpthread >"$out/log.runtime" 2>&1
else
    flags="$flags -arch=native" link="$out/rockmate.o" blas=-lcublasLt cudnn= cudnn_include=
    for d in "$CUDNN" "$cuda" "$(python3 -c 'import nvidia.cudnn as c; print(c.__path__[0])' 2>/dev/null)"; do
        for f in "$d"/lib64/libcudnn.so* "$d"/lib/libcudnn.so*; do
            [ -z "$cudnn" ] && [ -f "$f" ] && [ -f "$d/include/cudnn.h" ] && cudnn="-Xlinker $f -Xlinker -rpath -Xlinker $(dirname "$f")" cudnn_include="-isystem $d/include"
        done
    done
    nvcc -x cu -arch=native -I. -o "$out/runtime" tests/compile/cuda.c >"$out/log.runtime" 2>&1 &
    runtime=$!
fi
nvcc $flags -c -o "$out/train_gpt.o" examples/cuda/train_gpt.cu >"$out/log" 2>&1 &
train=$!
if [ -f "${CUDNN_FRONTEND:-/none}/cudnn_frontend.h" ]; then
    # its headers take long to compile: nothing waits for it
    (nvcc $flags -std=c++17 -DTRAIN_GPT_CUDNN -isystem "$CUDNN_FRONTEND" $cudnn_include -c -o "$out/cudnn.part.o" examples/cuda/train_gpt.cu >"$out/log.cudnn" 2>&1 && mv "$out/cudnn.part.o" "$out/train_gpt_cudnn.o") &
    with_cudnn=$!
fi
if [ -n "$LLMC" ]; then # on one that is built with nvml.h llm.c asks the card for its clocks
    llmc="-O3 -std=c++17 --use_fast_math -Xcompiler -fopenmp -isystem $LLMC"
    libraries="-lcublas -lcublasLt"
    if [ -n "$DRY" ]; then llmc="$llmc -O1 -arch=sm_90" libraries=
    else
        llmc="$llmc -arch=native"
        printf '#include <nvml.h>\n' >"$out/nvml.cu"
        if nvcc -E -o /dev/null "$out/nvml.cu" 2>/dev/null; then libraries="$libraries -lnvidia-ml"; fi
    fi
    (nvcc $llmc -DRMI_IMPLEMENTED -c -o "$out/llmc_port.o" examples/cuda/llmc.cu && nvcc $llmc -include examples/cuda/llmc_cuda13.h -DENABLE_BF16 -c -o "$out/llmc.o" "$LLMC/train_gpt2.cu") >"$out/log.llmc" 2>&1 &
    port=$!
fi
echo "== the runtime"
[ -z "$runtime" ] || wait $runtime
if timeout 60 "$out/runtime" >"$out/run" 2>&1; then sed 's/^/   /' "$out/run"; ok "the runtime" "as promised"; else bad "the runtime" "$(cat "$out/log.runtime" "$out/run" | tail -n 3)"; fi
wait $library || { echo "FAILED: rockmate.h"; head -n 20 "$out/log.rockmate"; exit 1; }
wait $train && nvcc -Xcompiler -fopenmp -o "$out/train_gpt" "$out/train_gpt.o" $link $blas >>"$out/log" 2>&1 || { echo "FAILED: nvcc"; head -n 20 "$out/log"; exit 1; }
echo "   ($(spent) s)"

# bench UNTIL STAGE...: rows of tests/bench/cuda.sh, to so many seconds from the start.
bench() {
    seconds=$(($1 * limit / 580 - $(spent)))
    [ -z "$DRY" ] || seconds=$((limit - $(spent))) # a dry run shares its machine
    shift
    if [ $seconds -lt 10 ]; then skip "$*" "no time left"; return; fi
    if quiet=1 LIMIT=$seconds sh tests/bench/cuda.sh "$out/train_gpt" "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}
bench 80 link
[ -z "$DRY" ] || wait $with_cudnn
if [ -z "$with_cudnn" ]; then skip "124m@cudnn" "no cuDNN front end (CUDNN_FRONTEND=: its include directory)"
elif [ ! -f "$out/train_gpt_cudnn.o" ]; then skip "124m@cudnn" "not built, or not yet: $(grep -m 1 -i error "$out/log.cudnn" | cut -c 1-150)"
elif ! nvcc -Xcompiler -fopenmp -o "$out/train_gpt_cudnn" "$out/train_gpt_cudnn.o" $link $blas $cudnn >>"$out/log.cudnn" 2>&1; then skip "124m@cudnn" "not linked: $(grep -m 1 -i error "$out/log.cudnn" | cut -c 1-150)"; fi
bench 250 small offload
bench 430 large
if [ -z "$LLMC" ]; then skip port "no llm.c (LLMC=: a checkout)"
elif wait $port && nvcc -Xcompiler -fopenmp -o "$out/llmc_port" "$out/llmc_port.o" $link $libraries && nvcc -Xcompiler -fopenmp -o "$out/llmc" "$out/llmc.o" $link $libraries; then bench 490 port
else bad port "$(grep -m 1 -i error "$out/log.llmc")"; fi

# What a run says of its results: losses and the hash of all weights and states; where gradients are put together in host memory,
# which rounds once more, the loss before the first update.
digest() { if [ -n "$DRY" ]; then grep -c '^loss ' "$1"; elif [ $loose = 1 ]; then grep '^loss 0 ' "$1"; else grep -E '^(loss|weights) ' "$1"; fi; }
loose=0

# same NAME REFERENCE OPTIONS...: runs, and compares with the reference.
same() {
    name=$1 reference=$2
    shift 2
    if [ "$(spent)" -ge $until ]; then skipped=$((skipped + 1)); late=$((late + 1)); return; fi
    timeout 60 "$out/train_gpt" README.md --digest --quiet "$@" >"$out/run" 2>"$out/run.err"
    code=$?
    if [ $code = 3 ]; then skip "$name" "does not fit: $(head -c 100 "$out/run.err")"
    elif [ $code = 0 ] && [ "$(digest "$out/run")" = "$(digest "$reference")" ]; then
        ok "$name" "same bits" "$(sed -n 's/.*\(planned_mib=[0-9]*\).*\(step_ms=[0-9.]*\).*\(captured=[01]\).*/\1 \2 \3/p' "$out/run")"
    else
        bad "$name" "($code) $(head -c 200 "$out/run.err")"
        digest "$out/run" | diff - "$reference" | head -n 4
    fi
}

echo "== compute-sanitizer"
sanitizer="compute-sanitizer --tool"
[ -z "$DRY" ] || sanitizer="env TOOL="
if [ -n "$DRY" ] || have compute-sanitizer; then
    for tool in memcheck racecheck initcheck; do
        seconds=$((515 * limit / 580 - $(spent)))
        if [ $seconds -lt 5 ]; then skip "compute-sanitizer $tool" "no time left"; continue; fi
        [ -n "$DRY" ] && check="$sanitizer$tool" || check="$sanitizer $tool --error-exitcode 9"
        timeout $seconds $check "$out/train_gpt" README.md --quiet --model gpt2-tiny --batch 2 --context 32 --steps 3 --arm joint --budget 60% --host 8G --untuned >"$out/run" 2>&1
        code=$?
        if [ $code = 0 ]; then ok "compute-sanitizer $tool" "clean" ""
        elif [ $code = 124 ]; then skip "compute-sanitizer $tool" "no time left"
        elif [ $code = 3 ]; then skip "compute-sanitizer $tool" "does not fit"
        elif grep -q -i 'device not supported' "$out/run"; then skip "compute-sanitizer $tool" "it does not work on this machine" # under gVisor, say
        else bad "compute-sanitizer $tool" "($code)"; grep -E '=========' "$out/run" | head -n 12; fi
    done
else skip compute-sanitizer "not here"; fi

echo "== the same bits"
until=$((550 * limit / 580))
budgets="85% 55%"
[ -z "$DRY" ] || budgets=70%
for more in "" "--accumulate 3"; do
    for model in gpt2-tiny llama-tiny; do
        case "$DRY $model $more" in 1\ gpt2-tiny\ --*|1\ llama-tiny\ ) continue ;; esac # a dry run has each once
        size="--batch 32 --context 128 --steps 6 --check"
        [ -z "$DRY" ] || size="--batch 16 --context 128 --steps 4 --check"
        [ "$(spent)" -lt $until ] || { skipped=$((skipped + 1)); late=$((late + 1)); continue; }
        ref="$out/reference"
        if ! timeout 60 "$out/train_gpt" README.md --digest --quiet --model $model $size $more --arm all-resident --streams --untuned >"$ref" 2>"$out/run.err"; then
            bad "$model $more" "$(head -c 200 "$out/run.err")"; continue
        fi
        same "$model $more as a graph" "$ref" --model $model $size $more --arm all-resident
        for arm in joint remat offload every-block llmc-2; do
            for budget in $budgets; do
                case "$arm $more" in offload\ --*|joint\ --*) loose=1 ;; esac
                same "$model $more $arm $budget" "$ref" --model $model $size $more --arm $arm --budget $budget --host 8G
                loose=0
            done
        done
        same "$model $more remat 60% streams" "$ref" --model $model $size $more --arm remat --budget 60% --streams
    done
done
bench 580 huge

echo
[ $late = 0 ] || echo "($late of the runs that compare bits were left out: no time)"
echo "$passed passed, $failed failed, $skipped skipped ($(spent) s)"
[ $failed = 0 ]
