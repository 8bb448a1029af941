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
    if grep -qE '(rm|RM)_[a-zA-Z]' out err; then bad "words of the library, not of the command line: rmplan $*"; fi
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

sed '/^op c /s/$/ once/' chain.rmg >once.rmg

# --- the variants that run are in the summary
sed '/^op c /a variant c quick needs=h2 fwd=400 bwd=600' chain.rmg >quick.rmg
sed '/^variant/{p;}' quick.rmg >twice.rmg
run 0 "" quick.rmg --text
if grep -q '^  variants   1 run: c@quick$' out; then ok; else bad "the summary says which variant runs"; fi

# plans of less work, where it is not looked at how good they are
for preset in offmate search rockmate; do printf 'rockmate config 1\npreset=%s\nwork=50000\n' $preset >quick-$preset.cfg; done

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
run 2 "needs a value: --svg" chain.rmg --svg --text
if [ ! -e ./--text ]; then ok; else bad "an option is taken for the name of a file"; fi
printf 'rockmate graph 1\ntensor x input 256\nop f in=x out=y:180000 fwd=10 bwd=10 needs=y\nop loss in=y out=l:4 fwd=1 bwd=1 needs=y\noutput l\n' >quarter.rmg
run 0 "" quarter.rmg --text
if [ "$(sed -n 's/^  device memory  \([0-9.]*\) .*/\1/p' out)" = "$(sed -n 's/^  memory  *\([0-9.]*\) .*/\1/p' out)" ]; then ok; else bad "one size in two roundings"; fi
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
printf 'rockmate graph 1\ntensor x input 100\n' >none.rmg
run 2 "it has no op; add its layers (op) first" none.rmg
rm none.rmg
printf 'rockmate graph 1\ntensor x input 100\nop a in=x out=h fwd=1\n' >one.rmg
run 0 "" one.rmg --text
if grep -q "^one.rmg, 1 op$" out && ! grep -q "512 bytes (512 bytes)" out; then ok; else bad "one op, few bytes"; fi
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

# --- pictures: whole, with what they are of, the words that answer, a legend of what occurs, colours that differ for everyone
if command -v python3 >/dev/null 2>&1 && [ -f "$here/tests/cli/picture.py" ]; then
    picture() { # FILE WORDS...
        if python3 "$here/tests/cli/picture.py" "$@" >out 2>err; then ok; else bad "the picture $*"; fi
    }
    picture p.svg "chain.rmg, 6 ops, preset hiremate: Step (single)" "a step takes 0.02 ms, +12.42 % over keeping everything; at most " \
        ">budget 20.1 MiB<" "Fullest at run 7 (bwd loss): 17.1 MiB live. What is kept across that moment needs room then" \
        ">recomputed<" ">input, const<" "!>copy<" "!>optimizer state<" "!the next step begins"
    run 0 "" chain.rmg --svg p.svg
    picture p.svg "Fullest at run 7 (bwd loss): 25.1 MiB live.<" "!>recomputed<" "!>budget" "!room at other times"
    run 0 "" chain.rmg --budget 13M --host 1G --link 1000G --svg p.svg
    picture p.svg "preset offmate" ">copy<" ">to device<" "the next step begins"
    mkdir 'a & b'
    cp chain.rmg 'a & b/<c>.rmg'
    run 0 "" 'a & b/<c>.rmg' --budget 1G --svg p.svg
    picture p.svg ">&lt;c>.rmg, 6 ops" "!>budget" "of a budget of 1.0 GiB"
    awk 'BEGIN { print "rockmate graph 1\ntensor x input 4096\ntensor w param 64"; p = "x"
        for (i = 0; i < 6000; i++) { print "op o" i " in=" p (i ? "" : ",w") " out=h" i " needs=" p " fwd=100 bwd=200"; p = "h" i }
        print "op loss in=" p " out=l:4 needs=" p " fwd=1 bwd=1\noutput l" }' >long.rmg
    run 0 "" long.rmg --preset rockmate --budget 20% --svg long.svg
    picture long.svg
    if [ "$(grep -c "<rect" long.svg)" -lt 20000 ] && [ "$(grep -c "<title>" long.svg)" -lt 5000 ]; then ok; else bad "a picture too large to look at"; fi
    if awk -F'"' '/y="340"/ { sum += $6 } END { exit !(sum >= 5270 && sum <= 5280) }' long.svg; then ok; else bad "runs too thin to be seen leave holes in their lane"; fi
    awk 'BEGIN { print "rockmate graph 1\ntensor x input 256"; p = "x"
        for (i = 0; i < 3000; i++) { print "tensor w" i " param 257\nop o" i " in=" p ",w" i " out=h" i ":256 needs=" p " fwd=100 bwd=200"; p = "h" i }
        print "op loss in=" p " out=l:4 needs=" p " fwd=1 bwd=1\noutput l" }' >weights.rmg
    run 0 "" weights.rmg --preset noremat --svg weights.svg
    picture weights.svg
    if awk -F'"' '/class="w n"/ && $6 == 5280 { tall += $8; if (!low || $4 < low) low = $4; if ($4 + $8 > high) high = $4 + $8 }
        END { exit !(tall > 500 && tall == high - low) }' weights.svg; then ok; else bad "what fills a buffer up to the next one looks free"; fi
    run 0 "" chain.rmg --curve --points 5 --svg curve.svg
    cp out table
    picture curve.svg "What memory buys" "chain.rmg, 6 ops, preset hiremate" "no plan takes less than" "least memory: " "everything kept: 25.1 MiB" "no plan is faster" ">rotor<"
    if [ "$(grep -c '<circle class="plan" cx' curve.svg)" = "$(grep -c '^[ 0-9.-]*$' table)" ]; then ok; else bad "the picture of the curve has other plans than its table"; fi
    sed '/^output/a link h2d=300000000 d2h=300000000' chain.rmg >slow.rmg
    run 0 "" slow.rmg --curve --points 5 --host 1G --svg slow.svg
    cp out slow.table
    picture slow.svg "too slow for this scale: the least memory, "
    if [ "$(grep -c '^[ 0-9.-]*$' slow.table)" -ge 4 ]; then ok; else bad "--curve with host memory: no plans below keeping everything"; fi
    run 0 "" chain.rmg --sweep --points 5
    sed '/solve_ms/d' out >out2
    if sed '/solve_ms/d' table | cmp -s - out2; then ok; else bad "--sweep is not --curve"; fi
    run 2 "nowhere/c.svg: " chain.rmg --curve --svg /nowhere/c.svg
    quiet "--curve --svg nowhere"
