#!/bin/sh
# The tests of rockmate.h, from the repository's root or anywhere:
#   sh tests/run.sh              what matters: unit tests and oracles, random graphs from few seeds, one C and one C++ compiler, the
#                                command line programs; 980 s of processors: 8 minutes on two cores (gcc 12.2; aim: 4)
#   sh tests/run.sh --all        everything: some times the seeds, all compilers and language standards, threads, valgrind, MPI, a machine
#                                of the other byte order, a referee in another language (2,206 s of processors: 19 minutes on two
#                                cores, 2026-11-29)
#   sh tests/run.sh [--all] test_plan rmplan ...      only the jobs of these names
# Needs a C and a C++ compiler (CC, CXX: which); what else a job needs and the machine lacks is installed where apt-get works
# without asking, or the job is skipped with a word. As many jobs run side by side as there are cores (JOBS=N: so many).
# torch, the job of examples/torch, wants a python with PyTorch (PYTHON: which); docs, cuda_llmc and cuda_llmc_numbers want llm.c (LLMC: a checkout); cuda_example takes cuDNN's
# front end along (CUDNN_FRONTEND: its include directory).
# Last line: N passed, N failed, N skipped.
cd "$(dirname "$0")/.." || exit 2
all=0 only= build=0
for word in "$@"; do
    case $word in
    --all) all=1 ;;
    --build) build=1 ;; # objects only, for tests/mutate.sh
    -*) sed -n '2,12s/^# \{0,1\}//p' tests/run.sh; exit 2 ;;
    *) only="$only $(basename "$word" | sed 's/\.[a-z]*$//')" ;;
    esac
done
CC=${CC:-cc}
CXX=${CXX:-c++}
python=${PYTHON:-python3}
out=build/tests
rm -rf "$out/jobs" "$out/kept"
mkdir -p "$out/jobs" "$out/kept" "$out/objects"
log=$out/log
W="-Wall -Wextra -pedantic -Wshadow -Wconversion -Wsign-conversion -Wundef -Wvla -Werror"
SAN="-O$((1 + all)) -g1 -fsanitize=address,undefined -fno-sanitize-recover=all"
checks="-fno-sanitize=null,alignment,object-size,pointer-overflow" # half as long to compile and to run; --all has them: undefined_c
passed=0 failed=0 skipped=0
export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:malloc_context_size=2" # callers of a malloc that a report names: 30 take half as long again where tests allocate much
export OMP_WAIT_POLICY=passive # threads of examples that wait take no processor
if [ $all = 1 ]; then export RMTEST_ALL=1 RMTEST_SECONDS=${RMTEST_SECONDS:-15}; else unset RMTEST_ALL; export RMTEST_SECONDS=${RMTEST_SECONDS:-8}; fi # tests/common.h: how many seeds, and for how long

have() { command -v "$1" >/dev/null 2>&1; }
ok() { passed=$((passed + 1)); }
bad() { failed=$((failed + 1)); echo "FAILED: $*"; }
skip() { [ -n "$only" ] || { skipped=$((skipped + 1)); echo "skipped: $*"; }; }

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
    "$@" >"$out/$what.log" 2>&1
    code=$?
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$out/$what.log" | tail -n 1)
    if [ -z "$line" ]; then bad "$what: exit status $code and no closing line"; tail -n 30 "$out/$what.log"; return; fi
    p=$(echo "$line" | sed 's/ passed.*//'); f=$(echo "$line" | sed 's/.*passed, //; s/ failed.*//')
    s=$(echo "$line" | sed -n 's/.*failed, \([0-9]*\) skipped.*/\1/p')
    passed=$((passed + p)); failed=$((failed + f)); skipped=$((skipped + ${s:-0}))
    grep '^skipped: ' "$out/$what.log"
    if [ "$f" != 0 ] || [ $code != 0 ]; then
        [ "$f" != 0 ] || failed=$((failed + 1))
        echo "FAILED: $what (exit status $code)"; grep -v '^$' "$out/$what.log" | tail -n 25
    fi
}

