#!/bin/sh
# The comparison on a card: sh tests/bench/cuda.sh [PROGRAM [STAGE...]]
# Stages, in order of what they tell: link small offload large port huge (default: all). Each row is printed as it is had. A ballast takes the rest
# of the card, so a budget is all there is. What there is no time for in LIMIT seconds (540) is skipped with a word.
#   link     the link both ways, beside fills and beside matrix products
#   small    GPT-2 124M: in streams and as a graph, replays checked against streams, each op's time beside the roofline's; gelu as an op of
#            its own; attention by cuDNN, where gpu.sh has built that; recomputation at 55 and 40 %; bits
#   offload  GPT-2 124M: what copies, in streams and as a graph; bits
#   large    a GPT-2 that suits the card: the arms at 50 and 35 %, then at other budgets
#   port     llm.c itself, and its kernels under a plan (examples/cuda/llmc.cu), where gpu.sh has built both
#   huge     Llama-8B where card and host memory hold it: all of it, and in 16 GiB
# PROGRAM: examples/cuda/train_gpt.cu, built; default: build/gpu/train_gpt, which tests/cuda/gpu.sh builds. It measures and asserts
# nothing but bits: "other" in the last column is a fault. DRY=1: every row on a tiny model (tests/cuda/dry.sh).
cd "$(dirname "$0")/../.." || exit 2
program=${1:-build/gpu/train_gpt}
[ $# = 0 ] || shift
[ -x "$program" ] || { echo "cuda.sh: no $program: run tests/cuda/gpu.sh, or build examples/cuda/train_gpt.cu"; exit 2; }
card() { [ -n "$DRY" ] && echo "no card (dry run)" || nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || cat /proc/driver/nvidia/version 2>/dev/null; }
[ -n "$(card)" ] || { echo "cuda.sh: no card, or no driver: nothing was measured"; exit 2; }
limit=${LIMIT:-540} bad=0
start=$(date +%s)
out=build/gpu
mkdir -p "$out"
left() { echo $((limit - ($(date +%s) - start))); }

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

header() {
    printf '%-17s %-12s %-8s %8s %8s %8s %8s %9s %9s %5s %5s %7s %6s %6s %10s %6s %6s %s\n' "model@budget" arm run planned touched outside host "step ms" simulat. "off%" "idle%" plan_s tune_s pin_s "tokens/s" mfu "vs all" bits
}
# One row from a line of key=value: label, how it ran, the reference's step and its loss and hash.
row() { # FILE LABEL HOW
    awk -v label="$2" -v how="$3" -v all="$(cat "$out/all_ms" 2>/dev/null)" -v bits="$(bits "$1")" '
    function value(key,   i, p) { for (i = 1; i <= NF; i++) { p = index($i, "="); if (substr($i, 1, p - 1) == key) return substr($i, p + 1) } return "" }
    /^model=/ {
        ms = value("step_ms"); sim = value("simulated_ms")
        printf "%-17s %-12s %-8s %8s %8s %8s %8s %9.2f %9.2f %5.0f %5.0f %7s %6s %6s %10s %6s %6s %s\n", label, value("arm"), how (value("captured") == "1" || how != "graph" ? "" : "?"), value("planned_mib"), value("touched_mib"), value("outside_mib"), value("host_mib"), ms, sim, (ms > 0 && sim > 0 ? 100 * (sim / ms - 1) : 0), (ms > 0 && sim > 0 ? 100 * (1 - value("busy_ms") / ms) : 0), value("plan_s"), value("tune_s"), value("pin_s"), value("tokens_per_s"), (value("mfu") == "" ? "-" : value("mfu")), (all > 0 ? sprintf("%.2f", ms / all) : "-"), bits
    }' "$1"
}
# What a run says of its results, against the reference of its model: losses, and the hash of weights and states where it was asked for.
result() { grep -E '^(loss|weights) ' "$1" || sed -n 's/.*\(first_loss=[^ ]* loss=[^ ]*\).*/\1/p' "$1"; }
bits() { if [ -n "$DRY$apart" ] || [ ! -f "$out/all" ]; then echo -; elif [ "$(result "$1")" = "$(result "$out/all")" ]; then echo same; else echo other; fi; }

# run LABEL OPTIONS...: a row at once. The first run of a label that ends in @all is the reference of those that follow.
run() {
    label=$1 code=124
    shift
    seconds=$(left)
    how=graph apart=
    case " $* $command" in *" --apart "* | *_cudnn*) apart=1 ;; esac # gelu, attention by another kernel: other bits
    case " $* " in *" --streams "*) how=streams ;; esac
    if [ "$seconds" -lt ${least:-15} ]; then echo "   skipped $label $how: no time left"; return; fi
    timeout $seconds ${command:-"$program" README.md --quiet --physical} "$@" >"$out/one" 2>"$out/one.err"
    code=$?
    case "$label $code" in *"@all 0") [ -n "$reference" ] || { cp "$out/one" "$out/all"; [ -s "$out/all_ms" ] || sed -n 's/.* step_ms=\([0-9.]*\).*/\1/p' "$out/one" >"$out/all_ms"; reference=1; } ;; esac
    if [ $code = 0 ]; then row "$out/one" "$label" $how; sed -n '/^profile of/p; /^   /p' "$out/one"
    elif [ $code = 3 ]; then echo "   skipped $label: does not fit: $(head -n 1 "$out/one.err" | cut -c 1-120)"
    elif [ $code = 124 ]; then echo "   skipped $label: no time left"
    else bad=1; echo "   FAILED $label ($code): $(head -n 1 "$out/one.err" | cut -c 1-200)"; fi
    [ $code != 0 ] || [ "$(bits "$out/one")" != other ] || bad=1
    grep '^note: ' "$out/one.err" | grep -v 'were taken outside' | sed 's/^/   /'
}
# The last run's losses are the reference's to a twentieth: it computes the same, by other kernels.
near() { # LABEL
    [ -z "$DRY" ] && [ $code = 0 ] || return
    a=$(sed -n 's/.* loss=\([0-9.]*\).*/\1/p' "$out/all") b=$(sed -n 's/.* loss=\([0-9.]*\).*/\1/p' "$out/one")
    awk -v a="$a" -v b="$b" 'BEGIN { exit !(a > 0 && b > 0.95 * a && b < 1.05 * a) }' || { bad=1; echo "   FAILED $1: its last loss is $b, the reference's $a"; }
}
# llm.c itself, in a row like the others: its mean over all but four steps, all that is taken on the card, its losses. What follows is
# compared with its time.
llmc() { # OPTIONS...
    timeout "$(left)" "$out/llmc" -j "$out/tokens.bin" -m 1 -v 100000 -s 0 "$@" >"$out/one.llmc" 2>&1 || { bad=1; echo "   FAILED llm.c: $(tail -n 1 "$out/one.llmc" | cut -c 1-200)"; return; }
    awk -v model="$model_of_port" '
    /^device memory usage/ { taken = $4 }
    /^step +[0-9]+\/[0-9]+ \| loss/ { if (!n++) first = $5; last = $5; for (i = 1; i <= NF; i++) if ($i == "ms") ms = $(i - 1); if (n > 4) { sum += ms; steps++ } }
    END { if (!steps) exit 1; printf "model=%s arm=llm.c planned_mib=- touched_mib=- outside_mib=%s host_mib=0 step_ms=%.2f simulated_ms=0 busy_ms=0 plan_s=- tune_s=- pin_s=- tokens_per_s=- first_loss=%.4f loss=%.4f\n", model, taken, sum / steps, first, last }' "$out/one.llmc" >"$out/one" || { bad=1; echo "   FAILED llm.c: no steps"; return; }
    row "$out/one" "$model_of_port@all" streams
    sed -n 's/.* step_ms=\([0-9.]*\).*/\1/p' "$out/one" >"$out/all_ms"
    sed -n 's/.*first_loss=\([^ ]*\) .*/\1/p' "$out/one" >"$out/first"
}
# The models of the rows that follow; a dry run has tiny ones.
of() {
    [ "$models" = "$*" ] && return # and the reference
    models=$* size=$* reference=
    rm -f "$out/all" "$out/all_ms"
    [ -z "$DRY" ] || size="--model gpt2-tiny --batch 16 --context 128 --steps 6 --host 1G"
}

