#!/bin/sh
# The command line planner as its users see it: exit statuses, messages, the key=value contract.
#   sh tests/cli/rmplan.sh path/to/rmplan        last line: N passed, N failed, N skipped
rmplan=${1:-./rmplan}
case $rmplan in /*) ;; *) rmplan=$PWD/$rmplan ;; esac
here=$PWD
dir=$(mktemp -d) || exit 2
trap 'rm -rf "$dir"' EXIT
cd "$dir" || exit 2
passed=0 failed=0 skipped=0

ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED: $*"; sed 's/^/  out: /' out | head -n 30; sed 's/^/  err: /' err | head -n 5; }

# run WANTED-STATUS WANTED-ERROR-TEXT ARGUMENTS...: nothing wanted on stderr if the text is empty
run() {
    status=$1 text=$2
    shift 2
    "$rmplan" "$@" >out 2>err
    code=$?
    if [ $code != "$status" ]; then bad "exit status $code, not $status: rmplan $*"; return; fi
    if [ -z "$text" ]; then
        if [ -s err ]; then bad "a message without need: rmplan $*"; else ok; fi
    elif grep -qF -- "$text" err; then ok; else bad "no '$text' in the message: rmplan $*"; fi
}
quiet() { if [ -s out ]; then bad "figures in spite of an error: $*"; else ok; fi; }
holds() { # EXPRESSION over the keys, as awk sees it
    if awk -F= '{ v[$1] = $2 } END { exit !('"$1"') }' out; then ok; else bad "not so: $1"; fi
}
value() { sed -n "s/^$1=//p" "${2:-out}"; }

cat >chain.rmg <<'END'
rockmate graph 1
tensor x input 1048576
tensor w param 65536 opt=100
op a in=x,w out=h1:4194304 needs=x,w fwd=1000 bwd=2000
op b in=h1 out=h2 needs=h1 fwd=1000 bwd=2000
op c in=h2 out=h3 needs=h2 fwd=1000 bwd=2000 fwd_ws=4096
op d in=h3 out=h4 needs=h3 fwd=1000 bwd=2000
op e in=h4 out=h5 needs=h4 fwd=1000 bwd=2000
op loss in=h5 out=l:4 needs=h5 fwd=500 bwd=500
output l
END
tail -n +2 chain.rmg | sed 's/fwd=1000 bwd=2000$/fwd=1000 bwd=2000 sped=1/' | sed '1i rockmate graph 1' >bad.rmg
printf 'rockmate graph 2\n' >two.rmg
: >empty.rmg
mkdir folder.rmg

# --- usage
run 0 "" --help
if grep -q '^usage: rmplan GRAPH' out && grep -q -- '--place FILE' out; then ok; else bad "the help"; fi
run 0 "" --version
run 2 "no graph given"
run 2 "Try 'rmplan --help'"
run 2 "unknown option: --bugdet" chain.rmg --bugdet 3G
run 2 "unknown option: -x" -x
run 2 "unknown option: --livee" chain.rmg --livee
run 2 "needs a value: --budget" chain.rmg --budget
for size in "" x 3X -1 1.5 3GB 1,5G 40%% 99999999999999999999 4611686018427387904 0x10 " 3" .5G 5.G; do
    run 2 "--budget takes a size" chain.rmg --budget "$size"
done
run 2 "a --budget of no bytes" chain.rmg --budget 0
run 2 "--host takes a size" chain.rmg --host=lots
run 2 "--align takes" chain.rmg --align 0
run 2 "no power of two" chain.rmg --align 48
run 2 "--seconds takes" chain.rmg --seconds soon
run 2 "preset" chain.rmg --preset fast
run 2 "take one" chain.rmg --preset sqrt --config some.cfg
run 2 "--compare plans with every preset" chain.rmg --compare --preset sqrt
run 2 "no/such.cfg: " chain.rmg --config no/such.cfg
printf 'rockmate config 1\npreset=sqrt\nspeed=9\n' >bad.cfg
run 2 "bad.cfg:3:1: found 'speed=9', expected one of preset=" chain.rmg --config bad.cfg
run 2 "the second: b.rmg" a.rmg b.rmg
run 2 "--live plans without addresses" chain.rmg --live --out p.rmp
quiet "--live --out"
if [ -e p.rmp ]; then bad "--live --out wrote a plan"; else ok; fi
run 2 "--capacity goes with --place" chain.rmg --capacity 3
run 2 "--place takes no graph" chain.rmg --place b.csv
run 2 "--place goes with" --place b.csv --budget 3

# --- files that cannot be read, or are no graphs
run 2 "none.rmg: " none.rmg
run 2 "folder.rmg: " folder.rmg
run 2 "empty.rmg:1:1: found the end of the text, expected" empty.rmg
run 2 "two.rmg:1:16: found '2', expected" two.rmg
run 2 "bad.rmg:4:56: found 'sped=1', expected one of" bad.rmg
quiet "a wrong graph"
head -c 500 chain.rmg | head -c 130 >cut.rmg
run 2 "cut.rmg:" cut.rmg

# --- a plan
contract="status budget_bytes time_ns keep_all_ns recomputed_ns bound_ns gap_pct arena_bytes live_bytes host_bytes h2d_bytes d2h_bytes busy_compute_ns busy_h2d_ns busy_d2h_ns busy_host_ns busy_comm_ns keep_all_bytes min_bound_bytes first_ms solve_ms"
run 0 "" chain.rmg
for key in $contract; do
    if [ "$(grep -c "^$key=" out)" = 1 ]; then ok; else bad "not one line $key="; fi
done
if grep -vqE '^[a-z0-9_]+=[a-z0-9.]+$' out; then bad "a line that is not key=value"; else ok; fi
if grep -qE '^gap_pct=[0-9]+\.[0-9][0-9]+$' out; then ok; else bad "gap_pct has two decimals at least"; fi
holds 'v["status"] == "ok" && v["time_ns"] == v["keep_all_ns"] && v["recomputed_ns"] == 0 && v["budget_bytes"] == 0'
holds 'v["arena_bytes"] >= v["live_bytes"] && v["time_ns"] >= v["bound_ns"] && v["arena_bytes"] >= v["min_bound_bytes"]'
all=$(value keep_all_bytes)
run 0 "" chain.rmg --budget 80%
holds 'v["arena_bytes"] <= v["budget_bytes"] && v["budget_bytes"] == int('"$all"' * 80 / 100) && v["time_ns"] >= v["keep_all_ns"]'
holds 'v["recomputed_ns"] > 0 && v["time_ns"] == v["keep_all_ns"] + v["recomputed_ns"]'
run 0 "" chain.rmg --budget=100%
holds 'v["budget_bytes"] == '"$all"' && v["recomputed_ns"] == 0'
run 0 "" chain.rmg --budget 20M
holds 'v["budget_bytes"] == 20 * 1048576'
run 0 "" chain.rmg --budget 0.5G --preset every-block --align 4096 --seconds 60
holds 'v["budget_bytes"] == 536870912 && v["arena_bytes"] % 4096 == 0'

# --- no plan, and then the one that was named
run 3 "budget of 1024 bytes" chain.rmg --budget 1K
holds 'v["status"] == "infeasible" && v["min_bytes"] >= v["min_bound_bytes"] && v["min_bound_bytes"] > 1024'
for key in status min_bytes min_bound_bytes keep_all_bytes keep_all_ns bound_ns solve_ms; do
    if [ "$(grep -c "^$key=" out)" = 1 ]; then ok; else bad "infeasible: not one line $key="; fi
done
min=$(value min_bytes)
run 0 "" chain.rmg --budget "$min"
holds 'v["arena_bytes"] <= '"$min"
bound=$(value min_bound_bytes)
run 3 "budget" chain.rmg --budget $((bound - 1))
run 3 "budget" chain.rmg --budget 60% --preset noremat --out none.rmp
if [ -e none.rmp ]; then bad "a plan file without a plan"; else ok; fi

# --- looking at a plan
run 0 "" chain.rmg --budget 80% --explain h2 --trace t.json --svg p.svg --out e.rmp
if grep -q "^h2: an activation of 4.0 MiB, made by op b" out && grep -q "more memory: with .* (a 64th of keeping everything)" out; then ok; else bad "--explain"; fi
if [ "$(head -c 5 p.svg)" = "<svg " ] && [ "$(tail -n 1 p.svg)" = "</svg>" ] && grep -q '"traceEvents"' t.json && grep -q "^rockmate plan 1" e.rmp; then ok; else bad "--svg, --trace, --out"; fi
run 0 "" --model llama3.2-1b --device rtx4060ti --host 64G --preset stream --explain embed.wte
if grep -q "^  between steps: the values in host memory, the state in host memory; updated in host memory" out; then ok; else bad "--explain of a weight in host memory"; fi
run 2 "no such tensor: nobody" chain.rmg --explain nobody
run 2 "--live" chain.rmg --live --svg p.svg
run 2 "--place goes with" --place p.csv --svg p.svg
run 2 "nowhere/p.svg" chain.rmg --svg /nowhere/p.svg

# --- configurations and presets
printf 'rockmate config 1\npreset=every-block\n' >block.cfg
run 0 "" chain.rmg --budget 100% --preset every-block
a=$(value time_ns)
run 0 "" chain.rmg --budget 100% --config block.cfg
holds 'v["time_ns"] == '"$a"
run 0 "" chain.rmg --budget 80% --compare
if grep -q '^# without host memory' out && ! grep -q '^offmate' out; then ok; else bad "--compare: presets that copy, and no host memory"; fi
run 0 "" chain.rmg --budget 80% --compare --host 1G --link h2d=1000000000,d2h=1000000000
if grep -q '^# without' out; then bad "--compare with host memory leaves presets out"; else ok; fi
for preset in $("$rmplan" --help | sed -n '/^Presets:/,$s/^  \([a-z0-9-]*\) .*/\1/p'); do
    if [ "$(grep -c "^$preset .*[0-9]$" out)" = 1 ]; then ok; else bad "--compare: not one line of $preset"; fi