else echo "no python3: pictures are not looked at"; skipped=$((skipped + 19)); fi

# --- what more memory would bring: the plan with it
run 0 "" chain.rmg --budget 80% --more 5M
more=$(value more_time_ns)
run 0 "" chain.rmg --budget $(($(value budget_bytes) + 5242880))
holds 'v["time_ns"] == '"${more:-0}"
run 0 "" chain.rmg --budget 80% --more 5M --text
if grep -q "^  5.0 MiB more: a step takes .* faster than now$" out; then ok; else bad "--more for people"; fi
run 3 "budget of 1024 bytes" chain.rmg --budget 1K --more 1G
holds 'v["status"] == "infeasible" && v["more_time_ns"] == 16100'
run 3 "budget of 1024 bytes" chain.rmg --budget 1K --more 1K
holds 'v["more_min_bytes"] == v["min_bytes"]'
run 2 "--more is more than a --budget" chain.rmg --more 1G
run 2 "--more does not apply here" chain.rmg --curve --more 1G

# --- policy by name, in options and in a file
run 0 "" --model gpt2-124m --preset rockmate --recompute 'h[*]/gelu' --stay 'h[0]'
free=$(value free_time_ns)
if [ "$(value time_ns)" -gt "${free:-0}" ] && [ "$(value recomputed_ns)" = $(($(value time_ns) - free)) ]; then ok; else bad "--recompute and its cost"; fi
printf 'rockmate config 1\npreset=rockmate\nrecompute=h[*]/gelu\nstay=h[0]\n' >policy.cfg
a=$(value time_ns)
run 0 "" --model gpt2-124m --config policy.cfg
if [ "$(value time_ns)" = "$a" ] && [ "$(value free_time_ns)" = "$free" ]; then ok; else bad "a policy in a file"; fi
run 0 "" --model gpt2-124m --config policy.cfg --recompute 'h[11]/gelu'
if [ "$(value time_ns)" -lt "$a" ]; then ok; else bad "an option instead of a policy in a file"; fi
run 0 "" --model gpt2-124m --preset rockmate --recompute 'h[*]/gelu' --text
if grep -q "^  policy         a step is [0-9.]* % slower than without it, where it takes .* of memory$" out; then ok; else bad "the cost of a policy for people"; fi
run 0 "" --model gpt2-124m --keep '*' --json
if grep -q '"free_time_ns":[1-9]' out; then ok; else bad "the cost of a policy in JSON"; fi
run 2 "--recompute: 'h[*]/gellu' names no op; look up names in the graph's text (--export); did you mean 'h[*]/gelu'?" --model gpt2-124m --recompute 'h[*]/gellu'
run 2 "did you mean 'h[*]/attention'?" --model gpt2-124m --keep 'h[*]/norm1,h[*]/attn'
run 2 "did you mean 'embed.wte'?" --model gpt2-124m --stay 'embed.wtte'
run 2 "size 1: --keep: 'atention' names no op; look up names in the graph's text (--export); did you mean 'attention'?" --model gpt2-124m --keep atention --fit batch
printf 'rockmate config 1\npreset=rockmate\nmove=residul*\n' >policy.cfg
run 2 "did you mean 'residual1'?" --model gpt2-124m --config policy.cfg --host 1G
printf 'rockmate config 1\npasses=kinds\nkinds=gelu,norm1,atention\n' >kinds.cfg
run 2 "--config: kinds: 'atention' names no op; look up names in the graph's text (--export); did you mean 'attention'?" --model gpt2-124m --config kinds.cfg
run 0 "" chain.rmg --preset llmc-2
run 2 "names no op; look up names" chain.rmg --keep zzz
if grep -q "did you mean" err; then bad "a pattern that nothing is near to"; else ok; fi
run 2 "--move: h[0]/fc has nowhere to go; give --host and --link" --model gpt2-124m --move 'h[*]/fc'
run 2 "--move: h[0]/fc needs a preset that searches what moves: offmate" --model gpt2-124m --move 'h[*]/fc' --host 1G --preset rockmate
run 2 "--recompute: h[0]/norm1 needs a preset that searches" --model gpt2-124m --recompute 'h[0]' --preset sqrt
run 3 "budget of 4294967296 bytes: too small" --model gpt2-124m --preset rockmate --budget 4G --keep 'h[*]'
if grep -q 'Without its policy (keep, move, stay, recompute) a plan takes [0-9]* bytes and [0-9.]* ms a step' err; then ok; else bad 'what there is without a policy'; fi
run 2 "--keep does not apply here" --model gpt2-124m --compare --keep 'h[*]'

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
    if [ "$(grep -c "^$preset .*[0-9.] *[0-9-]*$" out)" = 1 ]; then ok; else bad "--compare: not one line of $preset"; fi
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
run 0 "" chain.rmg --live --budget 80% --text
if grep -q "^  arena" out; then bad "an arena of a plan without addresses"; else ok; fi
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
run 0 "planning with 128 GiB of host memory" --model gpt2-124m --device rtx4090 --budget 1500M
holds 'v["status"] == "ok" && v["arena_bytes"] <= 1572864000 && v["host_bytes"] > 1000000000 && v["h2d_bytes"] > 0'
run 3 "too small" --model gpt2-124m --device rtx4090 --budget 1500M --host 0
# pinned and pageable host memory; devices where host and device are one pool
run 2 "--pinned is a part of --host" chain.rmg --budget 80% --pinned 1M
run 2 "give --link 25G,pageable=8G" chain.rmg --budget 80% --host 1G --link 1G --pinned 1M
run 2 "pageable=RATE (not above these)" chain.rmg --budget 80% --host 1G --link 1G,pageable=2G --pinned 1M
run 0 "" chain.rmg --budget 80% --host 1G --link 1G,pageable=250M --pinned 0 --kv
grep -q '^host_bytes=0$' out && grep -q '^pageable_bytes=' out && ok || bad "nothing is pinned with --pinned 0"
run 2 "host and device are one pool of memory" --model gpt2-124m --device gb10 --host 4G
run 2 "h[0]/fc has nowhere to go: host and device are one pool; leave it out" --model gpt2-124m --device gb10 --move 'h[*]/fc'
run 0 "" --model gpt2-124m --device gb10 --text
grep -q 'one pool of memory; they would free nothing' out && ok || bad "a plan for a device with unified memory says so"
# a disk behind host memory
run 2 "--disk is behind --host, and there is none" chain.rmg --budget 80% --disk 1G,1G
run 2 "give its rates: --disk 2T,6G" chain.rmg --budget 80% --host 1G --link 1G --disk 1G
run 2 "takes a size and, where the graph does not say them, rates" chain.rmg --budget 80% --host 1G --link 1G --disk 1G,in=3
run 2 "leave out --pinned" chain.rmg --budget 80% --host 1G --link 1G,pageable=1G --pinned 1M --disk 1G,1G
run 0 "" --model gpt2-124m --device rtx4090 --budget 1500M --host 1G --config quick-offmate.cfg --disk 4G,in=6G,out=4G --kv --out disk.rmp --export disk.rmg
grep -q '^load state:h' disk.rmp && grep -q '^store state:h' disk.rmp && grep -q '^home state:.* disk$' disk.rmp && ok || bad "a plan with a disk loads and stores"
holds 'v["host_bytes"] <= 1073741824 && v["disk_bytes"] > 0 && v["load_bytes"] > 0 && v["busy_store_ns"] > 0'
sed -n 's/^time_ns=//p' out >disk.time
grep -q '^tier disk rate_in=6000000000 rate_out=4000000000$' disk.rmg && ok || bad "a disk is a part of the graph"
run 0 "" disk.rmg --plan disk.rmp --kv
[ "$(sed -n 's/^time_ns=//p' out)" = "$(cat disk.time)" ] && ok || bad "a plan with a disk takes as long when it is read"
run 0 "" disk.rmg --plan disk.rmp --text
grep -q '^  on disk  ' out && grep -q '^  from disk  ' out && ok || bad "a plan with a disk says so to people"
run 3 "at once; " --model gpt2-124m --device rtx4090 --budget 1500M --host 10M --config quick-offmate.cfg --disk 4G,6G
run 0 "" --model gpt2-124m --device h100 --ranks 4,300G --budget 3G --config quick-search.cfg --kv --out shares.rmp --export shares.rmg
grep -q '^gather h' shares.rmp && grep -q '^scatter grad:h' shares.rmp && grep -q '@share$' shares.rmp && ok || bad "a plan in shares gathers, scatters, updates shares"
sed -n 's/^time_ns=//p' out >shares.time
run 0 "" shares.rmg --plan shares.rmp --kv
[ "$(sed -n 's/^time_ns=//p' out)" = "$(cat shares.time)" ] && ok || bad "a plan in shares takes as long when it is read"
run 0 "" shares.rmg --plan shares.rmp --svg shares.svg --kv
grep -q '>ranks<' shares.svg && grep -q '>gather, scatter<' shares.svg && ! grep -q '>copy<' shares.svg && ok || bad "the picture of a plan in shares: its lane, and what is in it"
run 0 "" shares.rmg --shares --budget 3G --config quick-search.cfg --kv
[ "$(sed -n 's/^time_ns=//p' out)" = "$(cat shares.time)" ] && ok || bad "--shares plans a graph with ranks as --ranks does the model"
run 2 "takes how many (2 to 65535), and the bytes a second" --model gpt2-124m --ranks 1,300G
run 2 "say how many cards" --model gpt2-124m --shares --budget 3G
run 2 "is all pinned" --model gpt2-124m --ranks 4,300G --host 4G --pinned 1G
run 0 "" --model gpt2-124m --device rtx4090 --ranks 4,24G --budget 1400M --host 1G --kv --out away.rmp --config quick-rockmate.cfg
grep -q '^home share:state:h' away.rmp && grep -q '^prefetch share:h' away.rmp && grep -q '@share@host$' away.rmp && [ "$(value host_bytes)" -gt 0 ] && ok || bad "weights and states in shares are at home in host memory, and updated there"
run 0 "" --model gpt2-124m --device rtx4090 --ranks 4,24G --budget 1200M --host 150M --disk 8G,6G --kv --out disk.rmp --config quick-rockmate.cfg
grep -q '^load share:state:h' disk.rmp && grep -q '^store share:' disk.rmp && [ "$(value disk_bytes)" -gt 0 ] && ok || bad "what is in shares waits on disk"
run 2 "--ranks describes a --model" shares.rmg --ranks 4,300G
run 3 "too small for step kind 'single' in shares on 4 ranks" --model gpt2-124m --ranks 4,300G --budget 100M
run 2 "no param can be in shares" chain.rmg --shares
run 3 "make the largest op smaller" --model gpt2-124m --device unified,flops=10T,bandwidth=200G,memory=2G
run 0 "" --model qwen2.5-1.5b --tokens 4096 --device rtx4060ti --host 64G
holds 'v["status"] == "ok" && v["arena_bytes"] <= v["budget_bytes"]'
run 0 "host memory may be faster: --host 128G" --model gpt2-1.5b --device rtx4090
run 0 "" --model gpt2-1.5b --device rtx4090 --host 0
run 2 "no such model" --model gpt5
run 2 "whole sequences" --model gpt2-124m --tokens 1000 --sequence 300
run 2 "--device takes" --model gpt2-124m --device abacus
run 2 "--tokens takes" --model gpt2-124m --tokens 0
run 2 "a graph or --model" chain.rmg --model gpt2-124m
run 2 "--tokens describes a --model" chain.rmg --tokens 5