# Jobs: pieces of this script that share no files, so they may run side by side. `job NAME FUNCTION ARGUMENTS...` notes one down,
# run_jobs runs all that were noted, prints a line for each that has ended and what it has to say, and adds up what they counted.
jobs=0
wanted() { # NAME
    [ -z "$only" ] && return 0
    for word in $only; do [ "$word" = "$1" ] && return 0; done
    return 1
}
job() {
    jobs=$((jobs + 1))
    echo "$1" >"$out/jobs/$jobs.name"
    shift
    : >"$out/jobs/$jobs.call"
    for word in "$@"; do printf "'%s' " "$word" >>"$out/jobs/$jobs.call"; done
}
also() { if wanted "$1"; then job "$@"; fi; }
one_job() { # NUMBER
    passed=0 failed=0 skipped=0 log=$out/jobs/$1.log
    eval "$(cat "$out/jobs/$1.call")"
    echo "$passed $failed $skipped" >"$out/jobs/$1.counts"
    times >"$out/jobs/$1.times"
}
worker() {
    n=1
    while [ $n -le $jobs ]; do
        if mkdir "$out/jobs/$n.taken" 2>/dev/null; then
            start=$(date +%s)
            (one_job $n) >"$out/jobs/$n.said" 2>&1
            done=1
            while ! mkdir "$out/jobs/$done.done" 2>/dev/null; do done=$((done + 1)); done
            read -r p f s <"$out/jobs/$n.counts" || p=0 f=1 s=0
            printf '%3d of %d  %-22s %4d s  %5d passed%s%s\n' $done $jobs "$(cat "$out/jobs/$n.name")" $(($(date +%s) - start)) "$p" \
                "$([ "$f" = 0 ] || echo ", $f failed")" "$([ "$s" = 0 ] || echo ", $s skipped")"
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
        [ ! -f "$out/jobs/$n.times" ] || awk -v name="$(cat "$out/jobs/$n.name")" '{ for (i = 1; i <= NF; i++) { split($i, t, "m"); s += 60 * t[1] + t[2] } } END { printf "%7.1f %s\n", s, name }' "$out/jobs/$n.times" >>"$out/times"
        n=$((n + 1))
    done
    rm -rf "$out/jobs"; mkdir -p "$out/jobs"
    jobs=0
}

# --- objects: the implementation with sanitizers, once for all programs (tests/linked.h); without, for users' programs; referee
object() { # NAME COMPILER AND ARGUMENTS...: not again while nothing that it is made of has changed
    name=$1; shift
    o=$out/objects/$name.o
    if [ "$(cat "$o.made" 2>/dev/null)" = "$*" ] && [ -z "$(find rockmate.h rockmate_cuda.h tests examples/cuda -newer "$o" -name '*.[hc]*' 2>/dev/null)" ]; then ok; return; fi
    rm -f "$o" "$o.made"
    check "build $name.o" "$@" -I. -c -o "$o"
    [ -f "$o" ] && echo "$*" >"$o.made"
}
linked() { object linked ${CC} -std=gnu99 $SAN $checks tests/linked.c; }
# Without sanitizers: bare, for valgrind; planned, for programs that are watched while they compute, but not while they plan, where they are most of
# the time (linked with -Wl,--wrap=rm_plan_create): plans have no threads, and those of all presets are watched in the other programs.
bare() {
    object bare ${CC} -std=gnu99 -O2 -g1 -w tests/linked.c
    check "planned.o" objcopy --redefine-sym rm_plan_create=__wrap_rm_plan_create --keep-global-symbol=__wrap_rm_plan_create "$out/objects/bare.o" "$out/objects/planned.o"
}
# What tests include of rockmate.h (no function is compiled, see tests/linked.h), read once: programs are not optimized but for those that compute.
flags="-fsanitize=address,undefined -fno-sanitize-recover=all $checks -w -DFUZZ_STANDALONE"
included() {
    h=$out/objects/included.h
    printf '#include "tests/linked.h"\n#define ROCKMATE_IMPLEMENTATION\n#include "rockmate.h"\n' >"$h"
    rm -f "$h.gch"
    check "read rockmate.h" ${CC} -std=gnu99 -O0 $flags -I. -x c-header -o "$h.part" "$h"
    mv "$h.part" "$h.gch"
}
objects_cuda() {
    object cuda ${CC} -std=gnu99 $SAN -isystem "$cuda/include" tests/cuda/linked.c
    object standin ${CC} -std=gnu99 $SAN -isystem "$cuda/include" tests/cuda/cudart_standin.c
}
test_objects() { # SOURCES...
    for t in "$@"; do
        inc=
        case $t in
        *.cpp) object "$(name_of "$t")" ${CXX} -std=c++17 -O1 $flags -include tests/linked.h "$t"; continue ;;
        */cuda/*) inc="-isystem $cuda/include -Itests/property" ;;
        esac
        case $t in
        */test_offload.c | */test_lanes.c) object "$(name_of "$t")" ${CC} -std=gnu99 -O1 $flags -include tests/linked.h "$t" ;;
        *) object "$(name_of "$t")" ${CC} -std=gnu99 -O0 $flags -include "$out/objects/included.h" $inc "$t" ;;
        esac
    done
}
name_of() { basename "$1" | sed 's/\.[a-z]*$//'; }

