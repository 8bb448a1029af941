#!/bin/sh
# examples/cuda/train_gpt_nccl.cu as a program of the host (tests/cuda/nccl_host.cpp), run by 2 and 3 processes without a card:
#   sh tests/cuda/nccl.sh PROGRAM      a minute of a processor for each rank
# With weights in shares it has the losses and weights of the run with whole ones, bit for bit, in the bytes that were planned, whatever order work
# that nothing orders is done in. With three ranks that holds because the stand-in adds up in one order; NCCL's own may be another. Last line: N passed, N failed.
program=$1
case $program in /*) ;; *) program=$PWD/$program ;; esac
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export TMPDIR="$out" OMP_NUM_THREADS=1
passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED: $*"; }

# ranks NAME N OPTIONS...: what rank 0 says is in NAME, each rank's exit status in NAME.codes; OTHER: more options for the last rank
ranks() {
    name=$1 n=$2 r=0 pids=
    shift 2
    rm -f "$out/id"
    : >"$out/$name.codes"
    while [ $r -lt "$n" ]; do
        [ $r = $((n - 1)) ] && more=$OTHER || more=
        RANK=$r WORLD_SIZE=$n NCCL_ID_FILE=$out/id "$program" --batch 1 --context 16 --digest --quiet "$@" $more >"$out/$name.$r" 2>&1 &
        pids="$pids $!"
        r=$((r + 1))
    done
    for p in $pids; do wait "$p"; echo $? >>"$out/$name.codes"; done
    mv "$out/$name.0" "$out/$name"
}
went() { # NAME: all ranks, and no more memory was touched than was planned, nor less
    if ! grep -q -v '^0$' "$out/$1.codes" && grep -q 'ranks, weights .* on each, \([0-9]*\) bytes of \1 planned' "$out/$1"; then ok; else bad "$1: $(tail -n 3 "$out/$1" | tr '\n' ';')"; fi
}
bits() { sed -n 's/^\(loss .*\)/\1/p; s/.*\(weights [0-9a-f]*\) on each.*/\1/p' "$out/$1"; }
same() { # NAME NAME: losses and weights
    if [ "$(bits "$1" | wc -l)" -gt 3 ] && [ "$(bits "$1")" = "$(bits "$2")" ]; then ok; else bad "$1 and $2: other bits"; bits "$1"; bits "$2"; fi
}
bytes_of() { sed -n 's/.* \([0-9]*\) planned$/\1/p' "$out/$1"; }
says() { if grep -q -e "$2" "$out/$1"; then ok; else bad "$1 does not say: $2: $(tail -n 2 "$out/$1")"; fi; }

ranks whole 2 --model gpt2-tiny --steps 4
STANDIN=starve:4 ranks shares 2 --model gpt2-tiny --steps 4 --shard --budget 8M
STANDIN=shuffle:1 ranks streams 2 --model gpt2-tiny --steps 4 --shard --budget 9M --streams
for run in whole shares streams; do went $run; done
same whole shares
same whole streams
says whole 'captured=1'
says shares 'captured=1' # gathers and scatters are in the graph
says streams 'captured=0'
if [ "$(bytes_of shares)" -le 8388608 ] && [ "$(bytes_of whole)" -gt 12000000 ]; then ok; else bad "shares take $(bytes_of shares) bytes, whole weights $(bytes_of whole)"; fi
says shares 'calls, [1-9][0-9]* of them in a symmetric window'

ranks whole3 3 --model gpt2-tiny --steps 3 # parts that are not equal
STANDIN=shuffle:2 ranks shares3 3 --model gpt2-tiny --steps 3 --shard --budget 7M
for run in whole3 shares3; do went $run; done
same whole3 shares3

ranks slim 2 --model llama-tiny --steps 3 --slim # random bits of a share are those of the whole, and of all ranks
ranks slim_shares 2 --model llama-tiny --steps 3 --slim --shard --budget 5M
for run in slim slim_shares; do went $run; done
same slim slim_shares

# micro-batches: sums of shares, another order of additions; without windows the same
ranks micro 2 --model llama-tiny --steps 3 --accumulate 2 --shard --budget 8M
NCCL_WIN_ENABLE=0 STANDIN=starve:0 ranks micro_plain 2 --model llama-tiny --steps 3 --accumulate 2 --shard --budget 8M
for run in micro micro_plain; do went $run; done
same micro micro_plain
says micro_plain 'calls, 0 of them in a symmetric window'

# what cannot go well
OTHER="--budget 9M" ranks other 2 --model gpt2-tiny --steps 1 --shard --budget 8M
says other 'plan: not the same on every rank'
if grep -q '^0$' "$out/other.codes"; then bad "other plans: a rank goes on"; else ok; fi
ranks alone 1 --model gpt2-tiny --steps 1 --shard
says alone 'wants two ranks or more'
ranks joint 2 --model gpt2-tiny --steps 1 --shard --arm joint
says joint 'goes with no other --arm'

echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
