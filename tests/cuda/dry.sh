#!/bin/sh
# The dry run of tests/cuda/gpu.sh and tests/bench/cuda.sh: every line of them, and of train_gpt.cu what the host does, without a card.
# sh tests/cuda/dry.sh; needs nvcc, two minutes of a processor; with LLMC=PATH, a checkout of llm.c, two more: its kernels, too. Last line: N passed, N failed, N skipped.
cd "$(dirname "$0")/../.." || exit 2
DRY=1 LIMIT=${LIMIT:-1800} timeout 1900 sh tests/cuda/gpu.sh >build/dry.log 2>&1
code=$?
passed=0 failed=0
want() { # WHAT PATTERN LEAST: so many lines of the log have it
    if [ "$(grep -c -E -e "$2" build/dry.log)" -ge "$3" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "dry.sh: $1"; fi
}
[ $code = 0 ] && passed=1 || { failed=1; echo "dry.sh: gpu.sh ended with $code"; }
want "the runtime" '^the runtime +as promised' 1
want "the link, beside fills and beside products" '^link beside (fills|products): h2d_gb_s=' 2
want "rows in streams" '^124m@all +all-resident +streams .*[0-9]' 1
want "rows of graphs" '^124m@all +all-resident +graph .*[0-9]' 1
want "times beside the roofline's" '^   (attention|mlp) +(forward|backward) +[0-9]+ .*[0-9]' 4
want "gelu as an op of its own" '^124m@apart +all-resident' 1
want "attention by cuDNN" '^124m@cudnn +all-resident +graph ' 1
want "recomputation" '^124m@[0-9]+% +remat' 1
want "copies" '^124m@[0-9]+% +(joint|offload) +(graph|streams)' 4
want "the large model" '@(50|35|80|25)% +(joint|every-block|remat|offload|llmc-2)' 8
want "Llama-8B" '^llama-8b@' 3
want "the sanitizer" '^compute-sanitizer (memcheck|racecheck|initcheck) +clean' 3
want "bits" 'same bits' 8
if [ -n "$LLMC" ]; then
    want "llm.c itself" '^d6@all +llm.c ' 1
    want "the port, as a graph and in streams" '^d6@all +port +(graph|streams) ' 2
    want "the port in budgets" '^d6@[0-9]+% +port +graph ' 2
    out=build/gpu
    # its launch on the legacy stream, as it stands in llm.c: the library names the op that made it
    nvcc -O1 -std=c++17 --use_fast_math -arch=sm_90 -isystem "$LLMC" -cudart none -DLLMC_AS_IT_IS -DRMI_IMPLEMENTED -o $out/llmc_as_it_is examples/cuda/llmc.cu $out/rockmate.o $out/dry.o $out/cudart_standin.o -lm >>build/dry.log 2>&1
    $out/llmc_as_it_is -i $out/tokens.bin -e d6 -b 4 -t 64 -x 3 --untuned --quiet >>build/dry.log 2>&1
    want "a launch on the legacy stream" 'h\[5\]/attention: it used the legacy default stream' 1
    # outliers are found on the host, amid a captured step; what is saved is read again
    for more in "--save $out/state.bin" "--load $out/state.bin -x 6"; do
        $out/llmc_port -i $out/tokens.bin -e d6 -b 4 -t 64 -x 3 -d 768 -sl 6 -sg 6 --untuned $more >>build/dry.log 2>&1 || { failed=$((failed + 1)); echo "dry.sh: the port $more"; }
    done
    want "steps after a restart" '^step +(4|6)/6 \| loss' 2
else echo "dry.sh: no llm.c (LLMC=: a checkout): the port was left out"; fi
if grep -q FAILED build/dry.log; then failed=$((failed + 1)); grep FAILED build/dry.log | head -n 5; fi
if grep -q -E 'graph\? ' build/dry.log; then failed=$((failed + 1)); echo "dry.sh: steps that could not be graphs"; fi
if grep -q -i -E 'syntax error|not found|integer expression|unexpected' build/dry.log; then failed=$((failed + 1)); grep -i -E 'syntax error|not found|integer expression|unexpected' build/dry.log | head -n 5; fi
tail -n 1 build/dry.log
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
