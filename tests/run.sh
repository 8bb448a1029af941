#!/bin/sh
# All tests of rockmate.h: sh tests/run.sh [--quick]
# From the repository's root or anywhere. Needs a C and a C++ compiler; what else a test needs and the machine lacks is
# installed where apt-get works without asking, or the test is skipped with a word. Last line: N passed, N failed, N skipped.
cd "$(dirname "$0")/.." || exit 2
quick=0
[ "$1" = "--quick" ] && quick=1
CC=${CC:-cc}
CXX=${CXX:-c++}
out=build/tests
mkdir -p "$out"
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
    if "$@" >"$out/log" 2>&1; then ok; else bad "$what"; head -n 40 "$out/log"; fi
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

echo "== compile"
for c in gcc clang; do
    have $c || { skip "$c is not here"; continue; }
    check "$c -std=c99 -O2" $c -std=c99 $W -O2 -I. -o "$out/impl" tests/compile/implementation.c
    check "$c -std=c99 with threads" $c -std=c99 $W -DROCKMATE_THREADS -fsyntax-only -I. tests/compile/implementation.c
    for std in c11 gnu17; do check "$c -std=$std" $c -std=$std $W -fsyntax-only -I. tests/compile/implementation.c; done
    check "$c static twice" $c -std=c99 $W -O0 -I. -o "$out/static" tests/compile/static_a.c tests/compile/static_b.c
    check "$c static twice runs" "$out/static"
    check "$c two units" $c -std=c99 $W -O0 -I. -o "$out/two" tests/compile/user_api.c tests/compile/user_impl.c
    check "$c two units run" "$out/two"
done
for c in g++ clang++; do
    have $c || { skip "$c is not here"; continue; }
    check "$c -std=c++11 -O2" $c -std=c++11 $W -O2 -I. -x c++ -o "$out/impl" tests/compile/implementation.c
    check "$c -std=c++11 with threads" $c -std=c++11 $W -DROCKMATE_THREADS -fsyntax-only -I. -x c++ tests/compile/implementation.c
    for std in c++14 c++17 c++20; do check "$c -std=$std" $c -std=$std $W -fsyntax-only -I. -x c++ tests/compile/implementation.c; done
    check "$c the API as C++20" $c -std=c++20 $W -O0 -I. -x c++ -o "$out/two" tests/compile/user_api.c tests/compile/user_impl.c
    check "$c the API as C++20 runs" "$out/two"
done
if have nvcc; then
    check "nvcc" nvcc -O2 -x cu -Werror all-warnings -I. -o "$out/cu" tests/compile/implementation.c
    check "nvcc the API" nvcc -x cu -std=c++17 -Werror all-warnings -I. -c -o "$out/cu.o" tests/compile/user_api.c
else skip "nvcc is not here: the header was not compiled as CUDA"; fi
echo 'int main(void){return 0;}' >"$out/m32.c"
gcc -m32 -o "$out/m32" "$out/m32.c" 2>/dev/null || want none-such gcc-multilib
if gcc -m32 -o "$out/m32" "$out/m32.c" 2>/dev/null; then
    check "gcc -m32" gcc -m32 -std=c99 $W -O1 -I. -o "$out/impl32" tests/compile/implementation.c
else skip "no 32-bit compiler (gcc-multilib)"; fi
if have python3; then counted rooms python3 tests/structure/rooms.py rockmate.h; counted rooms_cuda python3 tests/structure/rooms.py rockmate_cuda.h; else skip "python3 is not here: order of rooms"; fi

echo "== unit, oracle, property, numeric, oom"
check "the second referee" ${CXX} -std=c++17 -Wall -Wextra -Wshadow -Wconversion -O2 -c -I. -o "$out/replay.o" tests/oracle/replay.cpp
for t in tests/unit/test_*.c tests/oracle/test_*.c tests/oracle/test_*.cpp tests/property/test_*.c tests/numeric/test_*.c tests/oom/test_*.c; do
    [ -f "$t" ] || continue
    name=$(basename "$t" | sed 's/\.[a-z]*$//')
    case $t in
    *.cpp) check "build $name" ${CXX} -std=c++17 $SAN -I. -o "$out/$name" "$t" ;;
    *) if grep -q 'oracle/replay.h' "$t"; then
           check "build $name" ${CC} -std=gnu99 $SAN -I. -c -o "$out/$name.o" "$t"
           check "link $name" ${CXX} -fsanitize=address,undefined -o "$out/$name" "$out/$name.o" "$out/replay.o" -lm
       else check "build $name" ${CC} -std=gnu99 $SAN -I. -o "$out/$name" "$t" -lm -lpthread; fi ;;
    esac
    [ -x "$out/$name" ] && counted "$name" "$out/$name"
done

