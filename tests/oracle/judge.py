#!/usr/bin/env python3
"""Puts the questions that the tests asked of tests/oracle/replay.cpp to the first referee as well: judge.py REPLAY.PY FILE... [--seconds N]

The files are what RMTEST_KEEP made. Verdict, time of a step, arena, live and host bytes must be the same. Plans are taken in turns from
all files, each file's spread evenly. Skipped, and counted so: what N seconds (default: no limit) do not suffice for, and graphs with words
that came after the first referee (NEWER), pageable memory and disks among them: those plans have one referee.
"""
import importlib.util
import sys
import time

NO_BUDGET = (1 << 64) - 1
NEWER = ("pageable_h2d", "pageable_d2h", "saving_ws", "zero_grads", "same_grad", "policy", "tier", "lane")


def is_newer(graph):
    """Has the graph's text a word that came after the first referee?"""
    for line in graph.split("\n"):
        w = line.split("#", 1)[0].split()
        if any(x.partition("=")[0] in NEWER for x in w):
            return True
    return False


def questions(path):
    """(graph, plan, [budget, host budget, verdict, time, live, arena, host]) of one file."""
    found, graph = [], None
    with open(path, "rb") as f:
        for line in iter(f.readline, b""):
            what, size, *rest = line.split()
            text = f.read(int(size)).decode()
            if what == b"graph":
                graph = text
            else:
                found.append((graph, text, [int(x) for x in rest]))
    return found


def spread(n):
    """0 ... n - 1 in an order whose every beginning is spread over the whole."""
    bits = max(1, (n - 1).bit_length())
    for i in range(1 << bits):
        j = int(format(i, f"0{bits}b")[::-1], 2)
        if j < n:
            yield j


def renames_unequal(graph, plan):
    """Does a gradient take over another's bytes at another size? The first referee counts no time for that backward, the format does."""
    size = {}
    for line in graph.split("\n"):
        w = line.split("#", 1)[0].split()
        for item in w:
            if w[0] == "op" and item.startswith("out="):
                for out in item[4:].split(","):
                    name, _, n = out.partition(":")
                    size[name] = int(n or 0)
        if w and w[0] == "grad":
            size[w[1]] = int(w[2])
    for line in plan.split("\n"):
        w = line.split()
        if w and w[0] == "reuse" and all(x.startswith("grad:") for x in w[1:3]) and len({size.get(x[5:]) for x in w[1:3]}) > 1:
            return True
    return False


def judge(referee, graphs, graph, plan, budget, host_budget):
    """[verdict, time, live, arena, host], and what was said."""
    texts = {"graph": graph, "plan": plan}

    def words(name):
        for number, line in enumerate(texts[name].split("\n"), 1):
            w = line.split("#", 1)[0].split()
            if w and w[0] == "variant":  # the first referee has no word for it: it judges such a variant as if it were in place
                w = [x for x in w if x != "inplace=none"]
            if name == "plan" and w and w[0] == "graph":  # the hash of a text that may have lost that word
                continue
            if w:
                yield number, w

    referee.words = words
    try:
        if graphs[0] is not graph:
            graphs[:] = [graph, referee.Graph("graph")]
    except (referee.Bad, StopIteration) as e:
        graphs[:] = [None, None]
        return [2], str(e)
    try:
        r = referee.Replay(graphs[1], "plan")
        if budget != NO_BUDGET and r.device.size > budget:
            raise referee.Bad("over the budget")
        if host_budget != NO_BUDGET and r.hostmem.size > host_budget:
            raise referee.Bad("over the host budget")
    except referee.Bad as e:
        return [1], str(e)
    return [0, r.time, r.device.peak, r.device.top, r.hostmem.top], ""


def main(argv):
    seconds = float("inf")
    if "--seconds" in argv:
        i = argv.index("--seconds")
        seconds = float(argv[i + 1])
        del argv[i : i + 2]
    spec = importlib.util.spec_from_file_location("referee", argv[0])
    referee = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(referee)
    begin = time.monotonic()
    passed = failed = newer = 0
    files = [(path, questions(path)) for path in argv[1:]]
    total = sum(len(q) for _, q in files)
    turns = [(path, q, spread(len(q))) for path, q in files if q]
    while turns and time.monotonic() - begin < seconds:
        for turn in list(turns):
            path, q, order = turn
            i = next(order, None)
            if i is None:
                turns.remove(turn)
                continue
            graph, plan, (budget, host_budget, verdict, *figures) = q[i]
            if is_newer(graph):
                newer += 1
                continue
            answer, said = judge(referee, [None, None], graph, plan, budget, host_budget)
            want = [0] + figures if verdict == 0 else [verdict]
            if answer == want or (len(answer) == len(want) == 5 and answer[1] < want[1] and answer[2:] == want[2:] and renames_unequal(graph, plan)):
                passed += 1
                continue
            failed += 1
            if failed <= 10:
                print(f"{path}, plan {i}: {answer} {said}, the tests' referee said {[verdict] + figures}")
    for path, q in files:
        print(f"{path}: {len(q)} plans")
    print(f"of graphs with newer words: {newer} plans")
    print(f"{passed} passed, {failed} failed, {total - passed - failed} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