# --- what there is to do
test_of() { # SOURCE
    name=$(name_of "$1")
    o=$out/objects
    case $1 in
    */cuda/*.c) more="$o/replay.o $o/cuda.o $o/standin.o" ;;
    */test_replay.cpp) more= ;; # it is made of the referee's source
    *) more=$o/replay.o ;;
    esac
    more="$o/linked.o $more"
    case "$all $name" in "1 test_presets" | "1 test_offload") more="-Wl,--wrap=rm_plan_create $o/planned.o $more" ;; esac
    rm -f "$out/$name"
    check "link $name" ${CXX} -fsanitize=address,undefined -o "$out/$name" "$o/$name.o" $more -lm -lpthread
    [ -x "$out/$name" ] && counted "$name" env RMTEST_KEEP="$out/kept/$name" "$out/$name"
}
fuzz() { # SOURCE ITERATIONS
    name=$(name_of "$1")
    check "link $name" ${CC} -fsanitize=address,undefined -o "$out/$name" "$out/objects/$name.o" "$out/objects/linked.o" -lm -lpthread
    check "run $name" "$out/$name" "$2"
}
first_c() { # the default's one C compiler: all warnings, and an object that users' programs link
    object plain ${CC} -std=c99 $W -O2 -DROCKMATE_THREADS tests/compile/user_impl.c
    object less_work ${CC} -std=c99 -Wall -Wextra -Werror -O1 tests/less_work.c
    check "two units" ${CC} -std=c99 $W -O0 -I. -o "$out/two" tests/compile/user_api.c "$out/objects/plain.o" -lpthread
    check "two units run" "$out/two"
}
# What a program is linked with whose plans need not be good (tests/less_work.c).
less_work() {
    [ -f "$out/objects/less_work.o" ] && echo "-Wl,--wrap=rm_plan_create $out/objects/less_work.o"
}
first_cpp() {
    object plain_cpp ${CXX} -std=c++11 $W -O1 -x c++ tests/compile/user_impl.c
    check "the API as C++20" ${CXX} -std=c++20 $W -O0 -I. -o "$out/two_cpp" -x c++ tests/compile/user_api.c -x none "$out/objects/plain_cpp.o"
    check "the API as C++20 runs" "$out/two_cpp"
}
compile_c() { # COMPILER; gcc's -O2 is plain.o
    c=$1 d=$out/compile_$1
    [ $c = gcc ] && level=3 || level=2
    mkdir -p "$d"
    check "$c -std=c99 -O$level" $c -std=c99 $W -O$level -I. -c -o "$d/impl.o" tests/compile/user_impl.c
    check "$c -std=c99 with threads" $c -std=c99 $W -DROCKMATE_THREADS -fsyntax-only -I. tests/compile/implementation.c
    for std in c11 gnu17; do check "$c -std=$std" $c -std=$std $W -fsyntax-only -I. tests/compile/implementation.c; done
    check "$c static twice" $c -std=c99 $W -O0 -I. -o "$d/static" tests/compile/static_a.c tests/compile/static_b.c
    check "$c static twice runs" "$d/static"
    check "$c -std=c99 -O0" $c -std=c99 $W -O0 -I. -c -o "$d/impl_O0.o" tests/compile/user_impl.c
    check "$c two units" $c -std=c99 $W -O0 -I. -o "$d/two" tests/compile/user_api.c "$d/impl_O0.o"
    check "$c two units run" "$d/two"
    same "${c}_O$level" "$d/impl.o" $c -std=gnu99
    [ $c != gcc ] || same gcc_O0 "$d/impl_O0.o" gcc -std=gnu99
}
compile_cpp() {
    c=$1 d=$out/compile_$1
    mkdir -p "$d"
    check "$c -std=c++11 -O2" $c -std=c++11 $W -O2 -I. -x c++ -c -o "$d/impl.o" tests/compile/user_impl.c
    check "$c -std=c++11 with threads" $c -std=c++11 $W -DROCKMATE_THREADS -fsyntax-only -I. -x c++ tests/compile/implementation.c
    for std in c++14 c++17 c++20; do check "$c -std=$std" $c -std=$std $W -fsyntax-only -I. -x c++ tests/compile/implementation.c; done
    check "$c the API as C++20" $c -std=c++20 $W -O0 -I. -o "$d/two" -x c++ tests/compile/user_api.c -x none "$d/impl.o"
    check "$c the API as C++20 runs" "$d/two"
    same "$c" "$d/impl.o" $c -x c++ -std=c++17
}
compile_nvcc() {
    check "nvcc" nvcc -x cu -Werror all-warnings -I. -o "$out/cu" tests/compile/implementation.c # -O2: cuda_example
    check "nvcc the API" nvcc -x cu -std=c++17 -Werror all-warnings -I. -c -o "$out/cu.o" tests/compile/user_api.c
}
compile_m32() {
    check "gcc -m32 -std=c99" gcc -m32 -std=c99 $W -fsyntax-only -I. tests/compile/implementation.c
    check "gcc -m32" gcc -m32 -std=gnu99 $W -O2 -I. -c -o "$out/impl32.o" tests/compile/user_impl.c
    same m32 "$out/impl32.o" gcc -m32 -std=gnu99
}

