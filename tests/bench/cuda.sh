#!/bin/sh
# The comparison on a card: sh tests/bench/cuda.sh [PROGRAM]
# GPT-2 of a size that suits the card, every arm at each budget, and Llama-8B in 16 GiB where the card holds all of it. A ballast
# takes the rest of the card, so a budget is all there is. Runs in order of what matters most and stops after LIMIT seconds (540).
# PROGRAM: examples/cuda/train_gpt.cu, built; default: build/gpu/train_gpt, which tests/cuda/gpu.sh builds. It measures and asserts nothing.
cd "$(dirname "$0")/../.." || exit 2
program=${1:-build/gpu/train_gpt}
[ -x "$program" ] || { echo "cuda.sh: no $program: run tests/cuda/gpu.sh, or build examples/cuda/train_gpt.cu"; exit 2; }
card() { nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || cat /proc/driver/nvidia/version 2>/dev/null; }
[ -n "$(card)" ] || { echo "cuda.sh: no card, or no driver: nothing was measured"; exit 2; }
limit=${LIMIT:-540}
start=$(date +%s)
out=build/gpu
mkdir -p "$out"
lines="$out/bench.txt"
: >"$lines"

total=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null | head -n 1) # MiB
case $total in '' | *[!0-9]*) total=$(build/gpu/runtime 2>/dev/null | sed -n 's/^a device: \([0-9]*\) bytes free$/\1/p'); total=$((${total:-16000000000} / 1048576)) ;; esac
host=$(awk '/MemAvailable/ { print int($2 / 1048576) }' /proc/meminfo 2>/dev/null) # GiB; of a container, what it may have
host=${host:-32}
for f in /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes; do
    most=$(cat $f 2>/dev/null)
    case $most in '' | *[!0-9]* | ????????????????*) ;; *) [ $((most >> 30)) -ge "$host" ] || host=$((most >> 30)) ;; esac
done
pinned=$((host * 6 / 10))
if [ "$total" -ge 100000 ]; then model=gpt2-1.5b batch=32
elif [ "$total" -ge 40000 ]; then model=gpt2-774m batch=16
elif [ "$total" -ge 16000 ]; then model=gpt2-355m batch=8
else model=gpt2-124m batch=4; fi
model=${MODEL:-$model} batch=${BATCH:-$batch}

# run LABEL OPTIONS...: one line for the table.
run() {
    label=$1
    shift
    left=$((limit - ($(date +%s) - start)))
    if [ $left -lt 20 ]; then echo "skip $label: no time left" >>"$lines"; return; fi
    echo "   $label" >&2
    timeout $left "$program" --quiet --physical "$@" >"$out/one" 2>"$out/one.err"
    code=$?
    if [ $code = 0 ]; then grep '^model=' "$out/one" | sed "s/^/run $label /" >>"$lines"
    elif [ $code = 3 ]; then echo "skip $label: does not fit" >>"$lines"
    elif [ $code = 124 ]; then echo "skip $label: no time left" >>"$lines"
    else echo "skip $label: $(head -n 1 "$out/one.err" | cut -c 1-90)" >>"$lines"; fi
}

size="--model $model --batch $batch --context 1024 --steps 12 --host ${pinned}G"
run "$model@all" $size --arm all-resident
for arm in joint every-block remat; do run "$model@50%" $size --arm $arm --budget 50%; done
for arm in joint every-block; do run "$model@35%" $size --arm $arm --budget 35%; done
if [ "$total" -ge 120000 ] && [ "$host" -ge 100 ]; then
    big="--model llama-8b --slim --batch 8 --context 1024 --steps 8 --host ${pinned}G"
    run "llama-8b@all" $big --arm all-resident
    run "llama-8b@16G" $big --arm joint --budget 16G
    run "llama-8b@40%" $big --arm every-block --budget 40%
    run "llama-8b@40%" $big --arm joint --budget 40%
fi
for arm in llmc-2 offload joint; do run "$model@80%" $size --arm $arm --budget 80%; done # what copies weights alone, or recomputes norms alone, fits in
run "$model@35%" $size --arm remat --budget 35%
for arm in joint remat; do run "$model@25%" $size --arm $arm --budget 25%; done

echo
card
date -u +%Y-%m-%d
awk '
function value(key,   i, p) { for (i = 3; i <= NF; i++) { p = index($i, "="); if (substr($i, 1, p - 1) == key) return substr($i, p + 1) } return "" }
BEGIN { printf "%-18s %-13s %12s %11s %9s %10s %9s %12s %10s %6s\n", "model@budget", "arm", "planned MiB", "touched", "outside", "host MiB", "step ms", "simulated", "tokens/s", "vs all" }
$1 == "run" {
    split($2, who, "@"); ms = value("step_ms"); if (who[2] == "all") all[who[1]] = ms
    printf "%-18s %-13s %12s %11s %9s %10s %9.1f %6.1f %4.0f%% %10s %6s\n", $2, value("arm"), value("planned_mib"), value("touched_mib"), value("outside_mib"), value("host_mib"), ms, value("simulated_ms"), (ms > 0 ? 100 * (value("simulated_ms") / ms - 1) : 0), value("tokens_per_s"), ((who[1] in all) && (all[who[1]] > 0) ? sprintf("%.2f", ms / all[who[1]]) : "-")
}
$1 == "skip" { print "   " substr($0, 6) }' "$lines"
echo "($(($(date +%s) - start)) s)"
