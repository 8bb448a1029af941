#!/bin/sh
# All tests of rockmate.h: sh tests/run.sh [--quick]
# From the repository's root or anywhere. Needs a C and a C++ compiler; what else a test needs and the machine lacks is
# installed where apt-get works without asking, or the test is skipped with a word. As many jobs run side by side as there are
# cores (JOBS=N: so many). Last line: N passed, N failed, N skipped.
cd "$(dirname "$0")/.." || exit 2
quick=0
[ "$1" = "--quick" ] && quick=1
CC=${CC:-cc}
CXX=${CXX:-c++}
out=build/tests
rm -rf "$out/jobs" "$out/kept"
mkdir -p "$out/jobs" "$out/kept"
log=$out/log
W="-Wall -Wextra -pedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Wvla -Werror"
SAN="-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
passed=0 failed=0 skipped=0
export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1"

have() { command -v "$1" >/dev/null 2>&1; }
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED: $*"; }
skip() { skipped=$((skipped + 1)); echo "skipped: $*"; }

# want PROGRAM PACKAGE: is it there, or can it be installed?
updated=0
want() {
    have "$1" && return 0
    [ "$(id -u)" = 0 ] && have apt-get || return 1
    if [ $updated = 0 ]; then apt-get update >/dev/null 2>&1; updated=1; fi
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$2" >/dev/null 2>&1
    have "$1"
}

# A command that must succeed.
check() {
    what=$1; shift
    if "$@" >"$log" 2>&1; then ok; else bad "$what"; head -n 40 "$log"; fi
}

# A test program whose last line says "N passed, N failed, N skipped": its counts are added up.
counted() {
    what=$1; shift
    start=$(date +%s)
    "$@" >"$out/$what.log" 2>&1
    code=$?
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$out/$what.log" | tail -n 1)
    if [ -z "$line" ]; then bad "$what: exit status $code and no closing line"; tail -n 30 "$out/$what.log"; return; fi
    p=$(echo "$line" | sed 's/ passed.*//'); f=$(echo "$line" | sed 's/.*passed, //; s/ failed.*//')
    s=$(echo "$line" | sed -n 's/.*failed, \([0-9]*\) skipped.*/\1/p')
    passed=$((passed + p)); failed=$((failed + f)); skipped=$((skipped + ${s:-0}))
    if [ "$f" != 0 ] || [ $code != 0 ]; then
        [ "$f" != 0 ] || failed=$((failed + 1))
        echo "FAILED: $what (exit status $code)"; grep -v '^$' "$out/$what.log" | tail -n 25
    fi
    echo "$what: $line ($(($(date +%s) - start)) s)"
}

# Jobs: pieces of this script that share no files, so they may run side by side. `job NAME FUNCTION ARGUMENTS...` notes one down,
# run_jobs runs all that were noted, prints what each has to say when it has ended, and adds up what they counted.
jobs=0
job() {
    jobs=$((jobs + 1))
    echo "$1" >"$out/jobs/$jobs.name"
    shift
    : >"$out/jobs/$jobs.call"
    for word in "$@"; do printf "'%s' " "$word" >>"$out/jobs/$jobs.call"; done
}
one_job() { # NUMBER
    passed=0 failed=0 skipped=0 log=$out/jobs/$1.log
    eval "$(cat "$out/jobs/$1.call")"
    echo "$passed $failed $skipped" >"$out/jobs/$1.counts"
}
worker() {
    n=1
    while [ $n -le $jobs ]; do
        if mkdir "$out/jobs/$n.taken" 2>/dev/null; then
            (one_job $n) >"$out/jobs/$n.said" 2>&1
            cat "$out/jobs/$n.said"
        fi
        n=$((n + 1))
    done
}
run_jobs() {
    k=0
    while [ $k -lt "${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}" ]; do worker & k=$((k + 1)); done
    wait
    n=1
    while [ $n -le $jobs ]; do
        if read -r p f s <"$out/jobs/$n.counts" 2>/dev/null; then
            passed=$((passed + p)); failed=$((failed + f)); skipped=$((skipped + s))
        else bad "$(cat "$out/jobs/$n.name") did not end"; fi
        n=$((n + 1))
    done
}