cuda_header() { # COMPILER AND OPTIONS, as one word
    have "${1%% *}" || return 0
    for inc in "-isystem $cuda/include" "-I$cuda/include"; do check "$1 $inc" $1 $W -fsyntax-only -I. $inc tests/compile/cuda.c; done
}
cuda_link() { # the first has both implementations in one unit; the others link the library, with sanitizers where they have them
    dirs="-L$cuda/lib64 -L$cuda/lib -Wl,-rpath,$cuda/lib64"
    plain="-DRMI_IMPLEMENTED $out/objects/plain.o" linked="-DRMI_IMPLEMENTED $out/objects/linked.o"
    check "link with -lcudart" ${CC} -std=gnu99 -O0 -I. -isystem "$cuda/include" -o "$out/cuda_so" tests/compile/cuda.c $dirs -lcudart
    check "the real runtime, shared" "$out/cuda_so"
    check "link with -lcudart_static" ${CC} -std=gnu99 -O0 -I. -isystem "$cuda/include" -o "$out/cuda_a" tests/compile/cuda.c $plain $dirs -lcudart_static -lpthread -ldl -lrt
    check "the real runtime, static" "$out/cuda_a"
    check "link with the stand-in" ${CC} -std=gnu99 $SAN -O0 -I. -isystem "$cuda/include" -o "$out/cuda_standin" tests/compile/cuda.c $linked "$out/objects/standin.o" -lm -lpthread
    check "steps on the stand-in" "$out/cuda_standin"
    if [ -f "$cuda/include/nvtx3/nvToolsExt.h" ]; then
        check "link with ranges" ${CC} -std=gnu99 $W $SAN -O0 -I. -isystem "$cuda/include" -o "$out/cuda_nvtx" tests/compile/nvtx.c $linked "$out/objects/standin.o" -lm -lpthread
        check "ranges of steps" "$out/cuda_nvtx"
        check "link with nvtx3" ${CC} -std=gnu99 $SAN -O0 -DREAL_NVTX -I. -isystem "$cuda/include" -o "$out/cuda_nvtx3" tests/compile/nvtx.c $linked "$out/objects/standin.o" -lm -lpthread -ldl
        check "nvtx3 without a tool" "$out/cuda_nvtx3"
    else skip "no nvtx3: ranges for Nsight"; fi
}
cuda_nvcc() { check "nvcc rockmate_cuda.h" nvcc -x cu -Werror all-warnings -I. -o "$out/cuda_nvcc" tests/compile/cuda.c; }
cuda_example() {
    check "nvcc train_gpt.cu" nvcc -O2 -arch=sm_90 -Werror all-warnings -Xcompiler -fopenmp,-ffp-contract=off,-Wall -o "$out/train_gpt_cuda" examples/cuda/train_gpt.cu -lcublasLt
    if [ -f "${CUDNN_FRONTEND:-/none}/cudnn_frontend.h" ]; then # -DRMI_IMPLEMENTED: without the library, which takes a minute more
        check "nvcc train_gpt.cu with cuDNN" nvcc -O0 -std=c++17 -arch=sm_90 -Werror all-warnings -DTRAIN_GPT_CUDNN -DRMI_IMPLEMENTED -isystem "$CUDNN_FRONTEND" -c -o "$out/train_gpt_cudnn.o" examples/cuda/train_gpt.cu
    else skip "no cuDNN front end (CUDNN_FRONTEND: its include directory): train_gpt.cu was not compiled with it"; fi
    "$out/train_gpt_cuda" --help 2>&1 | grep -q "default: little stories" && ok || bad "train_gpt.cu does not start, or has no text of its own"
    if [ -f "$cuda/include/nccl.h" ] || [ -f /usr/include/nccl.h ]; then
        check "nvcc train_gpt_nccl.cu" nvcc -O1 -DRMI_IMPLEMENTED -arch=sm_90 -Werror all-warnings -Xcompiler -fopenmp,-ffp-contract=off,-Wall -o "$out/train_gpt_nccl" examples/cuda/train_gpt_nccl.cu "$out/objects/plain.o" -lcublasLt -lnccl
    else skip "no NCCL: train_gpt_nccl.cu was not compiled"; fi
}
cuda_nccl() { # train_gpt_nccl.cu as a program of the host, on stand-ins for cudart and NCCL
    d=$out/nccl
    mkdir -p "$d"
    for f in nccl cudart; do check "${f}_standin.c" ${CC} -std=gnu99 -O1 -g1 -Wall -Wextra -Werror -isystem "$cuda/include" -c -o "$d/$f.o" tests/cuda/${f}_standin.c; done
    check "train_gpt_nccl.cu as host code" ${CXX} -std=c++17 -fpermissive -O2 -g1 -fno-strict-aliasing -ffp-contract=off -w -DRMI_IMPLEMENTED -I. -isystem "$cuda/include" -c -o "$d/host.o" tests/cuda/nccl_host.cpp
    check "link train_gpt_nccl" ${CXX} -o "$d/train_gpt_nccl" "$d"/*.o "$out/objects/plain.o" $(less_work) -lm -lpthread
    [ -x "$d/train_gpt_nccl" ] && counted cuda_nccl sh tests/cuda/nccl.sh "$d/train_gpt_nccl"
}
cuda_llmc() { # its own warnings are llm.c's affair: -isystem
    check "nvcc llmc.cu" nvcc -O1 -std=c++17 --use_fast_math -arch=sm_90 -Werror all-warnings -Xcompiler -fopenmp,-Wall -isystem "$LLMC" -o "$out/llmc_port" examples/cuda/llmc.cu -lcublas -lcublasLt
    "$out/llmc_port" --help 2>&1 | grep -q -e "--make-tokens" && ok || bad "llmc.cu does not start"
    "$out/llmc_port" --make-tokens "$out/tokens.bin" && [ -s "$out/tokens.bin" ] && ok || bad "llmc.cu makes no tokens"
    check "nvcc llmc.cu with cuDNN" nvcc -O0 -std=c++17 --use_fast_math -arch=sm_90 -Werror all-warnings -DENABLE_CUDNN -DRMI_IMPLEMENTED -isystem "$LLMC" -c -o "$out/llmc_cudnn.o" examples/cuda/llmc.cu
}
cuda_llmc_numbers() { # its kernels as host code: what is between <<< and >>> becomes a call of tests/cuda/emulate.h, in a copy
    d=$out/llmc_host
    rm -rf "$d"; mkdir -p "$d/llmc"
    for f in "$LLMC"/llmc/*.cuh "$LLMC"/llmc/*.h examples/cuda/llmc.cu; do
        case $f in *.cu) to=$d/llmc_host.cu ;; *) to=$d/llmc/$(basename "$f") ;; esac
        sed -E 's/([A-Za-z_0-9]+(<[A-Za-z_0-9]+>)?)<<<([^;]*)>>>/emulated_launcher([](auto... a) { \1(a...); }, \3)/
            s/extern __shared__ ([^;]*) ([a-z_]+)\[\];/\1 *const \2 = (\1 *)(void *)emulated.shared;/' "$f" >"$to"
    done
    check "llm.c's reference" ${CC} -O2 -w -I"$LLMC" -c -o "$d/reference.o" tests/cuda/llmc_reference.c
    for f in dry cudart_standin; do check "$f.c for llm.c" ${CC} -std=gnu99 -O1 -DDRY_PRODUCTS -isystem "$cuda/include" -c -o "$d/$f.o" tests/cuda/$f.c; done
    check "llm.c's kernels as host code" ${CXX} -std=c++17 -fpermissive -O2 -fno-strict-aliasing -w -DRMI_IMPLEMENTED -DENABLE_FP32 -DLLMC_AS_IT_IS -DLLMC_PIECE=24 -Iexamples/cuda -I"$d" -Itests/cuda -I. \
        -isystem "$cuda/include" -c -o "$d/test.o" tests/cuda/llmc_numbers.cpp
    check "link llmc_numbers" ${CXX} -o "$d/llmc_numbers" "$d"/*.o "$out/objects/plain.o" -lm -lpthread -ldl
    [ -x "$d/llmc_numbers" ] && counted llmc_numbers "$d/llmc_numbers" "$d"
}

lanes_threads() { # the object once more, with ThreadSanitizer; but for plans, nine tenths of the time
    t="-O1 -g1 -fsanitize=thread"
    check "build for threads" ${CC} -std=gnu99 $t -I. -c -o "$out/threads.o" tests/linked.c
    for n in property/test_lanes unit/test_run; do
        name=$(basename $n)_threads
        check "build $name" ${CC} -std=gnu99 $t -w -include tests/linked.h -I. -c -o "$out/$name.o" tests/$n.c
        check "link $name" ${CXX} -fsanitize=thread -Wl,--wrap=rm_plan_create -o "$out/$name" "$out/$name.o" "$out/threads.o" "$out/objects/planned.o" "$out/objects/replay.o" -lm -lpthread
    done
    counted test_lanes_threads env -u RMTEST_ALL "$out/test_lanes_threads" 4 5000 # slower than without: few
    counted test_run_threads env -u RMTEST_ALL "$out/test_run_threads"
}
undefined_c() { # the unit tests once more, few seeds, but for those that take longest: every check of undefined behaviour, by clang where it is here
    if have clang; then u="clang -fno-sanitize=function"; else u=${CC}; fi
    check "build for undefined" $u -std=gnu99 -O1 -g1 -fsanitize=undefined -fno-sanitize-recover=all -I. -c -o "$out/undefined.o" tests/linked.c
    for t in tests/unit/test_*.c; do
        n=$(name_of "$t")
        case $n in test_check | test_plan | test_reduce | test_fit) continue ;; esac
        check "link ${n}_undefined" ${CXX} -fsanitize=address,undefined -o "$out/${n}_undefined" "$out/objects/$n.o" "$out/undefined.o" "$out/objects/replay.o" -lm -lpthread
        counted "${n}_undefined" env -u RMTEST_ALL -u RMTEST_SECONDS "$out/${n}_undefined"
    done
}
same() { # NAME OBJECT COMPILER...: plans of the library that it has compiled, to be compared with the others' at the end
    name=$1 object=$2; shift 2
    check "build same_plans ($name)" "$@" -DRMI_IMPLEMENTED -I. -c -o "$out/same_$name.o" tests/property/same_plans.c
    check "link same_plans ($name)" $1 $([ $name != m32 ] || echo -m32) -o "$out/same_$name" "$out/same_$name.o" "$object" -lm
    "$out/same_$name" 3 >"$out/same_$name.txt" 2>&1 && ok || bad "same_plans ($name): exit status $?"
}
planner_cli() {
    check "rmplan.c without warnings" ${CC} -std=c99 $W -DRMI_IMPLEMENTED -fsyntax-only examples/rmplan.c
    check "build rmplan" ${CC} -O2 -DRMI_IMPLEMENTED -o "$out/rmplan" examples/rmplan.c "$out/objects/plain.o" -lm -lpthread
    for t in tests/cli/*.sh; do
        [ -f "$t" ] && counted "$(basename "$t" .sh)" sh "$t" "$out/rmplan"
    done
}
disk_uring() { # examples/disk.h past the page cache
    check "build test_disk_file with liburing" ${CC} -std=gnu99 -O1 -w -DWITH_URING -I. -o "$out/test_disk_uring" tests/unit/test_disk_file.c -lpthread -luring
    [ -x "$out/test_disk_uring" ] && TMPDIR=$out counted test_disk_uring "$out/test_disk_uring"
}
trainer_cli() {
    d=$out/trainer
    mkdir -p "$d"
    if ${CC} -fopenmp -o "$d/m" "$out/m.c" 2>/dev/null; then omp=-fopenmp; else omp=; fi
    check "build train_gpt" ${CC} -O3 $(native "$d") $omp -DRMI_IMPLEMENTED -o "$out/train_gpt" examples/train_gpt.c "$out/objects/plain.o" $(less_work) -lm -lpthread
    [ -f tests/cli/train_gpt.test ] && counted train_gpt sh tests/cli/train_gpt.test "$out/train_gpt"
}
native() { # FOLDER of the job: what a program of this machine is compiled with that computes much, for the same bits
    for o in "-march=native -ffp-contract=off" ""; do ${CC} $o -o "$1/m" "$out/m.c" 2>/dev/null && "$1/m" && break; done
    echo "$o"
}
documents() { # programs of their own: what else is built is built side by side with this
    d=$out/documents
    mkdir -p "$d"
    for p in rmplan train_gpt train_resnet; do
        check "build $p" ${CC} -O3 $(native "$d") -DRMI_IMPLEMENTED -o "$d/$p" examples/$p.c "$out/objects/plain.o" -lm -lpthread
    done
    check "train_resnet.c without warnings" ${CC} -std=c99 -Wall -Wextra -pedantic -Wno-missing-field-initializers -Werror -DRMI_IMPLEMENTED -fsyntax-only examples/train_resnet.c
    counted docs sh tests/cli/docs.test "$d"
}
from_pytorch() {
    check "build rmplan for torch" ${CC} -O2 -DRMI_IMPLEMENTED -o "$out/rmplan_torch" examples/rmplan.c "$out/objects/plain.o" -lm -lpthread
    counted torch env OMP_NUM_THREADS=1 "$python" tests/torch/test_torch.py "$out/rmplan_torch"
}
with_valgrind() {
    check "build for valgrind" ${CC} -O0 -g -std=gnu99 -w -include tests/linked.h -I. -o "$out/vg" tests/unit/test_api.c "$out/objects/bare.o" -lm -lpthread
    check "valgrind test_api" valgrind -q --error-exitcode=9 --leak-check=full "$out/vg"
}
same_plans() { # NAMES: the same plans from every compiler
    first=
    for name in "$@"; do
        [ -n "$first" ] || first=$name
        if cmp -s "$out/same_$first.txt" "$out/same_$name.txt"; then ok; else bad "$name makes other plans than $first"; diff "$out/same_$first.txt" "$out/same_$name.txt" | head -n 6; fi
    done
    [ "$(wc -l <"$out/same_$first.txt")" -gt 200 ] && ok || bad "same_plans printed too little"
}

# --- what the machine has
began=$(date +%s)
: >"$out/times"
echo 'int main(void){return 0;}' >"$out/m.c"
cuda=${CUDA_HOME:-/usr/local/cuda}
[ -f "$cuda/include/cuda_runtime_api.h" ] && has_cuda=1 || { has_cuda=0; skip "no CUDA toolkit (set CUDA_HOME): nothing of rockmate_cuda.h was tested"; }
m32=0
if [ $all = 1 ] && [ -z "$only" ]; then
    gcc -m32 -o "$out/m32" "$out/m.c" 2>/dev/null || want none-such gcc-multilib
    gcc -m32 -o "$out/m32" "$out/m.c" 2>/dev/null && m32=1
    want mpicc libopenmpi-dev; want mpirun openmpi-bin; want valgrind valgrind
    want qemu-ppc qemu-user; want powerpc-linux-gnu-gcc gcc-powerpc-linux-gnu
    powerpc-linux-gnu-gcc -static -o "$out/ppc" "$out/m.c" 2>/dev/null || want none-such libc6-dev-powerpc-cross
fi

# --- the tests, the longest first
tests=
if [ $all = 1 ]; then set -- property/test_exec property/test_plans property/test_lanes oracle/test_offload unit/test_plan oracle/test_bound cuda/test_cuda \
    oom/test_oom_plans property/test_worth numeric/test_presets unit/test_check property/test_variants oom/test_oom
else set -- unit/test_plan property/test_named property/test_small unit/test_check oracle/test_offload property/test_variants property/test_plans \
    numeric/test_presets oracle/test_bound cuda/test_cuda_api oom/test_oom unit/test_run unit/test_reduce property/test_search; fi
for t in "$@"; do
    for t in tests/$t.c*; do tests="$tests $t"; done
done
for t in tests/property/test_*.c tests/oracle/test_*.c* tests/numeric/test_*.c tests/cuda/test_*.c* tests/oom/test_*.c tests/unit/test_*.c; do
    case " $tests " in *" $t "*) ;; *) tests="$tests $t" ;; esac
done
chosen=
for t in $tests tests/fuzz/fuzz_*.c; do
    case $t in */cuda/*.c) [ $has_cuda = 1 ] || continue ;; esac
    wanted "$(name_of "$t")" && chosen="$chosen $t"
done

# --- first all objects, for each job its own
job linked.o linked
job included.h included
if wanted rmplan || wanted train_gpt || wanted docs || wanted torch || wanted cuda_llmc_numbers || wanted cuda_nccl || wanted cuda_dry || wanted cuda_link || wanted cuda_example || wanted "C compiler"; then job "C compiler" first_c; fi
if [ $all = 1 ] && { wanted test_presets || wanted test_offload || wanted lanes_threads || wanted valgrind; }; then job bare.o bare; fi
if wanted "C++ compiler" && { [ $all = 0 ] || [ "$CXX" != c++ ] || ! have g++; }; then job "C++ compiler" first_cpp; fi
job replay.o object replay ${CXX} -std=c++17 -Wall -Wextra -Wshadow -Wconversion -O2 tests/oracle/replay.cpp
[ $has_cuda = 1 ] && job cuda.o objects_cuda
set --
for t in $chosen; do
    set -- "$@" "$t"
    if [ $# = 12 ]; then job "$# tests' objects" test_objects "$@"; set --; fi
done
[ $# = 0 ] || job "$# tests' objects" test_objects "$@"
run_jobs

[ $build = 0 ] || exit $failed

# --- then the jobs proper
[ $all = 1 ] && iterations=20000 || iterations=2000
if wanted train_gpt; then job train_gpt trainer_cli; fi
if wanted test_disk_uring; then
    if echo '#include <liburing.h>' | ${CC} -E - >/dev/null 2>&1; then job test_disk_uring disk_uring; else skip "no liburing: examples/disk.h was not tested with it"; fi
fi
if wanted docs; then job docs documents; fi
if wanted rmplan; then job rmplan planner_cli; fi
if wanted torch; then
    if have "$python" && "$python" -c 'import torch' 2>/dev/null; then job torch from_pytorch
    else skipped=$((skipped + 1)); echo "skipped: no PyTorch here (PYTHON=: a python that has it): steps captured from it"; fi
fi
for t in $chosen; do
    case $t in */fuzz_*) job "$(name_of "$t")" fuzz "$t" $iterations ;; *) job "$(name_of "$t")" test_of "$t" ;; esac
