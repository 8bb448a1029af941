#!/usr/bin/env python3
"""Plans in shares on ranks (docs/formats.md, Shares) beside fixed policies, all judged by the same simulator:

   cc -O2 -I. -o build/rmplan examples/rmplan.c -lm
   python3 tests/bench/shares.py build/rmplan [OPTIONS] CASE...

   CASE             MODEL:DEVICE:CARDS:RATE[:OPTIMIZER], RATE in GB/s that one card gets from the others, or GRAPH.rmg with ranks
   --budgets LIST   GiB of a card (80,72,...,16); the bytes of each fixed policy are always added, and what is between them
   --policies       only the fixed policies
   --keep FOLDER    graphs and plans (.rmp) go there

The fixed policies, each with everything kept and with every block made again (what other blocks read of it is kept; of the rest,
what its backward needs is made again before it):

   zero1  weights whole; a gradient is scattered when it is complete, its bytes stay until the backward has ended (to scatter
          all of them then takes the same bytes, and longer); updates of shares, then each weight is gathered
   zero2  as zero1, but the gradient's bytes are freed behind its scatter (+: one block later, so that nobody waits for them)
   zero3  weights, too, are in shares: gathered one block ahead of their use, in the forward and again in the backward, and
          freed behind it. Ops outside of blocks count as blocks

Updates are said one block behind their scatter. Whoever can works in place or under a second name. Offsets are by first fit, in
three orders, of which the tightest counts. Ours is rm_plan_desc.shares, in a program that is compiled here (CC, or cc); s is user time.
Computation alone: every forward, every backward and 1/N of every update, once; of residual additions no backward, a second name does it.
Standard library only. Ends with 1 if a plan of ours is slower than a fixed policy in its bytes, or refuses them."""
import collections
import os
import re
import resource
import subprocess
import sys
import tempfile

GIB = 1 << 30
OURS = r"""
#define ROCKMATE_IMPLEMENTATION
#include "rockmate.h"
#include <stdio.h>
static int out(void *file, const char *text, size_t n) { return fwrite(text, 1, n, (FILE *)file) != n; }
int main(int argc, char **argv) /* GRAPH BUDGET [PLAN] */
{
    static char text[64 << 20];
    FILE *f = fopen(argv[1], "rb");
    rm_graph *g = NULL;
    rm_plan *p = NULL;
    rm_plan_desc desc = { 0 };
    rm_plan_info info = { 0 };
    if (!f || rm_graph_read(text, fread(text, 1, sizeof text, f), NULL, &g)) return 2;
    desc.device_bytes = strtoull(argv[2], NULL, 10);
    desc.shares = 1;
    desc.info = &info;
    if (rm_plan_create(g, &desc, &p)) return printf("min_bytes=%llu\n", (unsigned long long)info.min_bytes), 3;
    printf("time_ns=%llu\narena_bytes=%llu\nrecomputed_ns=%llu\n", (unsigned long long)info.time_ns,
           (unsigned long long)info.arena_bytes, (unsigned long long)info.recomputed_ns);
    if (argc < 4) return 0;
    f = fopen(argv[3], "wb");
    return !f || rm_plan_write(p, 0, out, f) || fclose(f);
}
"""


# --- graphs


class Op:
    def __init__(self, name, ins, outs, keys, unit, in_block):
        self.name, self.ins, self.outs, self.unit, self.in_block = name, ins, outs, unit, in_block
        number = lambda key, default=0: int(keys.get(key, default))
        names = lambda key: [t for t in keys.get(key, "none").split(",") if t != "none"]
        self.saved, self.fwd, self.bwd = number("saved"), number("fwd"), number("bwd")
        self.fwd_ws, self.bwd_ws = number("fwd_ws"), number("bwd_ws")
        self.saving_ws = number("saving_ws", self.fwd_ws)
        self.needs = names("needs") if "needs" in keys else ins + outs + ["saved"]
        self.inplace, self.share_bwd = keys.get("inplace"), names("share_bwd")
        self.inplace_bwd = [(t + ":").split(":")[:2] for t in names("inplace_bwd")]
        self.backward = False
        self.saves = self.saved and "saved" in self.needs


