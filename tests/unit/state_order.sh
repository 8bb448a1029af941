#!/bin/sh
# state_order.sh - a state written by a machine with the other order of bytes is refused, in both directions: PowerPC in qemu.
#     sh tests/unit/state_order.sh [CC]       from the root; build/ is used. Needs powerpc-linux-gnu-gcc and qemu-ppc.
CC=${1:-cc}
out=build/state_order
rm -rf $out
mkdir -p $out
echo 'int main(void){return 0;}' >$out/m.c
if ! command -v qemu-ppc >/dev/null || ! powerpc-linux-gnu-gcc -static -o $out/m $out/m.c 2>/dev/null; then
    echo "skipped: no powerpc-linux-gnu-gcc with a libc, or no qemu-ppc"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
passed=0 failed=0
try() { if "$@" >$out/log 2>&1; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: $*"; tail -n 5 $out/log; fi; }
says() { if grep -q "$1" $out/log; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "no '$1':"; tail -n 5 $out/log; fi; }
try "$CC" -std=gnu99 -O0 -I. -o $out/here tests/unit/test_state.c
try powerpc-linux-gnu-gcc -std=gnu99 -O1 -static -I. -o $out/there tests/unit/test_state.c
try $out/here $out/of_here only # all of it is a job of its own
try qemu-ppc $out/there $out/of_there
try $out/here $out/of_there only
says big-endian
try qemu-ppc $out/there $out/of_here only
says little-endian
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