done
if wanted rooms; then
    if have python3; then
        job rooms counted rooms python3 tests/structure/rooms.py rockmate.h
        job rooms_cuda counted rooms_cuda python3 tests/structure/rooms.py rockmate_cuda.h
    else skip "python3 is not here: order of rooms"; fi
fi
if [ $all = 1 ] || [ -n "$only" ]; then
    if [ $has_cuda = 1 ] && have nvcc && wanted cuda_dry; then job cuda_dry counted cuda_dry env "ROCKMATE_O=$out/objects/plain.o" sh tests/cuda/dry.sh; fi
    if [ $has_cuda = 1 ] && wanted cuda_nccl; then
        if [ -f "$cuda/include/nccl.h" ] || [ -f /usr/include/nccl.h ]; then job cuda_nccl cuda_nccl
        else skipped=$((skipped + 1)); echo "skipped: no NCCL (its header): ranks on a stand-in for it"; fi
    fi
    if [ $has_cuda = 1 ] && have nvcc && wanted cuda_llmc; then
        if [ -f "${LLMC:-/none}/llmc/matmul.cuh" ]; then job cuda_llmc cuda_llmc
        else skipped=$((skipped + 1)); echo "skipped: no llm.c (LLMC=: a checkout): examples/cuda/llmc.cu was not compiled"; fi
    fi
    if [ $has_cuda = 1 ] && [ -f "${LLMC:-/none}/train_gpt2.c" ] && wanted cuda_llmc_numbers; then job cuda_llmc_numbers cuda_llmc_numbers; fi