echo "== cuda"
cuda=${CUDA_HOME:-/usr/local/cuda}
if [ -f "$cuda/include/cuda_runtime_api.h" ]; then
    for inc in "-isystem $cuda/include" "-I$cuda/include"; do
        for c in "gcc -std=c99" "clang -std=c99" "gcc -std=gnu17" "g++ -x c++ -std=c++11" "g++ -x c++ -std=c++17" "clang++ -x c++ -std=c++11" "clang++ -x c++ -std=c++17"; do
            have "${c%% *}" || continue
            check "$c $inc" $c $W -fsyntax-only -I. $inc tests/compile/cuda.c
        done
    done
    if have nvcc; then
        check "nvcc rockmate_cuda.h" nvcc -x cu -Werror all-warnings -I. -o "$out/cuda_nvcc" tests/compile/cuda.c
        check "nvcc train_gpt.cu" nvcc -O2 -arch=sm_90 -Werror all-warnings -Xcompiler -fopenmp,-Wall -o "$out/train_gpt_cuda" examples/cuda/train_gpt.cu -lcublas
        "$out/train_gpt_cuda" --help >/dev/null 2>&1 && ok || bad "train_gpt.cu does not start"
        if [ -f "$cuda/include/nccl.h" ] || [ -f /usr/include/nccl.h ]; then
            check "nvcc train_gpt_nccl.cu" nvcc -O1 -arch=sm_90 -Werror all-warnings -Xcompiler -fopenmp,-Wall -o "$out/train_gpt_nccl" examples/cuda/train_gpt_nccl.cu -lcublas -lnccl
        else skip "no NCCL: train_gpt_nccl.cu was not compiled"; fi
    fi
    dirs="-L$cuda/lib64 -L$cuda/lib -Wl,-rpath,$cuda/lib64"
    check "link with -lcudart" ${CC} -std=gnu99 -O1 -I. -isystem "$cuda/include" -o "$out/cuda_so" tests/compile/cuda.c $dirs -lcudart
    check "the real runtime, shared" "$out/cuda_so"
    check "link with -lcudart_static" ${CC} -std=gnu99 -O1 -I. -isystem "$cuda/include" -o "$out/cuda_a" tests/compile/cuda.c $dirs -lcudart_static -lpthread -ldl -lrt
    check "the real runtime, static" "$out/cuda_a"
    check "build the stand-in for cudart" ${CC} -std=gnu99 $SAN -isystem "$cuda/include" -c -o "$out/standin.o" tests/cuda/cudart_standin.c
    for t in tests/cuda/test_*.c; do
        name=$(basename "$t" .c)
        check "build $name" ${CC} -std=gnu99 $SAN -I. -Itests/property -isystem "$cuda/include" -o "$out/$name" "$t" "$out/standin.o" -lm
        [ -x "$out/$name" ] && counted "$name" "$out/$name"
    done
else skip "no CUDA toolkit (set CUDA_HOME): nothing of rockmate_cuda.h was tested"; fi

if echo 'int main(void){return 0;}' >"$out/m32.c" && ${CC} -fsanitize=thread -o "$out/m" "$out/m32.c" 2>/dev/null && "$out/m" 2>/dev/null; then
    check "build test_lanes for threads" ${CC} -std=gnu99 -O1 -g -fsanitize=thread -I. -o "$out/lanes_threads" tests/property/test_lanes.c -lm -lpthread
    counted lanes_threads "$out/lanes_threads" 25 5000
else skip "no ThreadSanitizer here"; fi

echo "== the same plans from every compiler"
# same NAME COMPILER...: builds, runs, and compares with the first that was built
same() {
    name=$1; shift
    have "$1" || { skip "same plans: $1 is not here"; return; }
    check "build same_plans ($name)" "$@" -I. -o "$out/same_$name" tests/property/same_plans.c -lm
    "$out/same_$name" 12 >"$out/same_$name.txt" 2>&1 || bad "same_plans ($name): exit status $?"
    [ -n "$first" ] || first=$name
    if cmp -s "$out/same_$first.txt" "$out/same_$name.txt"; then ok; else bad "$name makes other plans than $first"; diff "$out/same_$first.txt" "$out/same_$name.txt" | head -n 6; fi
}
first=
same gcc_O0 gcc -std=gnu99 -O0
same gcc_O3 gcc -std=gnu99 -O3
same clang clang -std=gnu99 -O2
same g++ g++ -x c++ -std=c++11 -O2
same clang++ clang++ -x c++ -std=c++17 -O2
if gcc -m32 -o "$out/m32" "$out/m32.c" 2>/dev/null; then same m32 gcc -m32 -std=gnu99 -O2; else skip "same plans: no 32-bit compiler"; fi
[ "$(wc -l <"$out/same_$first.txt")" -gt 500 ] && ok || bad "same_plans printed too little"

echo "== fuzz"
for t in tests/fuzz/fuzz_*.c; do
    [ -f "$t" ] || continue
    name=$(basename "$t" .c)
    check "build $name" ${CC} -std=gnu99 $SAN -DFUZZ_STANDALONE -I. -o "$out/$name" "$t" -lm
    check "run $name" "$out/$name" 20000
done

echo "== command line and examples"
check "build rmplan" ${CC} -O2 -o "$out/rmplan" examples/rmplan.c -lm
for t in tests/cli/*.sh; do
    [ -f "$t" ] || continue
    counted "$(basename "$t" .sh)" sh "$t" "$out/rmplan"
done
if ${CC} -fopenmp -o "$out/m" "$out/m32.c" 2>/dev/null; then omp=-fopenmp; else omp=; fi
want mpicc libopenmpi-dev; want mpirun openmpi-bin
check "build train_gpt" ${CC} -O3 $omp -o "$out/train_gpt" examples/train_gpt.c -lm
[ -f tests/cli/train_gpt.test ] && counted train_gpt sh tests/cli/train_gpt.test "$out/train_gpt"
if [ $quick = 0 ] && want valgrind valgrind; then
    check "build for valgrind" ${CC} -O1 -g -std=gnu99 -I. -o "$out/vg" tests/unit/test_api.c -lm
    check "valgrind test_api" valgrind -q --error-exitcode=9 --leak-check=full "$out/vg"
else skip "valgrind"; fi

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