# --- what there is to do
compile_c() { # COMPILER
    c=$1 d=$out/compile_$1
    mkdir -p "$d"
    check "$c -std=c99 -O2" $c -std=c99 $W -O2 -I. -o "$d/impl" tests/compile/implementation.c
    check "$c -std=c99 with threads" $c -std=c99 $W -DROCKMATE_THREADS -fsyntax-only -I. tests/compile/implementation.c
    for std in c11 gnu17; do check "$c -std=$std" $c -std=$std $W -fsyntax-only -I. tests/compile/implementation.c; done
    check "$c static twice" $c -std=c99 $W -O0 -I. -o "$d/static" tests/compile/static_a.c tests/compile/static_b.c
    check "$c static twice runs" "$d/static"
    check "$c two units" $c -std=c99 $W -O0 -I. -o "$d/two" tests/compile/user_api.c tests/compile/user_impl.c
    check "$c two units run" "$d/two"
}
compile_cpp() {
    c=$1 d=$out/compile_$1
    mkdir -p "$d"
    check "$c -std=c++11 -O2" $c -std=c++11 $W -O2 -I. -x c++ -o "$d/impl" tests/compile/implementation.c
    check "$c -std=c++11 with threads" $c -std=c++11 $W -DROCKMATE_THREADS -fsyntax-only -I. -x c++ tests/compile/implementation.c
    for std in c++14 c++17 c++20; do check "$c -std=$std" $c -std=$std $W -fsyntax-only -I. -x c++ tests/compile/implementation.c; done
    check "$c the API as C++20" $c -std=c++20 $W -O0 -I. -x c++ -o "$d/two" tests/compile/user_api.c tests/compile/user_impl.c
    check "$c the API as C++20 runs" "$d/two"
}
compile_nvcc() {
    check "nvcc" nvcc -O2 -x cu -Werror all-warnings -I. -o "$out/cu" tests/compile/implementation.c
    check "nvcc the API" nvcc -x cu -std=c++17 -Werror all-warnings -I. -c -o "$out/cu.o" tests/compile/user_api.c
}
compile_m32() { check "gcc -m32" gcc -m32 -std=c99 $W -O1 -I. -o "$out/impl32" tests/compile/implementation.c; }

test_of() { # SOURCE
    name=$(basename "$1" | sed 's/\.[a-z]*$//')
    case $1 in
    *.cpp) check "build $name" ${CXX} -std=c++17 $SAN -I. -o "$out/$name" "$1" ;;
    *) if grep -q 'oracle/[a-z]*[.]h' "$1"; then
           check "build $name" ${CC} -std=gnu99 $SAN -I. -c -o "$out/$name.o" "$1"
           check "link $name" ${CXX} -fsanitize=address,undefined -o "$out/$name" "$out/$name.o" "$out/replay.o" -lm -lpthread
       else check "build $name" ${CC} -std=gnu99 $SAN -I. -o "$out/$name" "$1" -lm -lpthread; fi ;;
    esac
    [ -x "$out/$name" ] && counted "$name" env RMTEST_KEEP="$out/kept/$name" "$out/$name"
}

cuda_header() { # COMPILER AND OPTIONS, as one word
    have "${1%% *}" || return 0
    for inc in "-isystem $cuda/include" "-I$cuda/include"; do check "$1 $inc" $1 $W -fsyntax-only -I. $inc tests/compile/cuda.c; done
}
cuda_link() {
    dirs="-L$cuda/lib64 -L$cuda/lib -Wl,-rpath,$cuda/lib64"
    check "link with -lcudart" ${CC} -std=gnu99 -O1 -I. -isystem "$cuda/include" -o "$out/cuda_so" tests/compile/cuda.c $dirs -lcudart
    check "the real runtime, shared" "$out/cuda_so"
    check "link with -lcudart_static" ${CC} -std=gnu99 -O1 -I. -isystem "$cuda/include" -o "$out/cuda_a" tests/compile/cuda.c $dirs -lcudart_static -lpthread -ldl -lrt
    check "the real runtime, static" "$out/cuda_a"
    check "link with the stand-in" ${CC} -std=gnu99 $SAN -I. -isystem "$cuda/include" -o "$out/cuda_standin" tests/compile/cuda.c "$out/standin.o" -lm
    check "steps on the stand-in" "$out/cuda_standin"
}
cuda_nvcc() { check "nvcc rockmate_cuda.h" nvcc -x cu -Werror all-warnings -I. -o "$out/cuda_nvcc" tests/compile/cuda.c; }
cuda_example() {
    check "nvcc train_gpt.cu" nvcc -O2 -arch=sm_90 -Werror all-warnings -Xcompiler -fopenmp,-ffp-contract=off,-Wall -o "$out/train_gpt_cuda" examples/cuda/train_gpt.cu -lcublas
    "$out/train_gpt_cuda" --help >/dev/null 2>&1 && ok || bad "train_gpt.cu does not start"
    if [ -f "$cuda/include/nccl.h" ] || [ -f /usr/include/nccl.h ]; then
        check "nvcc train_gpt_nccl.cu" nvcc -O1 -arch=sm_90 -Werror all-warnings -Xcompiler -fopenmp,-ffp-contract=off,-Wall -o "$out/train_gpt_nccl" examples/cuda/train_gpt_nccl.cu -lcublas -lnccl
    else skip "no NCCL: train_gpt_nccl.cu was not compiled"; fi
}
cuda_test() { # SOURCE
    name=$(basename "$1" .c)
    check "build $name" ${CC} -std=gnu99 $SAN -I. -Itests/property -isystem "$cuda/include" -c -o "$out/$name.o" "$1"
    check "link $name" ${CXX} -fsanitize=address,undefined -o "$out/$name" "$out/$name.o" "$out/standin.o" "$out/replay.o" -lm -lpthread
    [ -x "$out/$name" ] && counted "$name" env RMTEST_KEEP="$out/kept/$name" "$out/$name"
}