fi
same_names=
if [ $all = 0 ] && [ -n "$only" ]; then :
elif [ $all = 0 ]; then
    skip "most random graphs, allocations that fail one by one, and most command lines: with --all"
    skip "other compilers and language standards, 32 bits, nvcc, the same plans from each: with --all"
    skip "ThreadSanitizer, valgrind, MPI, the checks of null pointers and alignment, a machine of the other byte order, and the referee in Python: with --all"
else
    if [ $has_cuda = 1 ]; then
        if have nvcc; then
            also cuda_nvcc cuda_nvcc
            also cuda_example cuda_example
        fi
        also cuda_link cuda_link
        for c in "gcc -std=c99" "clang -std=c99" "gcc -std=gnu17" "g++ -x c++ -std=c++11" "g++ -x c++ -std=c++17" "clang++ -x c++ -std=c++11" "clang++ -x c++ -std=c++17"; do also "$c" cuda_header "$c"; done
    fi
    if ${CC} -fsanitize=thread -o "$out/m" "$out/m.c" 2>/dev/null && "$out/m" 2>/dev/null; then also lanes_threads lanes_threads; else skip "no ThreadSanitizer here"; fi
    also undefined undefined_c
    also state_order counted state_order sh tests/unit/state_order.sh "$CC"
    for c in gcc clang; do if have $c; then also "compile $c" compile_c $c; else skip "$c is not here"; fi; done
    for c in g++ clang++; do if have $c; then also "compile $c" compile_cpp $c; same_names="$same_names $c"; else skip "$c is not here"; fi; done
    if have gcc; then same_names="gcc_O0 gcc_O3 $same_names"; fi
    if have clang; then same_names="$same_names clang_O2"; fi
    if have nvcc; then also nvcc compile_nvcc; else skip "nvcc is not here: the header was not compiled as CUDA"; fi
    if [ $m32 = 1 ]; then also m32 compile_m32; same_names="$same_names m32"; else skip "no 32-bit compiler (gcc-multilib)"; fi
    if have valgrind; then also valgrind with_valgrind; else skip "valgrind is not here"; fi
fi
run_jobs

# --- what looks at several jobs' results
if [ $all = 1 ] && [ -z "$only" ]; then # the plans that the tests asked the second referee about, before the first one
    referee=../shared/tools/replay.py
    if have python3 && [ -f $referee ]; then job judge counted judge python3 tests/oracle/judge.py $referee "$out"/kept/* --seconds 150
    else skip "no $referee: the tests' plans had one referee"; fi
    [ -z "$same_names" ] || job same_plans same_plans $same_names
    run_jobs
fi

echo "$(($(date +%s) - began)) s, of processors $(awk '{ s += $1 } END { printf "%d s", s }' "$out/times") ($out/times: each job's)"
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
