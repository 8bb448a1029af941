#!/bin/sh
# How strong are the tests? Plants some hundred small faults (tests/mutants.txt) into a copy of the implementation, each behind a
# switch in one binary, and runs the tests that reach it, the fastest first, until one fails:
#   sh tests/mutate.sh [--all] [--below SECONDS] [NUMBERS...]     --all: as many cases as tests/run.sh --all
#   sh tests/mutate.sh --propose 100                              new faults, over all rooms, drawn by hash, in the list's format
# --below leaves out programs that take longer. Prints a line for each fault, the survivors with the reason that the list gives, and
# the shares killed; a fault whose context the source no longer has is named and not counted. Results: build/mutants/results.txt.
cd "$(dirname "$0")/.." || exit 2
[ "$1" = --propose ] || { sh tests/run.sh --build >build/mutate.log 2>&1 || { cat build/mutate.log; exit 1; }; }
exec python3 tests/structure/mutate.py "$@"