# --- the answer for people, and for scripts
run 0 "" chain.rmg --budget 80% --kv
cp out kv
run 0 "" chain.rmg --budget 80% --text
if grep -q "^It fits: 17.1 MiB of 20.1 MiB. A step takes 18.10 us, 12.42 % slower than keeping all 25.1 MiB\.$" out &&
   grep -q "^  device memory  17.1 MiB ($(value arena_bytes kv) bytes)$" out && grep -q "^  fullest .*run 7 of 15 (bwd loss): 17.1 MiB live" out &&
   grep -q "^plan of a step (single)" out && ! grep -q "^status=" out; then ok; else bad "the answer for people"; fi
LC_ALL=C "$rmplan" chain.rmg --budget 80% --text >out 2>err
if grep -q "^  over the step  [ _.:=+*#-]* 0 to 17.1 MiB$" out && ! LC_ALL=C grep -q "[^ -~]" out; then ok; else bad "the sparkline in letters"; fi
LC_ALL=C.UTF-8 "$rmplan" chain.rmg --budget 80% --text >out 2>err
if grep -q "^  over the step  .*█.* 0 to 17.1 MiB$" out; then ok; else bad "the sparkline in blocks"; fi
run 0 "" chain.rmg --text
if grep -q "^It takes 25.1 MiB. A step takes 16.10 us: everything is kept\.$" out; then ok; else bad "an answer without a budget"; fi
run 3 "Give $min, or make the largest op smaller (b)" chain.rmg --budget 1K --text
if grep -q "^It does not fit in 1.0 KiB\.$" out && grep -q "^  would do .*($min bytes)" out; then ok; else bad "people are told that it does not fit"; fi
if grep -q "host memory" out; then bad "a hint at host memory without a link"; else ok; fi
run 3 "too small" chain.rmg --budget 1K --device rtx4060 --text
if grep -q "^  host memory    none; what waits could wait there: --host 64G$" out; then ok; else bad "a hint at host memory"; fi
run 0 "planning with 128 GiB" --model llama3-8b --tokens 8192 --device rtx4090 --budget 16G --text
if grep -q "% faster than keeping all [0-9.]* GiB\.$" out && grep -q "^  host memory    [0-9.]* GiB ([0-9]* bytes)$" out && ! grep -q -- "-[0-9.]* % over" out; then ok; else bad "faster is not slower by less than nothing"; fi
if grep -q "^  speed  *[0-9]* tokens a second$" out; then ok; else bad "tokens a second"; fi
run 0 "" chain.rmg --curve --text
if grep -q "^  *device  *of keeping all" out && grep -q "MiB .* us .* %$" out; then ok; else bad "the curve for people"; fi
if command -v python3 >/dev/null 2>&1; then
    cat >same.py <<'END'