stage() {
    case $1 in
    link)
        echo "== the link"
        timeout "$(left)" "$program" --link || { bad=1; echo "   FAILED link"; } ;;
    small)
        echo "== GPT-2 124M, MiB and ms"
        header
        of --model gpt2-124m --batch 16 --context 1024 --steps 24 --host ${pinned}G --digest
        run "124m@all" $size --arm all-resident --streams
        run "124m@all" $size --arm all-resident --check --profile
        run "124m@apart" $size --arm all-resident --apart
        if [ -x "$out/train_gpt_cudnn" ]; then
            command="$out/train_gpt_cudnn README.md --quiet --physical"
            run "124m@cudnn" $size --arm all-resident --profile
            near "124m@cudnn"
            command=
        fi
        for budget in 55% 40%; do run "124m@$budget" $size --arm remat --budget $budget; done ;;
    offload)
        echo "== GPT-2 124M with copies"
        header
        of --model gpt2-124m --batch 16 --context 1024 --steps 24 --host ${pinned}G --digest
        [ -n "$reference" ] || run "124m@all" $size --arm all-resident
        for more in "" --streams; do run "124m@55%" $size --arm joint --budget 55% $more; done
        for more in "" --streams; do run "124m@80%" $size --arm offload --budget 80% $more; done ;;
    large)
        echo "== $model"
        header
        of --model $model --batch $batch --context 1024 --steps 12 --host ${pinned}G
        run "$model@all" $size --arm all-resident
        for arm in joint remat every-block; do run "$model@50%" $size --arm $arm --budget 50%; done
        for arm in joint every-block remat; do run "$model@35%" $size --arm $arm --budget 35%; done
        run "$model@80%" $size --arm llmc-2 --budget 80% --apart
        for arm in offload joint; do run "$model@80%" $size --arm $arm --budget 80%; done # what copies weights alone fits in
        for arm in joint remat; do run "$model@25%" $size --arm $arm --budget 25%; done ;;
    port)
        if [ ! -x "$out/llmc_port" ] || [ ! -x "$out/llmc" ]; then echo "   skipped the port of llm.c: not built (LLMC=: a checkout)"; return; fi
        echo "== llm.c and its kernels under a plan, MiB and ms"
        header
        "$out/llmc_port" --make-tokens "$out/tokens.bin" || bad=1
        of port
        model_of_port=d12 size="-e d12 -b 16 -t 1024 -x 20" budgets="50% 70%" small=40% command="$out/llmc_port --quiet"
        [ -z "$DRY" ] || model_of_port=d6 size="-e d6 -b 16 -t 128 -x 6" budgets=90% small=70% pinned=1
        size="$size -i $out/tokens.bin"
        llmc $size
        run "$model_of_port@all" $size
        cp "$out/one" "$out/one.port"
        run "$model_of_port@$small" $size --budget $small --host ${pinned}G
        for budget in $budgets; do run "$model_of_port@$budget" $size --budget $budget; done
        run "$model_of_port@all" $size --streams --check
        command=
        grep -q "first_loss=$(cat "$out/first") " "$out/one.port" || { bad=1; echo "   FAILED: the first losses of llm.c ($(cat "$out/first")) and of the port differ"; } ;;
    huge)
        if [ -z "$DRY" ] && { [ "$total" -lt 70000 ] || [ "$host" -lt 100 ]; }; then
            echo "   skipped Llama-8B: it takes a card of 80 GB and 100 GiB of host memory"
            return
        fi
        echo "== Llama-8B"
        header
        least=60 small=16G
        [ -z "$DRY" ] || least=15 small=16M
        of --model llama-8b --slim --batch 8 --context 1024 --steps 8 --host ${pinned}G
        if [ "$total" -ge 120000 ] || [ -n "$DRY" ]; then run "llama-8b@all" $size --arm all-resident; fi
        run "llama-8b@16G" $size --arm joint --budget $small
        run "llama-8b@40%" $size --arm joint --budget 40%
        run "llama-8b@40%" $size --arm every-block --budget 40% ;;
    *) echo "cuda.sh: no stage $1"; exit 2 ;;
    esac
}

[ $# = 0 ] && set -- link small offload large port huge
[ -n "$quiet" ] || { card; date -u +%Y-%m-%d; }
for name in "$@"; do stage "$name"; done
echo "($(($(date +%s) - start)) s)"
exit $bad
