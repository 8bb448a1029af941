#!/usr/bin/env python3
"""Ours against Rockmate 2.0, on the graph that Rockmate makes of a GPT, with the times and sizes that it measures.

   git clone https://github.com/topal-team/rockmate                    read by path: it is GPL, nothing of it is kept
   python3 -m venv venv && venv/bin/pip install torch==2.6.0 numpy pulp==2.7.0 astunparse psutil configmypy pyyaml
   cc -O2 -o rmplan examples/rmplan.c -lm
   venv/bin/python tests/bench/rockmate.py rockmate ./rmplan [--layers 2] [--limit 1100] [--program 10] [--graph FILE.rmg]

On a CPU: sizes are those that PyTorch's allocator tells, where theirs are a GPU's. Each preset of theirs runs in a process of its own, for
at most --limit seconds; integer programs are solved by the CBC in PuLP's wheel. Their lists of operations are then walked step by step:
what an operation needs must be there, times are added up, and the most bytes alive are the peak, as their own simulation has it. That peak
is our budget, on the same graph; where they have no plan, it is theirs. Weights, their gradients and states are in neither. A Markdown table.
Ends with 1 if one of our plans is slower than theirs."""

import argparse
import contextlib
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler looks for a GPU, and would say that there is none

import torch
from torch import nn
from torch.nn import functional as F