import json
kv = dict(line.rstrip("\n").split("=", 1) for line in open("kv"))
o = json.load(open("out"))
whole = lambda x: all(map(whole, x.values() if isinstance(x, dict) else x)) if isinstance(x, (dict, list)) else isinstance(x, (int, str))
assert whole(o), "a number that is not whole"
for key, value in kv.items():
    assert key.endswith(("_ms", "_pct")) or str(o[key]) == value, key
assert o["gap_ppm"] == round(float(kv["gap_pct"]) * 1e4) and o["of"] == "chain.rmg" and o["solve_us"] >= o["first_us"]
END
    run 0 "" chain.rmg --budget 80% --json
    if python3 same.py 2>err; then ok; else bad "--json says what --kv says, in whole numbers"; fi
    if [ "$(wc -l <out)" = 1 ]; then ok; else bad "--json is one line"; fi
    for more in "--budget 80% --peak --tensors --explain h2" "--curve --points 3" "--compare --budget 60%" "--budget 1K" "--seconds 0 --budget 60%"; do
        # shellcheck disable=SC2086
        "$rmplan" chain.rmg --json $more >out 2>err
        if python3 -c 'import json; o = json.load(open("out")); assert o["status"] == "ok" or o["message"]' 2>>err; then ok; else bad "--json $more"; fi
    done