lanes_threads() {
    check "build test_lanes for threads" ${CC} -std=gnu99 -O1 -g -fsanitize=thread -I. -c -o "$out/lanes_threads.o" tests/property/test_lanes.c
    check "link test_lanes for threads" ${CXX} -fsanitize=thread -o "$out/lanes_threads" "$out/lanes_threads.o" "$out/replay.o" -lm -lpthread
    counted lanes_threads "$out/lanes_threads" 16 5000
    check "build test_run for threads" ${CC} -std=gnu99 -O1 -g -fsanitize=thread -I. -c -o "$out/run_threads.o" tests/unit/test_run.c
    check "link test_run for threads" ${CXX} -fsanitize=thread -o "$out/run_threads" "$out/run_threads.o" "$out/replay.o" -lm -lpthread
    counted run_threads "$out/run_threads"
}
same() { # NAME COMPILER...: its plans, to be compared with the others' at the end
    name=$1; shift
    check "build same_plans ($name)" "$@" -I. -o "$out/same_$name" tests/property/same_plans.c -lm
    "$out/same_$name" 12 >"$out/same_$name.txt" 2>&1 && ok || bad "same_plans ($name): exit status $?"
}
fuzz() {
    name=$(basename "$1" .c)
    check "build $name" ${CC} -std=gnu99 $SAN -DFUZZ_STANDALONE -I. -o "$out/$name" "$1" -lm
    check "run $name" "$out/$name" 20000
}
planner_cli() {
    check "build rmplan" ${CC} -O2 -o "$out/rmplan" examples/rmplan.c -lm
    for t in tests/cli/*.sh; do
        [ -f "$t" ] && counted "$(basename "$t" .sh)" sh "$t" "$out/rmplan"
    done
}
trainer_cli() {
    if ${CC} -fopenmp -o "$out/m" "$out/m32.c" 2>/dev/null; then omp=-fopenmp; else omp=; fi
    check "build train_gpt" ${CC} -O3 $omp -o "$out/train_gpt" examples/train_gpt.c -lm
    [ -f tests/cli/train_gpt.test ] && counted train_gpt sh tests/cli/train_gpt.test "$out/train_gpt"
}
with_valgrind() {
    check "build for valgrind" ${CC} -O1 -g -std=gnu99 -I. -o "$out/vg" tests/unit/test_api.c -lm
    check "valgrind test_api" valgrind -q --error-exitcode=9 --leak-check=full "$out/vg"
}

# --- the longest first
echo 'int main(void){return 0;}' >"$out/m32.c"
gcc -m32 -o "$out/m32" "$out/m32.c" 2>/dev/null || want none-such gcc-multilib
gcc -m32 -o "$out/m32" "$out/m32.c" 2>/dev/null && m32=1 || m32=0
want mpicc libopenmpi-dev; want mpirun openmpi-bin
cuda=${CUDA_HOME:-/usr/local/cuda}
[ -f "$cuda/include/cuda_runtime_api.h" ] && has_cuda=1 || has_cuda=0
check "the second referee" ${CXX} -std=c++17 -Wall -Wextra -Wshadow -Wconversion -O2 -c -I. -o "$out/replay.o" tests/oracle/replay.cpp
[ $has_cuda = 1 ] && check "build the stand-in for cudart" ${CC} -std=gnu99 $SAN -isystem "$cuda/include" -c -o "$out/standin.o" tests/cuda/cudart_standin.c

job train_gpt trainer_cli
for t in tests/property/test_*.c tests/oracle/test_*.c tests/oracle/test_*.cpp tests/unit/test_*.c tests/numeric/test_*.c tests/oom/test_*.c; do
    [ -f "$t" ] && job "$t" test_of "$t"
done
if [ $has_cuda = 1 ]; then
    for t in tests/cuda/test_*.c; do job "$t" cuda_test "$t"; done
    if have nvcc; then
        job cuda_nvcc cuda_nvcc
        job cuda_example cuda_example
    fi
    job cuda_link cuda_link
    for c in "gcc -std=c99" "clang -std=c99" "gcc -std=gnu17" "g++ -x c++ -std=c++11" "g++ -x c++ -std=c++17" "clang++ -x c++ -std=c++11" "clang++ -x c++ -std=c++17"; do job "$c" cuda_header "$c"; done
else skip "no CUDA toolkit (set CUDA_HOME): nothing of rockmate_cuda.h was tested"; fi
if ${CC} -fsanitize=thread -o "$out/m" "$out/m32.c" 2>/dev/null && "$out/m" 2>/dev/null; then job lanes_threads lanes_threads; else skip "no ThreadSanitizer here"; fi
job rmplan planner_cli
job state_order counted state_order sh tests/unit/state_order.sh "$CC"
same_names=
if have gcc; then job same_O0 same gcc_O0 gcc -std=gnu99 -O0; job same_O3 same gcc_O3 gcc -std=gnu99 -O3; same_names="gcc_O0 gcc_O3"; fi
if have clang; then job same_clang same clang clang -std=gnu99 -O2; same_names="$same_names clang"; fi
if have g++; then job same_g++ same g++ g++ -x c++ -std=c++11 -O2; same_names="$same_names g++"; fi
if have clang++; then job same_clang++ same clang++ clang++ -x c++ -std=c++17 -O2; same_names="$same_names clang++"; fi
if [ $m32 = 1 ]; then job same_m32 same m32 gcc -m32 -std=gnu99 -O2; same_names="$same_names m32"; else skip "same plans: no 32-bit compiler"; fi
for t in tests/fuzz/fuzz_*.c; do [ -f "$t" ] && job "$t" fuzz "$t"; done
for c in gcc clang; do if have $c; then job "compile $c" compile_c $c; else skip "$c is not here"; fi; done
for c in g++ clang++; do if have $c; then job "compile $c" compile_cpp $c; else skip "$c is not here"; fi; done
if have nvcc; then job nvcc compile_nvcc; else skip "nvcc is not here: the header was not compiled as CUDA"; fi
if [ $m32 = 1 ]; then job m32 compile_m32; else skip "no 32-bit compiler (gcc-multilib)"; fi
if [ $quick = 0 ] && want valgrind valgrind; then job valgrind with_valgrind; else skip "valgrind"; fi
if have python3; then
    job rooms counted rooms python3 tests/structure/rooms.py rockmate.h
    job rooms_cuda counted rooms_cuda python3 tests/structure/rooms.py rockmate_cuda.h
else skip "python3 is not here: order of rooms"; fi
run_jobs

# --- the plans that the tests asked the second referee about, before the first one
referee=../shared/tools/replay.py
if have python3 && [ -f $referee ]; then counted judge python3 tests/oracle/judge.py $referee "$out"/kept/* --seconds 150
else skip "no $referee: the tests' plans had one referee"; fi

# --- the same plans from every compiler
first=
for name in $same_names; do
    [ -n "$first" ] || first=$name
    if cmp -s "$out/same_$first.txt" "$out/same_$name.txt"; then ok; else bad "$name makes other plans than $first"; diff "$out/same_$first.txt" "$out/same_$name.txt" | head -n 6; fi
done
[ -z "$first" ] || { [ "$(wc -l <"$out/same_$first.txt")" -gt 500 ] && ok || bad "same_plans printed too little"; }

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