done

# --- plan files
run 0 "" chain.rmg --budget 80% --out one.rmp
run 0 "" chain.rmg --budget 80% --out two.rmp
if [ "$(head -n 1 one.rmp)" = "rockmate plan 1" ] && cmp -s one.rmp two.rmp; then ok; else bad "two plans differ"; fi
run 2 "no/such/place.rmp: " chain.rmg --out no/such/place.rmp
if [ -c /dev/full ]; then
    run 2 "/dev/full: " chain.rmg --out /dev/full
    "$rmplan" chain.rmg >/dev/full 2>err
    if [ $? = 1 ]; then ok; else bad "figures that cannot be printed"; fi
else skipped=$((skipped + 2)); fi
if command -v python3 >/dev/null 2>&1 && [ -f "$here/../shared/tools/replay.py" ]; then
    "$rmplan" chain.rmg --budget 80% --out one.rmp >mine 2>err
    python3 "$here/../shared/tools/replay.py" chain.rmg one.rmp --budget "$(value budget_bytes mine)" >out
    holds 'v["legal"] == 1 && v["time_ns"] == '"$(value time_ns mine)"' && v["live_bytes"] == '"$(value live_bytes mine)"' && v["recomputed_ns"] == '"$(value recomputed_ns mine)"
else skipped=$((skipped + 1)); fi