else echo "no python3: --json is not read back"; skipped=$((skipped + 7)); fi
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    on_terminal() { script -qec "$1" /dev/null </dev/null 2>err | tr '\r' '\n' >out; }
    on_terminal "'$rmplan' chain.rmg --budget 80%"
    if grep -q "^It fits" out && ! grep -q "^status=" out; then ok; else bad "a terminal shows the answer for people"; fi
    on_terminal "'$rmplan' chain.rmg --budget 80% --kv"
    if grep -q "^status=ok" out && ! grep -q "^It fits" out; then ok; else bad "--kv on a terminal"; fi
    on_terminal "'$rmplan' --model gpt2-124m --device rtx4090 --budget 2800M --seconds 1"
    if grep -q "^planning, [0-9.]* s: " out && grep -q "^It fits" out; then ok; else bad "the line while it plans"; fi
    on_terminal "timeout --foreground -s INT 2 '$rmplan' --model gpt2-124m --device rtx4090 --budget 2800M --seconds 30"
    if grep -qE "^(It fits|No plan yet)" out; then ok; else bad "Ctrl-C takes the best plan so far"; fi
else echo "no script(1): nothing is tried on a terminal"; skipped=$((skipped + 4)); fi

# --- did you mean; options that mean nothing; devices
run 2 "did you mean gpt2-124m?" --model gpt2
run 2 "did you mean rtx4090?" --model gpt2-124m --device rtx409
run 2 "did you mean offmate?" chain.rmg --preset offmat
run 2 "did you mean --budget?" chain.rmg --bugdet=3G
run 2 "did you mean h2?" chain.rmg --explain h22
run 2 "--explain takes a tensor, and this is an op: c; did you mean h3?" chain.rmg --explain c
run 2 "did you mean 3G?" chain.rmg --budget 3GiB
run 2 "takes no value: --curve=3" chain.rmg --curve=3
run 2 "did you mean rtx4090?" --model gpt2-124m --device RTX4090
run 2 "did you mean rtx4090?" --model gpt2-124m --device 4090
run 2 "did you mean llama3-8b?" --model llama-8b
while IFS='|' read -r arguments reason; do
    # shellcheck disable=SC2086
    run 2 "$reason" $arguments
    quiet "refused options"