class Graph:
    """What of a graph (.rmg) the policies look at. Others are refused, not misread."""

    def __init__(self, text):
        self.size, self.grad, self.state, self.opt, self.opt_ws = {}, {}, {}, {}, {}
        self.params, self.inputs, self.ops, self.outputs, self.maker, gradient = [], [], [], [], {}, set()
        depth = unit = 0
        for line in text.splitlines():
            words = line.split("#")[0].split()
            if not words:
                continue
            keys = dict(w.split("=", 1) for w in words if "=" in w)
            flags = {w for w in words if "=" not in w}
            if words[0] in ("part", "barrier") or {"view", "mutates"} & set(keys) or {"external", "once", "frozen"} & flags:
                sys.exit("this bench knows no such graph: " + line)
            if words[0] == "ranks":
                self.n, self.grain = int(words[1]), int(keys.get("grain", 16))
            elif words[0] == "tensor":
                name, bytes = words[1], int(words[3])
                self.size[name] = bytes
                if words[2] != "param":
                    self.inputs.append(name)
                    continue
                if "reduce" not in keys or "opt" not in keys:
                    sys.exit("no reduce= and opt=: " + line)
                self.params.append(name)
                gradient.add(name)
                self.grad[name], self.state[name] = int(keys.get("grad", bytes)), int(keys.get("state", 0))
                self.opt[name], self.opt_ws[name] = -(-int(keys["opt"]) // self.n), int(keys.get("opt_ws", 0))
            elif words[0] == "op":
                ins, outs = [t for t in keys.get("in", "").split(",") if t], []
                for out in keys["out"].split(","):
                    name, _, bytes = out.partition(":")
                    self.size[name] = self.grad[name] = int(bytes or self.size[ins[0]])
                    outs.append(name)
                op = Op(words[1], ins, outs, keys, unit, depth > 0)
                op.backward = "nograd" not in flags and any(t in gradient for t in ins)
                self.ops.append(op)
                for t in outs:
                    self.maker[t] = op
                    if op.backward:
                        gradient.add(t)
            elif words[0] == "block":
                unit += depth == 0 and bool(self.ops) and self.ops[-1].unit == unit
                depth += 1
            elif words[0] == "end":
                depth -= 1
                unit += depth == 0
            elif words[0] == "grad":
                self.grad[words[1]] = int(words[2])
            elif words[0] == "output":
                self.outputs += words[1:]
        self.consumers = collections.Counter(t for op in self.ops if op.backward for t in set(op.ins) if t in gradient)
        self.units = [[op for op in self.ops if op.unit == u] for u in sorted({op.unit for op in self.ops})]

    def share(self, param, bytes):
        up = lambda x: -(-x // self.grain) * self.grain
        s = up(-(-self.size[param] // self.n))
        return up(-(-bytes * s // self.size[param]))

    def alone(self):
        free = lambda op: set(op.share_bwd) >= {t for t in op.ins if t in self.consumers}
        return sum(op.fwd + (op.bwd if op.backward and not free(op) else 0) for op in self.ops) + sum(self.opt.values())

    def exact(self, param, bytes):
        return self.share(param, bytes) * self.n == bytes


# --- programs of fixed policies: what runs when, who lives how long, where


class Life:
    """A buffer from its first use to its last, in runs; several names may be the same bytes, a storage."""

    def __init__(self, buffer, bytes, first):
        self.buffer, self.bytes, self.first, self.last, self.storage, self.made = buffer, bytes, first, first, None, None


def order(graph, zero, recompute):
    """The runs, as (what, whom, whether it saves), and where each visit of a block ends."""
    runs, ends, whole = [], [], set() if zero == 3 else set(graph.params)
    visits = [(unit, False) for unit in graph.units] + [(unit, True) for unit in reversed(graph.units)]
    uses = [list(dict.fromkeys(t for op in unit for t in op.ins if t in graph.opt)) for unit, _ in visits]
    count, scattered, waiting = collections.Counter(), [], []

    def gather(v):
        for t in uses[v] if v < len(visits) else []:
            if t not in whole:
                runs.append(("gather", t, 0))
                whole.add(t)

    def update(params):
        for t in params:
            runs.append(("opt", t, 0))
            if zero < 3:
                runs.append(("gather", t, 0))

    gather(0)
    for v, (unit, backward) in enumerate(visits):
        gather(v + 1)
        again = recompute and unit[0].in_block
        if not backward:
            runs += [("fwd", op, op.saves and op.backward and not again) for op in unit]
        else:
            made = {t: op for op in unit for t in op.outs} if again else {}
            for t in [t for t in made if any(t in op.ins for op in graph.ops if op.unit != unit[0].unit)]:
                del made[t]
            rerun, stack = {}, []
            for op in unit if again else []:
                if op.backward:
                    stack += [made[t] for t in op.needs if t in made] + ([op] if op.saves else [])
            while stack:
                op = stack.pop()
                if op.name not in rerun:
                    rerun[op.name] = op
                    stack += [made[t] for t in op.ins if t in made]
            runs += [("fwd", op, op.saves and op.backward) for op in unit if op.name in rerun]
            for op in reversed([op for op in unit if op.backward]):
                runs.append(("bwd", op, 0))
                for t in dict.fromkeys(op.ins):
                    count[t] += t in graph.opt
                    if t in graph.opt and count[t] == graph.consumers[t]:
                        runs.append(("scatter", t, 0))
                        scattered.append(t)
            update(waiting)
            waiting, scattered = scattered, []
        if zero == 3:
            whole &= set(uses[v + 1] if v + 1 < len(visits) else [])
        ends.append(len(runs) - 1)
    update(waiting)
    return runs, ends


def lives(graph, zero, runs, ends, slack):
    """All lives, and those that begin with each run."""
    begin, current = [[] for _ in runs], {}
    end = len(runs)

    def born(buffer, bytes, at):
        life = Life(buffer, bytes, at)
        if bytes:
            current[buffer] = life
            begin[at].append(life)
        return life

    def used(buffer, at):
        if buffer in current:
            current[buffer].last = max(current[buffer].last, at)

    for at, (what, whom, saves) in enumerate(runs):
        if what == "fwd":
            for t in whom.ins:
                used(t, at)
            for t in whom.outs:
                life = born(t, graph.size[t], at)
                life.last = end if t in graph.outputs else at
            if saves:
                born("saved:" + whom.name, whom.saved, at)
        elif what == "bwd":
            for t in whom.needs:
                used("saved:" + whom.name if t == "saved" else t, at)
            for t in whom.outs:
                used("grad:" + t, at)
            for t in dict.fromkeys(whom.ins):
                if t in graph.consumers:
                    if "grad:" + t not in current:
                        born("grad:" + t, graph.grad[t], at).made = whom
                    used("grad:" + t, at)
        elif what == "scatter":
            later = [e for e in ends if e >= at][:2][-1]
            used("grad:" + whom, ends[-1] if zero == 1 else later if slack else at)
            born("share:grad:" + whom, graph.share(whom, graph.grad[whom]), at)
        elif what == "gather" and zero == 3:
            born(whom, graph.size[whom], at)
        elif what == "opt":
            used("share:grad:" + whom, at)
    return begin


def program(graph, zero, recompute, slack):
    """The statements of a policy, with a storage in place of an offset; the storages; what the step begins with."""
    runs, ends = order(graph, zero, recompute)
    begin = lives(graph, zero, runs, ends, slack)
    gone, now, said, storages, resident = [[] for _ in range(len(runs) + 1)], {}, [], [], []
    for born in begin:
        for life in born:
            gone[life.last].append(life)
    resident += [(t, graph.size[t]) for t in graph.inputs]
    for t in graph.params:
        resident += [(t, graph.size[t])] if zero < 3 else []
        resident += [("share:" + t, graph.share(t, graph.size[t]))] if zero == 3 or not graph.exact(t, graph.size[t]) else []
        resident.append(("share:state:" + t, graph.share(t, graph.state[t])))
    added = collections.defaultdict(list)  # when each gradient is added to
    for at, (what, whom, _) in enumerate(runs):
        if what == "bwd":
            for t in dict.fromkeys(whom.ins):
                added["grad:" + t].append(at)

    def allocate(life):
        life.storage = {"bytes": life.bytes, "first": life.first, "last": life.last, "names": [life]}
        storages.append(life.storage)
        said.append(("alloc %s %%d" % life.buffer, life.storage))

    def join(life, storage):
        life.storage = storage
        storage["last"] = max(storage["last"], life.last)
        storage["names"].append(life)

    def alone(life, at):
        return all(x is life or x.last < at for x in life.storage["names"])

    for at, (what, whom, saves) in enumerate(runs):
        taken, waiting, ws = set(), [], 0
        fresh = {life.buffer: life for life in begin[at]}

        def take(new, old):
            if new in fresh and old in now and old not in taken and now[old].last == at and alone(now[old], at) and \
                    fresh[new].bytes <= now[old].storage["bytes"] and fresh[new].bytes <= now[old].bytes and fresh[new].storage is None:
                waiting.append(("reuse %s %s" % (new, old), None))
                join(fresh[new], now[old].storage)
                taken.add(old)

        if what == "fwd":
            if whom.inplace and whom.inplace != "none":
                take(whom.outs[0], whom.inplace)
            ws = whom.saving_ws if saves else whom.fwd_ws
            run = "run fwd " + whom.name
        elif what == "bwd":
            out = "grad:" + whom.outs[0]
            names = [fresh["grad:" + t] for t in dict.fromkeys(whom.share_bwd) if "grad:" + t in fresh and out in now and
                     fresh["grad:" + t].bytes == now[out].bytes]
            writes = {x.buffer: ([w for w in added[x.buffer] if w > at] + [10 ** 9])[0] for x in names}
            if names and alone(now[out], at) and all(y.last < writes[x.buffer] for x in names for y in names if x is not y):
                for x in names:
                    said.append(("alias %s %s" % (x.buffer, out), None))
                    join(x, now[out].storage)
            else:
                for t in whom.share_bwd:
                    take("grad:" + t, out)
            for t, old in whom.inplace_bwd:
                take("grad:" + t, out if not old else "saved:" + whom.name if old == "saved" else old)
            ws = whom.bwd_ws
            run = "run bwd " + whom.name
        elif what == "scatter":
            run = "scatter grad:" + whom
            if zero == 1 and graph.exact(whom, graph.grad[whom]) and graph.grad[whom] == graph.size[whom]:
                said.append(("alias share:grad:%s grad:%s" % (whom, whom), None))
                join(fresh["share:grad:" + whom], now["grad:" + whom].storage)
        elif what == "opt":
            run, ws = "run opt %s@share" % whom, graph.opt_ws[whom]
            if zero < 3 and graph.exact(whom, graph.size[whom]):
                said.append(("alias share:%s %s" % (whom, whom), None))
        else:
            run = "gather " + whom
        for life in begin[at]:
            if life.storage is None:
                allocate(life)
            now[life.buffer] = life
        said += waiting
        name = "ws:" + (whom if what == "opt" else whom.name if ws else "")
        if ws:
            storages.append({"bytes": ws, "first": at, "last": at, "names": []})
            said.append(("alloc %s %%d" % name, storages[-1]))
        said.append((run, None))
        if ws:
            said.append(("free " + name, None))
        if what == "gather" and zero < 3 and graph.exact(whom, graph.size[whom]):
            said.append(("free share:" + whom, None))
        for life in gone[at]:
            if life.buffer not in taken:
                said.append(("free " + life.buffer, None))
            del now[life.buffer]
    return said, storages, resident


def place(storages, base):
    """First fit over lifetimes, in three orders; the end of the lowest."""
    up = lambda x: -(-x // 256) * 256
    long = lambda s: s["last"] - s["first"]
    best = None
    for key in (lambda s: (-long(s), -s["bytes"]), lambda s: (-s["bytes"], -long(s)), lambda s: -s["bytes"] * (long(s) + 1)):
        placed, top, where = [], base, {}
        for s in sorted(storages, key=key):
            first, last, bytes, low = s["first"], s["last"], up(s["bytes"]), base
            for a, b in sorted([(a, b) for f, l, a, b in placed if f <= last and first <= l]):
                if low + bytes <= a:
                    break
                low = max(low, b)
            placed.append((first, last, low, low + bytes))
            where[id(s)] = low
            top = max(top, low + bytes)
        if best is None or top < best[0]:
            best = top, where
    return best


def policy(graph, zero, recompute, slack):
    """A policy's plan (.rmp)."""
    said, storages, resident = program(graph, zero, recompute, slack)
    at, text = 0, []
    for name, bytes in resident:
        if bytes:
            text.append("resident %s %d" % (name, at))
            at += -(-bytes // 256) * 256
    arena, where = place(storages, at)
    text += [line % where[id(s)] if s else line for line, s in said]
    return "\n".join(["rockmate plan 1", "arena %d host 0" % arena, "step single"] + text) + "\n"


# --- who judges


def figures(command):
    """Key=value lines of a program, and its user seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(" ".join(command) + ": " + done.stderr + done.stdout)
    said = {k: int(v) for k, v in re.findall(r"^(\w+)=(\d+)$", done.stdout, re.M)}
    return said, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def graph_of(case, rmplan, folder):
    """The path of a case's graph, with ranks."""
    if case.endswith(".rmg"):
        return case
    model, device, cards, rate, *optimizer = case.split(":")
    path = os.path.join(folder, case.replace(":", "-") + ".rmg")
    subprocess.run([rmplan, "--model", model, "--device", device, "--optimizer", (optimizer + ["adamw"])[0], "--export", path],
                   check=True, stdout=subprocess.DEVNULL)
    n, rate, latency, lines = int(cards), int(float(rate) * 10 ** 9), 20000, []
    for line in open(path).read().splitlines():
        words = line.split()
        if words[0] == "link":
            continue
        if words[:1] + words[2:3] == ["tensor", "param"]:
            bytes = int(words[3])
            line += " reduce=%d" % (latency + -(-2 * (bytes - bytes // n) * 10 ** 9 // rate))
        lines.append(line)
    lines.insert(1, "ranks %d rate=%d latency=%d grain=256" % (n, rate, latency))
    open(path, "w").write("\n".join(lines) + "\n")
    return path


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def compare(case, rmplan, ours, folder, budgets):
    """The tables of a case. Returns how often ours is worse."""
    path, fixed, worse = graph_of(case, rmplan, folder), [], 0
    graph = Graph(open(path).read())
    alone = graph.alone()
    print("\n%s: %d ranks, computation alone %.2f ms\n" % (case, graph.n, alone / 1e6))
    row("policy", "GiB", "bytes", "ms", "over computation alone")
    row(*["---"] * 5)
    for zero, slack in (1, 0), (2, 0), (2, 1), (3, 0), (3, 1):
        for recompute in 0, 1:
            name = "zero%d%s %s" % (zero, "+" * slack, "recompute" if recompute else "keep")
            plan = os.path.join(folder, re.sub(r"\W+", "-", "%s %s" % (os.path.basename(case), name.replace("+", "late"))) + ".rmp")
            open(plan, "w").write(policy(graph, zero, recompute, slack))
            said, _ = figures([rmplan, path, "--plan", plan, "--kv"])
            fixed.append((said["time_ns"], said["arena_bytes"], name))
            row(name, "%.2f" % (said["arena_bytes"] / GIB), said["arena_bytes"], "%.2f" % (said["time_ns"] / 1e6),
                "%.2f %%" % (100 * (said["time_ns"] / alone - 1)))
    if not ours:
        return 0
    print()
    row("budget GiB", "best fixed policy that fits", "its ms", "ours ms", "ours over computation alone", "ours GiB", "s", "")
    row(*["---"] * 8)
    exact = sorted(bytes for _, bytes, _ in fixed)
    between = [(a + b) // 2 for a, b in zip(exact, exact[1:]) if b - a > GIB]
    for budget in sorted(set(exact + between + budgets), reverse=True):
        time, _, name = min([f for f in fixed if f[1] <= budget] or [(0, 0, "none")])
        plan = os.path.join(folder, re.sub(r"\W+", "-", "%s ours %d" % (os.path.basename(case), budget)) + ".rmp")
        said, seconds = figures([ours, path, str(budget), plan])
        mine = said.get("time_ns")
        bad = bool(time) and (not mine or mine > time)
        worse += bad
        row("%.2f" % (budget / GIB), name, "%.2f" % (time / 1e6) if time else "-",
            "%.2f" % (mine / 1e6) if mine else "needs %.2f GiB" % (said["min_bytes"] / GIB),
            "%.2f %%" % (100 * (mine / alone - 1)) if mine else "-", "%.2f" % (said["arena_bytes"] / GIB) if mine else "-",
            "%.1f" % seconds, ("slower by %.2f %%" % (100 * (mine / time - 1)) if mine else "refused") if bad else "")
    return worse


def main(arguments):
    rmplan, cases, only, folder = arguments.pop(0), [], False, None
    budgets = [80, 72, 64, 56, 48, 40, 36, 32, 28, 24, 22, 20, 18, 16]
    while arguments:
        word = arguments.pop(0)
        if word == "--budgets":
            budgets = [float(b) for b in arguments.pop(0).split(",")]
        elif word == "--keep":
            folder = arguments.pop(0)
        elif word == "--policies":
            only = True
        else:
            cases.append(word)
    with tempfile.TemporaryDirectory() as scratch:
        folder = folder or scratch
        os.makedirs(folder, exist_ok=True)
        ours = None if only else os.path.join(scratch, "ours")
        if ours:
            open(ours + ".c", "w").write(OURS)
            root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
            subprocess.run([os.environ.get("CC", "cc"), "-O2", "-std=gnu99", "-I" + root, ours + ".c", "-o", ours, "-lm"], check=True)
        return sum(compare(case, rmplan, ours, folder, [int(b * GIB) for b in budgets]) for case in cases)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]) > 0)