# --- live bytes, the trade-off
run 0 "" chain.rmg --live --budget 80%
holds 'v["live_bytes"] <= v["budget_bytes"] && v["arena_bytes"] == v["live_bytes"]'
run 0 "" chain.rmg --curve --points 5
if ! grep -vqE '^# [a-z_]+=[0-9.]+$|^ *arena_bytes +keep_all_pct +host_bytes +time_ns +overhead_pct +bound_ns +gap_pct$|^( *[0-9.-]+){7}$' out; then ok; else bad "--curve: a table and comments only"; fi
if grep '^[ 0-9.-]*$' out | awk 'NR > 1 && ($1 <= b || $4 >= t || $6 > l) { bad = 1 } $6 > $4 { bad = 1 } { b = $1; t = $4; l = $6 } END { exit bad || NR < 2 || NR > 5 }'; then ok; else bad "--curve: more bytes, less time"; fi
grep '^[ 0-9.-]*$' out | while read -r bytes share host ns rest; do
    [ "$("$rmplan" chain.rmg --budget "$bytes" | sed -n 's/^time_ns=//p')" = "$ns" ] || echo "$bytes"
done >wrong
if [ -s wrong ]; then bad "--curve: a plan within $(head -n 1 wrong) bytes takes another time"; else ok; fi
run 2 "--points goes with --curve" chain.rmg --points 5
run 2 "--points takes a number from 2" chain.rmg --curve --points 1
run 2 "--curve makes many plans" chain.rmg --curve --out c.rmp
run 3 "too small" chain.rmg --curve --budget 1K

# --- placing
cat >b.csv <<'END'
id,lower,upper,size
first,0,10,4
b2,5,15,8
b3,10,20,4
large,18446744,4611686018427387,100
none,1,2,0
END
run 0 "" --place b.csv --out placed.csv
holds 'v["height"] == 100 && v["bound"] == 100 && v["solve_ms"] >= 0'
if [ "$(head -n 1 placed.csv)" = "id,lower,upper,size,offset" ] && [ "$(wc -l <placed.csv)" = 6 ] && grep -q '^large,18446744,4611686018427387,100,0$' placed.csv; then ok; else bad "the placed table"; fi
if awk -F, 'NR > 1 { n++; lo[n] = $2; hi[n] = $3; z[n] = $4; o[n] = $5
        for (i = 1; i < n; i++) if (lo[i] < $3 && $2 < hi[i] && o[i] < $5 + $4 && $5 < o[i] + z[i]) bad = 1 } END { exit bad }' placed.csv; then ok; else bad "buffers overlap"; fi