def processor():
    """Seconds of processor of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


class Block(nn.Module):
    """A layer of a transformer, attention and dropout spelt out."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout, self.heads = nn.Dropout(0.1), heads

    def forward(self, x):
        batch, length, width = x.shape
        normed = self.norm1(x)
        q, k, v = (f(normed).view(batch, length, self.heads, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        weights = self.dropout((q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(-1))
        x = x + self.dropout(self.out((weights @ v).transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    """Tokens to logits; the loss is outside, as Rockmate has it."""

    def __init__(self, layers, vocabulary=2048, length=256, width=512, heads=8):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.dropout, self.norm, self.head = nn.Dropout(0.1), nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.dropout(self.tokens(tokens) + self.places)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def bytes_of(*calls):
    """For each call in turn the bytes that are there after it and were not before, and the most there were within it; what PyTorch's
    allocator says."""
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        for number, call in enumerate(calls):
            with torch.profiler.record_function("measured %d" % number):
                call()
    events = profile.kineto_results.events()
    changes = sorted(((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"), key=lambda change: change[0])
    found = []
    for number in range(len(calls)):
        start, end = next((e.start_ns(), e.start_ns() + e.duration_ns()) for e in events if e.name() == "measured %d" % number)
        now = most = 0
        for at, size in changes:
            if start <= at <= end:
                now += size
                most = max(most, now)
        found.append((now, most))
    return found


def inspect_on_cpu(self):
    """In place of their inspection of an operation, whose memory is a GPU's: the same figures from the allocator of the CPU."""
    result = self.inspection_result
    (run, peak), (forgotten, _) = bytes_of(self.func_run_fwd, self.func_fgt_fwd)
    result.mem_run_fwd, result.mem_fgt_fwd, result.mem_overhead_fwd = run, -forgotten, peak - run
    result.time_fwd = self.timer.robust_measure(self.func_run_fwd)
    if self.sn_to_proceed.info.requires_grad:
        _, (run, peak) = bytes_of(self.func_prepare_bwd, self.func_run_bwd)
        result.mem_run_bwd, result.mem_overhead_bwd = run, peak - run
        self.func_prepare_bwd()
        result.time_bwd = self.timer.robust_measure(self.func_run_bwd, reset_func=self.func_prepare_bwd)
    type(self).reset_local_env(self.sn_to_proceed, self.tmp_local)
    result.relevant = True
    return result


class Step:
    """Their graph as plain numbers: calls with a time in ns, bytes beside, what they need, what they leave; values with bytes."""

    def __init__(self, graph):
        self.graph = graph
        self.size = {a.name: int(a.mem) for a in graph.allocation_nodes}
        self.size.setdefault(graph.source_data_anode.name, 0)
        self.call = {
            c.name: (round(1e6 * (c.time or 0)), int(c.mem_overhead or 0), {a.name for a in c.deps_real}, {a.name for a in c.users})
            for c in graph.computation_nodes
        }
        self.gradients = {a.name for a in graph.list_output_grad_anodes}

    def walk(self, calls):
        """Time, and the most bytes alive, of a list of ("run", call, whether for the values only) and ("drop", value, None)."""
        alive, time_ns, peak = {self.graph.source_data_anode.name}, 0, 0
        for what, name, fast in calls:
            if what == "drop":
                alive.discard(name)
            elif name == "FWD[loss]":
                alive |= self.gradients
                peak = max(peak, sum(self.size[a] for a in alive))
            else:
                run_ns, beside, needs, leaves = self.call[name]
                if needs - alive:
                    raise ValueError("%s without %s" % (name, ", ".join(sorted(needs - alive))))
                alive |= {a for a in leaves if not (fast and a.endswith(" phantoms"))}
                time_ns += run_ns
                peak = max(peak, sum(self.size[a] for a in alive) + beside)
        return time_ns, peak

    def once(self):
        """Every call once, each value dropped after its last use."""
        order = [c.name for c in self.graph.computation_nodes]
        last = {}
        for name in order:
            for value in self.call[name][2] | self.call[name][3]:
                last[value] = name
        return [line for name in order for line in [("run", name, False)] + [("drop", v, None) for v, at in last.items() if at == name]]

    def rmg(self):
        """The same as a graph of ours: a forward with its backward is an op, phantoms are what it saves."""
        graph, lines, name_of = self.graph, ["rockmate graph 1"], {}
        known = {c.main_target: c for c in graph.computation_nodes if not c.is_fwd}
        short = lambda target: target.lstrip("_")
        lines.append("tensor source input 0 grad")
        name_of[graph.source_data_anode.name] = "source"
        grads = []
        for forward in graph.computation_nodes:
            if not forward.is_fwd or forward is graph.loss_cnode:
                continue
            target, name = forward.main_target, short(forward.main_target)
            run_ns, beside, needs, leaves = self.call[forward.name]
            inputs = [name_of[n] for n in sorted(needs)] or ["source"]
            data, phantoms, grad = target + " data", target + " phantoms", target + " grad"
            name_of[data] = name
            line = "op %s in=%s out=%s:%d fwd=%d fwd_ws=%d" % (name, ",".join(inputs), name, self.size[data], run_ns, beside)
            if phantoms in leaves:
                line += " saved=%d" % self.size[phantoms]
            if forward.is_rand:
                line += " rng"
            if target in known:
                run_ns, beside, needs, _ = self.call[known[target].name]
                read = [name_of[n] for n in sorted(needs) if n.endswith(" data")] + (["saved"] if phantoms in needs else [])
                line += " bwd=%d bwd_ws=%d needs=%s" % (run_ns, beside, ",".join(read) or "none")
                if self.size[grad] != self.size[data]:
                    grads.append("grad %s %d" % (name, self.size[grad]))
            else:
                line += " nograd"
            lines.append(line)
        outputs = ",".join(name_of[a.name] for a in graph.list_output_data_anodes)
        lines.append("op loss in=%s out=loss:0 needs=%s once" % (outputs, outputs))
        return "\n".join(lines + grads + ["output loss"]) + "\n"


def solvers_of(preset, seconds):
    """Their partitioners, bottom solvers and top solvers of a preset of theirs, as its class sets them up; seconds of each program."""
    from rkgb.core import partitioned as parts
    from rockmate.solvers import HILP, RK_rotor

    sequence = lambda: parts.PartitionerSequence(sub_partitioner="base")  # their classes hand over an object, which fails
    if preset == "PureRotor":
        return [sequence()], [], [RK_rotor()]
    if preset == "PureRockmate":
        return [sequence()], [HILP(offload=False, time_limit=seconds)], [RK_rotor()]
    if preset == "PureCheckmate":
        return [parts.Partitioner()], [], [HILP(offload=False, time_limit=seconds, nb_total_nodes=10000)]
    both = [
        parts.PartitionerBottomToTop(can_use_rotor=True),
        parts.PartitionerSequence(sub_partitioner="bottom_to_top"),
    ]
    return both, [HILP(time_limit=seconds), RK_rotor()], [HILP(time_limit=seconds, nb_total_nodes=100), RK_rotor()]


def solve(result, preset, budgets, seconds, tell):
    """Runs a preset of theirs on its graph: tells the seconds for the blocks, then for each budget seconds and the list of calls."""
    import pulp
    from rkgb.lowlevel.constants import init_target_string
    from rockmate.op_schedule import ComputeOp, DeleteOp
    from rockmate.simulation import Simulator
    from rockmate.solvers import HILP
    from rockmate.solvers.ilp import ilp_model
    from rockmate.solvers.main import FastSolver, solve_recursive

    ilp_model.get_solver = lambda name, **options: pulp.get_solver(name, timeMode="cpu", **options)  # whatever else runs
    start = processor()
    partitioners, bottom, top = solvers_of(preset, seconds)
    result.build_hierarchical(partitioners)
    cluster, ends = result.hierarchical_cluster, ["%s %s" % (init_target_string, kind) for kind in ("data", "grad")]
    outputs = [a.name for a in result.forward_and_backward_graph.list_output_data_anodes]
    for solver in bottom + top:
        if isinstance(solver, HILP):
            solver.config.protected_names.extend(ends)
    for part in result.hierarchical_structure.all_clusters:
        if not part.is_bottom:
            FastSolver().preprocess(part, no_del_names=ends + outputs)
    if bottom:
        solve_recursive(cluster, list_solvers=bottom, skip_self=True)
    tell({"blocks": processor() - start})
    for budget in budgets:
        start, found = processor(), []
        for solver in top:
            found += solver(cluster, [budget])
        took, plans = processor() - start, []
        for plan in found:
            plan.simulate_update(Simulator, refine_optimize=True)
            calls = []
            for op in plan.op_list:
                if isinstance(op, ComputeOp) and (not op.disabled or op.target.main_target == "loss"):
                    calls.append(("run", op.target.name, bool(op.fast_forward)))
                elif isinstance(op, DeleteOp) and not op.disabled:
                    calls.append(("drop", op.target.name, None))
            peak = max(plan.save_mem_with_interfaces + plan.overhead)
            plans.append({"calls": calls, "time_ms": float(sum(plan.time)), "peak": int(peak)})
        tell({"budget": budget, "seconds": took, "plans": plans})


def told_by(job, seconds):
    """Runs job(tell) in a process group of its own, which is ended after so many seconds; what it told, and whether it was ended."""
    with tempfile.TemporaryFile("w+") as file, tempfile.TemporaryFile("w+") as noise:
        child = os.fork()
        if child == 0:
            os.setsid()
            os.dup2(noise.fileno(), 1)
            os.dup2(noise.fileno(), 2)
            status = 1
            try:
                job(lambda what: (file.write(json.dumps(what) + "\n"), file.flush()))
                status = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        end = time.time() + seconds
        ended = (0, 0)
        while ended[0] == 0 and time.time() < end:
            time.sleep(0.1)
            ended = os.waitpid(child, os.WNOHANG)
        late = ended[0] == 0
        if late:
            os.killpg(child, signal.SIGKILL)
            ended = os.waitpid(child, 0)
        if ended[1] and not late:
            noise.seek(0)
            print(noise.read()[-2000:], file=sys.stderr)
        file.seek(0)
        return [json.loads(line) for line in file], late


def ours(rmplan, path, budget):
    """Our plan of that graph in so many bytes alive: its figures, or None; seconds of processor."""
    start = processor()
    done = subprocess.run([rmplan, path, "--live", "--kv", "--budget", str(budget)], capture_output=True, text=True)
    figures = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr)
    return figures if done.returncode == 0 else None, processor() - start


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def compare(step, rmplan, path, budget, answer, late):
    """Cells of theirs and ours at a budget: over every call once, bytes, seconds; our proven gap. And whether ours is slower."""
    every_ns, walked = step.walk(step.once())[0], []
    for plan in answer["plans"] if answer else []:
        try:
            walked.append(step.walk(plan["calls"]))
        except ValueError as error:
            print("a plan of theirs cannot run: %s" % error, file=sys.stderr)
            continue
        if abs(walked[-1][0] / 1e6 / plan["time_ms"] - 1) > 1e-5 or walked[-1][1] != plan["peak"]:
            print("their simulation says %.3f ms, %d bytes, and this walk %.3f ms, %d bytes" % (
                plan["time_ms"], plan["peak"], walked[-1][0] / 1e6, walked[-1][1]), file=sys.stderr)
    over = lambda ns: "%+.2f %%" % (100 * (ns / every_ns - 1))
    mib = lambda size: "%.1f" % (size / 2**20)
    time_ns, peak = min(walked, default=(None, budget))
    cells = [over(time_ns), mib(peak)] if walked else ["not in time" if late and not answer else "none", ""]
    cells.append("%.1f" % answer["seconds"] if answer else "")
    plan, took = ours(rmplan, path, peak)
    if not plan:
        return cells + ["none"] + [""] * 3, time_ns is not None
    slower = time_ns is not None and int(plan["time_ns"]) > time_ns
    return cells + [over(int(plan["time_ns"])), mib(int(plan["live_bytes"])), "%.1f" % took, "%.2f %%" % float(plan["gap_pct"])], slower


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("checkout")
    ask.add_argument("rmplan")
    ask.add_argument("--layers", type=int, default=2)
    ask.add_argument("--batch", type=int, default=4)
    ask.add_argument("--limit", type=float, default=1100, help="seconds for a preset of theirs, all budgets")
    ask.add_argument("--program", type=int, default=10, help="seconds of processor for one integer program")
    ask.add_argument("--budgets", default="90,80,70,60,50,40", help="per cent of the peak of every call once")
    ask.add_argument("--presets", default="PureRotor,PureRockmate,Hiremate,PureCheckmate")
    ask.add_argument("--graph", help="keep the graph there (.rmg)")
    asked = ask.parse_args()
    sys.path[:0] = [os.path.join(asked.checkout, part, "src") for part in ("rkgb", "rockmate")]
    import rkgb
    from rkgb.lowlevel import inspection, measure

    torch.manual_seed(0)
    torch.set_num_threads(1)
    measure.Timer.minimum_number_of_iterations = 20
    measure.time = argparse.Namespace(perf_counter=time.process_time)  # of the processor, whatever else runs
    inspection.InspectorDefault.inspect = inspect_on_cpu
    start, worse = processor(), False
    with contextlib.redirect_stdout(io.StringIO()):
        result = rkgb.Result(GPT(asked.layers), [torch.randint(2048, (asked.batch, 256))], wanted_graphs={"FB"})
    step = Step(result.forward_and_backward_graph)
    every_ns, every_bytes = step.walk(step.once())
    print("GPT of %d layers: %d calls, %d values, %.0f ms and %.1f MiB with every call once; graph made and measured in %.0f s\n" % (
        asked.layers, len(step.call), len(step.size), every_ns / 1e6, every_bytes / 2**20, processor() - start))
    path = asked.graph or tempfile.mkstemp(suffix=".rmg")[1]
    with open(path, "w") as file:
        file.write(step.rmg())
    row("preset, budget", "theirs", "MiB", "s", "ours in these bytes", "MiB", "s", "proven gap")
    row(*["---"] * 8)
    budgets = {share: int(share) * every_bytes // 100 for share in asked.budgets.split(",")}
    for preset in asked.presets.split(","):
        told, late = told_by(lambda tell: solve(result, preset, budgets.values(), asked.program, tell), asked.limit)
        blocks = ["%.1f" % line["blocks"] for line in told if "blocks" in line] or ["not in time" if late else "failed"]
        row(preset + ", blocks", "", "", blocks[0], "", "", "", "")
        answers = {line["budget"]: line for line in told if "budget" in line}
        for share, budget in budgets.items():
            cells, slower = compare(step, asked.rmplan, path, budget, answers.get(budget), late)
            row(share + " %", *cells)
            worse |= slower
    if not asked.graph:
        os.unlink(path)
    return int(worse)


if __name__ == "__main__":
    sys.exit(main())