done <<'END'
chain.rmg --margin 5|--margin is about copies to host memory, and there are none without --host
chain.rmg --link 25G|--link is about copies to host memory
chain.rmg --host 1G|the graph does not say how fast host memory is; give --link
chain.rmg --curve --compare|two tables
chain.rmg --kv --json|two forms of one answer
chain.rmg --live --align 64|nothing to align
chain.rmg --live --peak|--live plans without addresses
chain.rmg --plan p.rmp --budget 3G|--plan looks at a plan that is there
chain.rmg --plan p.rmp --seconds 3|--plan looks at a plan that is there
chain.rmg --compare --out c.rmp|--compare plans with every preset
chain.rmg --export c.rmg --svg c.svg|--export without --budget writes the graph
chain.rmg --images 3|--images describes a --model
--model resnet50 --tokens 4096|--images
--model gpt2-124m --images 4|--tokens
--model list --budget 3G|a list of names plans nothing
chain.rmg --out - --svg -|stdout (-) can be one file only
- --config -|stdin (-) can be one file only
END
run 0 "is more than the memory of the device (RTX 4060, PCIe 4 x8: 7.5 GiB)" --model gpt2-124m --device rtx4060 --budget 100G --preset noremat
run 0 "--preset stream copies to host memory, and there is none" chain.rmg --preset stream
run 0 "" --device list
if [ "$(grep -c "^  [a-z0-9-]* .*TFLOP/s.*GB/s$" out)" -ge 20 ]; then ok; else bad "--device list"; fi
run 0 "" --model gpt2-124m --tokens 2048 --preset noremat --device flops=100T,bandwidth=800G,memory=16G,link=12G
holds 'v["budget_bytes"] == 15 * 1073741824'
slow=$(value keep_all_ns)
run 0 "" --model gpt2-124m --tokens 2048 --preset noremat --device flops=200T,bandwidth=1.6T,memory=20G
holds 'v["budget_bytes"] == 19 * 1073741824 && v["keep_all_ns"] < 0.7 * '"$slow"
run 0 "" --model gpt2-124m --tokens 2048 --preset noremat --device rtx4090,memory=9G
holds 'v["budget_bytes"] == 8 * 1073741824'
for wrong in flops=1T rtx4090,speed=3 memory=8G,flops=0,bandwidth=1G ,; do run 2 "--device takes" --model gpt2-124m --device "$wrong"; done
run 0 "" chain.rmg --device rtx4060 --host 1G --preset offmate
holds 'v["budget_bytes"] == 8000000000 - 1073741824'
run 0 "" chain.rmg --host 1G --link 25G --budget 80%

# --- stdin, stdout, files that cannot be written
"$rmplan" - --budget 80% <chain.rmg >out 2>err
holds 'v["status"] == "ok" && v["time_ns"] == 18100'
"$rmplan" chain.rmg --budget 80% --out - >one.rmp 2>out
holds 'v["status"] == "ok"'
"$rmplan" chain.rmg --budget 80% --out two.rmp >out 2>err
if cmp -s one.rmp two.rmp; then ok; else bad "--out - is the plan and nothing else"; fi
"$rmplan" --model resnet50 --images 4 --export - 2>err | "$rmplan" - --preset noremat >out 2>>err
holds 'v["status"] == "ok"'
"$rmplan" - --budget 80% <bad.rmg >out 2>err
if grep -q "^stdin:4:56: found 'sped=1'" err; then ok; else bad "a fault on stdin"; fi
for path in no/such/place.rmp folder.rmg; do
    run 2 "$path: " chain.rmg --out $path
    quiet "--out $path"
done
if [ -c /dev/full ]; then
    for to in --out --svg --trace; do
        run 2 "/dev/full: " chain.rmg $to /dev/full
        quiet "$to /dev/full"
    done
else echo "no /dev/full: no full disk is tried"; skipped=$((skipped + 6)); fi

# --- what lies in memory: the sum of the rows is what the planner counts
peak_holds() { # ARGUMENTS...
    "$rmplan" "$@" --kv --peak >out 2>err
    if awk -F= '/^live_bytes=/ { live = $2 } /^# peak of run/ { n = split($0, w, " "); said = w[n - 1]; rows = 1; getline; next }
        rows { split($0, c, " "); sum += c[3]; if (c[3] + 0 > last && seen) bad = 1; last = c[3] + 0; seen = 1 }
        END { exit !(rows && !bad && said == live && sum == live) }' out; then ok; else bad "--peak: other bytes than the planner's: $*"; fi
}
peak_holds chain.rmg --budget 80%
peak_holds --model gpt2-124m --tokens 2048 --preset rockmate --budget 2500M
peak_holds --model resnet50 --images 8 --preset rockmate --budget 700M
peak_holds --model gpt2-124m --tokens 2048 --config quick-rockmate.cfg --ranks 8,360G
peak_holds --model gpt2-355m --tokens 2048 --device rtx4060 --host 64G --preset stream --budget 2G
for graph in "$here"/tests/data/regress/*.rmg; do
    if "$rmplan" "$graph" --preset rockmate >out 2>err; then peak_holds "$graph" --preset rockmate; fi
done
run 0 "" chain.rmg --budget 80% --peak
if [ "$(awk '/^ws:|^grad:h5|^l / { print $1, $7 }' out | sort | tr '\n' ';')" = "grad:h5 used;l kept;" ] && [ "$(awk '$1 == "w" || $1 == "x" { print $7 }' out | sort -u)" = lasting ] &&
   [ "$(awk '$7 == "kept" && $1 ~ /^h[0-9]$/' out | wc -l)" -ge 2 ]; then ok; else bad "--peak: why it is there"; fi
run 0 "" chain.rmg --budget 80% --text --peak
if grep -q "^This run itself uses .* is kept for later runs\.$" out && grep -q "^For 1.1 MiB less some of that would have to go" out && grep -q "^  h[0-9] (4.0 MiB, 1.00 us)\.$" out; then ok; else bad "--peak: what would have to go"; fi
first=$(sed -n '/^In memory at the fullest moment/,/^$/s/^\(h[0-9]*\) .* activation .* 4.0 MiB .* 23.44 %.*/\1/p' out | head -n 1) # of equal plans any
if grep -q "^In memory at the fullest moment, run 7 of 15 (bwd loss):" out && [ -n "$first" ] &&
   grep -q -- "--explain '$first'" out; then ok; else bad "--peak for people"; fi