run 0 "" --place b.csv --capacity 100
run 3 "a capacity of 99 is below the largest sum" --place b.csv --capacity 99 --out no.csv
holds 'v["height"] == 100'
if [ -e no.csv ]; then bad "a table that does not fit was written"; else ok; fi
run 0 "" --place b.csv --align 64
holds 'v["height"] == 128'
printf 'id,lower,upper,size\r\na,0,1,1\r\n\r\nb,0,1,1' >crlf.csv
run 0 "" --place crlf.csv
holds 'v["height"] == 2'
printf 'id,lower,upper,size\n' >none.csv
run 0 "" --place none.csv
holds 'v["height"] == 0'
table() { # ROW FILE:LINE:COLUMN-TEXT
    printf 'id,lower,upper,size\na,0,1,1\n%s\n' "$1" >t.csv
    run 2 "$2" --place t.csv
    quiet "a wrong table"
}
table 'b,0,1' "t.csv:3:6: found '', expected a comma"
table 'b,0,1,1,1' "t.csv:3:9: found '1', expected the end of the row"
table 'b,0,x,1' "t.csv:3:5: found 'x', expected an integer"
table 'b,-3,1,1' "t.csv:3:3: found '-3', expected an integer"
table 'b,0,1, 1' "t.csv:3:7: found ' 1', expected an integer"
table 'b,4,4,1' "t.csv:3:5: found '4', expected an upper above the lower"
table 'b,0,1,4611686018427387904' "t.csv:3:7: found '4611686018427387904', expected an integer below 2^62"
table 'b,0,1,4611686018427387903' "add up to 2^62"
printf 'id,start,end,size\n' >t.csv
run 2 "t.csv:1:1: found 'id', expected the header" --place t.csv
run 2 "expected the header" --place empty.rmg
run 2 "nowhere.csv: " --place nowhere.csv

# --- models: the number of weights (2 bytes each) is that of the published ones
weights() { awk '$1 == "tensor" && $3 == "param" { n += $4 / 2 } END { printf "%.0f\n", n }' "$1"; }
while read -r model count; do
    run 0 "" --model "$model" --export m.rmg
    quiet "export"
    if [ "$(weights m.rmg)" = "$count" ]; then ok; else bad "$model has $(weights m.rmg) weights, not $count"; fi
done <<'END'
gpt2-124m 124439808
gpt2-355m 354823168
gpt2-774m 774030080
gpt2-1.5b 1557611200
llama2-7b 6738415616
llama3-8b 8030261248
llama3-70b 70553706496
qwen2.5-0.5b 494032768
qwen2.5-7b 7615616512
qwen2.5-72b 72706203648
resnet50 25557032
vgg16 138357544
unet 31037698
mobilenetv2 3504872
googlenet 6624904
END
run 0 "" --model list
run 0 "" --model gpt2-124m --device rtx4060ti --tokens 4096
holds 'v["status"] == "ok" && v["arena_bytes"] <= v["budget_bytes"] && v["budget_bytes"] == 16000000000 - 1073741824'
run 0 "" --model gpt2-124m --tokens 4096 --link h2d=1000000000,d2h=2000000000,latency=3 --export m.rmg
if grep -q "^link h2d=1000000000 d2h=2000000000 latency=3" m.rmg; then ok; else bad "--link of a model"; fi
run 0 "" --model gpt2-124m --tokens 4096 --sequence 512 --optimizer slim --budget 3G
holds 'v["arena_bytes"] <= 3221225472'
run 0 "" --model resnet50 --images 8 --export m.rmg --budget 600M
holds 'v["status"] == "ok"'
run 0 "" m.rmg --budget 600M
run 0 "planning with 128 GiB of host memory" --model llama3-8b --tokens 8192 --device rtx4090 --budget 16G
holds 'v["status"] == "ok" && v["arena_bytes"] <= 17179869184 && v["host_bytes"] > 60000000000 && v["h2d_bytes"] > 0'
run 3 "too small" --model llama3-8b --tokens 8192 --device rtx4090 --budget 16G --host 0
run 0 "" --model qwen2.5-1.5b --tokens 4096 --device rtx4060ti --host 64G
holds 'v["status"] == "ok" && v["arena_bytes"] <= v["budget_bytes"]'
run 0 "host memory may be faster: --host 128G" --model gpt2-1.5b --device rtx4090
run 0 "" --model gpt2-1.5b --device rtx4090 --host 0
run 2 "no such model" --model gpt5
run 2 "whole sequences" --model gpt2-124m --tokens 1000 --sequence 300
run 2 "--device takes" --model gpt2-124m --device abacus
run 2 "--tokens takes" --model gpt2-124m --tokens 0
run 2 "a graph or --model" chain.rmg --model gpt2-124m
run 2 "go with --model" chain.rmg --tokens 5

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
