#!/bin/sh
# How strong are the tests? Plants some two hundred small faults (tests/mutants.txt) into a copy of the implementation, each behind a
# switch in one binary, and runs the tests that reach it, the fastest first, until one fails:
#   sh tests/mutate.sh [--all] [--below SECONDS] [--only PROGRAM,...] [NUMBERS...]    --all: as many cases as tests/run.sh --all
#   sh tests/mutate.sh --check                                    only: does the source still have the lines that the faults spoil?
#   sh tests/mutate.sh --propose 100                              new faults, over all rooms, drawn by hash, in the list's format
# --below leaves out programs that take longer (and sanitizers, unless --sanitizers stands there). What is known is kept in
# build/mutants/known.json: a run that was broken off goes on, a fault that survived is asked of programs that are new or have changed;
# --fresh forgets it. Prints a line for each fault, the survivors with the reason that the list gives, and the shares killed; a fault
# whose line the source no longer has, or has in another meaning, is named and not counted. Results: build/mutants/results.txt.
cd "$(dirname "$0")/.." || exit 2
[ "$1" = --propose ] || [ "$1" = --check ] || { sh tests/run.sh --build >build/mutate.log 2>&1 || { cat build/mutate.log; exit 1; }; }
exec python3 tests/structure/mutate.py "$@"