run 0 "" chain.rmg --budget "$min" --text --peak
if grep -q "^No plan of this graph takes less than 13.1 MiB\.$" out && ! grep -q "would have to go" out; then ok; else bad "--peak: nothing could go"; fi
run 0 "" chain.rmg --budget 80% --tensors
if [ "$(awk '$1 == "h1" { print $3, $5, $6, $7 }' out)" = "4194304 1 0 0" ] && [ "$(awk '$1 == "w" { print $2, $4 }' out)" = "weight 100.00" ]; then ok; else bad "--tensors"; fi

# --- the largest that fits: it does, and the next one does not; what is said to be slower is
run 0 "" --model gpt2-124m --budget 3G --fit batch
searched=$(value largest)
run 0 "" --model gpt2-124m --budget 3G --fit batch --preset rockmate
largest=$(value largest)
if [ "$searched" -gt "$largest" ]; then ok; else bad "--fit: searching finds no larger size ($searched) than preset rockmate ($largest)"; fi
run 0 "" --model gpt2-124m --device rtx4060 --fit batch --preset rockmate
largest=$(value largest)
holds 'v["status"] == "ok" && v["largest"] >= v["fastest"] && v["fastest"] > 0 && v["budget_bytes"] == 8000000000 - 1073741824'
if awk 'NF == 7 && $1 > last && (NR < 6 || $1 > 0) { last = $1 } NF == 7 && $1 == '"$largest"' { at = $6 } NF == 7 && $6 ~ /^[0-9]/ && $6 > best { best = $6; size = $1 }
        /^fastest=/ { split($0, f, "=") } END { exit !(at > 0 && size == f[2]) }' out; then ok; else bad "--fit: the fastest"; fi
more=$(value more_largest) budget=$((8000000000 - 1073741824 + 1073741824))
holds 'v["more_bytes"] == 1073741824 && v["more_largest"] > v["largest"] && v["more_fastest_per_second"] > 0'
run 0 "" --model gpt2-124m --device rtx4060 --budget $budget --preset rockmate --host 0 --sequence 1024 --tokens $((1024 * more))
run 3 "too small" --model gpt2-124m --device rtx4060 --budget $budget --preset rockmate --host 0 --sequence 1024 --tokens $((1024 * (more + 1)))
run 0 "" --model gpt2-124m --device rtx4060 --preset rockmate --host 0 --sequence 1024 --tokens $((1024 * largest))
run 3 "too small" --model gpt2-124m --device rtx4060 --preset rockmate --host 0 --sequence 1024 --tokens $((1024 * (largest + 1)))
run 0 "" --model resnet50 --budget 4G --fit batch --slower 10 --json
if grep -q '"status":"ok","budget_bytes":4294967296,"largest":[1-9][0-9]*,"fastest":[1-9][0-9]*,"more_bytes":1073741824,"more_largest":[1-9][0-9]*,.*,"fit":\[{' out; then ok; else bad "--fit --json"; fi
run 0 "" --model resnet50 --budget 4G --fit batch --slower 10
largest=$(value largest)
if awk 'NF == 7 && $1 == '"$largest"' && $4 <= 10 { fits = 1 } NF == 7 && $1 == '"$largest"' + 1 && ($4 > 10 || $3 == "infeasible") { next_one = 1 } END { exit !(fits && next_one) }' out; then ok; else bad "--fit --slower"; fi
run 0 "" --model llama3.2-1b --device rtx4090 --fit sequence --preset rockmate --text
if grep -q "^The largest that fits in 21.4 GiB: [0-9]* tokens, at [0-9]* tokens a second\.$" out && grep -q "^With 1.0 GiB more: [0-9]* tokens, [0-9]* more, at" out && grep -q "does not fit .* GiB$" out; then ok; else bad "--fit sequence"; fi
run 3 "" --model llama3-8b --device rtx4060 --fit batch --text
if grep -q "^Not one fits in 6.5 GiB\. With host memory one may: --host 128G\.$" out && grep -q "^With 1.0 GiB more: not one fits, either\.$" out; then ok; else bad "--fit: not one"; fi
run 2 "--fit asks for sizes of a --model" chain.rmg --fit batch
run 2 "--fit takes batch or sequence" --model gpt2-124m --fit tokens
run 2 "--fit sequence is for language models" --model resnet50 --fit sequence
run 2 "--slower goes with --fit" --model resnet50 --slower 5
run 2 "--fit tries many sizes" --model resnet50 --fit batch --images 3
run 2 "--fit needs sizes in bytes" --model resnet50 --fit batch --budget 50%

# --- a plan that exists
"$rmplan" chain.rmg --budget 80% --out one.rmp >kv 2>err
run 0 "" chain.rmg --plan one.rmp --svg p.svg --peak
for key in time_ns arena_bytes live_bytes recomputed_ns keep_all_ns; do
    if [ "$(value $key)" = "$(value $key kv)" ]; then ok; else bad "--plan: another $key than when it was planned"; fi
done
if grep -q "^# peak of run 7 of 15" out && [ "$(head -c 5 p.svg)" = "<svg " ]; then ok; else bad "--plan with --peak and --svg"; fi
run 0 "" chain.rmg --plan one.rmp --text
if grep -q "^It takes 17.1 MiB" out && grep -q "^plan of a step" out; then ok; else bad "--plan for people"; fi
if grep -q "takes 0 bytes" out || grep -q "[+]1810000" out; then bad "a plan from text: figures of keeping everything that it does not know"; else ok; fi
sed '/^free h1$/d' one.rmp >edited.rmp
run 2 "edited.rmp:" chain.rmg --plan edited.rmp
quiet "a plan that is not legal"
run 2 "two.rmg:" two.rmg --plan one.rmp
run 2 "chain.rmg:" chain.rmg --plan chain.rmg
"$rmplan" chain.rmg --plan - <one.rmp >out 2>err
holds 'v["status"] == "ok"'

# a plan that copies, and a graph without a link: --link says how fast that is
"$rmplan" chain.rmg --budget 13M --host 1G --pinned 0 --link 1000G,pageable=300G --out pageable.rmp >kv 2>err
run 2 "the graph has no link: nothing can be copied; give --link 25G" chain.rmg --plan pageable.rmp
run 2 "no rates of pageable memory; give --link 25G,pageable=8G" chain.rmg --plan pageable.rmp --link 1000G
run 0 "" chain.rmg --plan pageable.rmp --link 1000G,pageable=300G
for key in time_ns arena_bytes pageable_bytes; do
    if [ "$(value $key)" = "$(value $key kv)" ]; then ok; else bad "--plan --link: another $key than when it was planned"; fi
done

# the fullest moment is the step's begin: an input that no op reads
sed '/^tensor x/i tensor big input 50000000' chain.rmg >begin.rmg
run 0 "" begin.rmg --peak
holds 'v["live_bytes"] == 51114112'
if grep -q "^# peak of run 0 of 13: begin, 51114112 bytes$" out && [ "$(awk '/^# peak/ { p = 1 } p && NF == 7 { n += $3 } END { print n }' out)" = 51114112 ]; then ok; else bad "--peak at the step's begin"; fi
run 0 "" begin.rmg --peak --text --svg begin.svg
if grep -q "^  fullest        the step's begin: 48.7 MiB live" out && grep -q "^In memory at the fullest moment, the step's begin:$" out && grep -q "^A step begins with all of that" out; then ok; else bad "--peak at the step's begin, for people"; fi
if grep -q ">Fullest at the step's begin: 48.7 MiB live\.<" begin.svg; then ok; else bad "a picture whose fullest moment is the step's begin"; fi

# --- messages of the library name options, all of them
if command -v python3 >/dev/null 2>&1 && [ -f "$here/tests/cli/words.py" ]; then
    if python3 "$here/tests/cli/words.py" "$here/rockmate.h" "$here/examples/rmplan.c" >out 2>err; then ok; else bad "messages with names of the C API"; fi
else echo "no python3: the words of messages are not looked at"; skipped=$((skipped + 1)); fi
run 2 "c runs once a step (once); name it in keep, too" once.rmg --recompute c
run 2 "op c: variant 'quick' is there already or has no usable name; give it another name" twice.rmg

# --- a preset that does not fit has the memory that it needs, and no figures of a plan
run 0 "" chain.rmg --budget 60% --compare
if [ "$(awk '$1 == "noremat" { print $2, $3, $4, $6 }' out)" = "infeasible - - -" ]; then ok; else bad "--compare: figures of no plan"; fi
needs=$(awk '$1 == "sqrt" { print $8 }' out)
run 0 "" chain.rmg --preset sqrt --budget "${needs:-0}"

# --- the manual has the options of --help, with their arguments
if [ -f "$here/docs/rmplan.1" ]; then
    "$rmplan" --help >out
    sed -n 's/^  \(--[a-z]*\)\( [A-Z]*\)\{0,1\}  *[^ ].*/\1\2/p' out | sed 's/ *$//' | sort >help.options
    sed -n '/^\.TP$/{n;s/^\.BI* \(\\-.*\)$/\1/p;}' "$here/docs/rmplan.1" | sed 's/[\\"]//g; s/  */ /' | grep -E '^--[a-z]+( [A-Z]+)?$' | sort -u >manual.options
    if [ "$(wc -l <help.options)" -ge 30 ] && diff help.options manual.options >>err; then ok; else bad "docs/rmplan.1 has other options than --help"; fi
    grep '^[A-Z].*?$' out | while read -r question; do grep -qF "\"$question\"" "$here/docs/rmplan.1" || echo "$question"; done >missing
    if [ -s missing ]; then bad "docs/rmplan.1 lacks the question '$(head -n 1 missing)'"; else ok; fi
    if command -v groff >/dev/null 2>&1; then
        groff -man -Tascii -ww "$here/docs/rmplan.1" >out 2>err
        if [ -s err ]; then bad "groff complains of docs/rmplan.1"; else ok; fi
    else echo "no groff: docs/rmplan.1 is not formatted"; skipped=$((skipped + 1)); fi
else echo "no docs/rmplan.1 here: not compared with --help"; skipped=$((skipped + 3)); fi

echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
