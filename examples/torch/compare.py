"""Plans of rmplan beside those of torch.compile's activation_memory_budget, at equal memory:

    python compare.py --rmplan ./rmplan

or, with --pair, plans of the two forms of a graph (export.py with and without --pair) beside each other. Of the first:

Both plan the same step of a GPT and of a U-Net, captured and measured once. torch.compile's partitioner splits the step
into a forward and a backward and chooses what is kept between them, for each of some budgets (shares of what it would
keep). The most bytes that are alive at a time in what it makes are counted, as in run.py, and rmplan plans for those.
Times are sums of the calls' measured times. Neither side works in place, and no call is fused with another, as in
torch.compile's backend aot_eager_decomp_partition; on a GPU and with its compiler some recomputation would cost less.
"""

import argparse
import copy
import os
import subprocess
import sys
import tempfile

import torch
import torch._functorch.config
from torch import fx
from torch._functorch.partitioners import min_cut_rematerialization_partition

import models
from export import capture, graph_text, measure
from pair import Pairs
from run import Meter, Planned, outcome, peak_of, plain, same_bits


def theirs(step, batch, budget):
    """What torch.compile's partitioner makes of a step: (nanoseconds, most bytes alive at a time)."""
    joint = copy.deepcopy(step.constants)
    placeholders = joint.graph.find_nodes(op="placeholder")
    results = joint.graph.output_node().args[0]
    forward_results = len(results) - sum(kind != "tangent" for kind, _ in step.sources)
    with torch._functorch.config.patch(activation_memory_budget=budget):
        inputs = [node.meta["val"] for node in placeholders]
        parts = min_cut_rematerialization_partition(
            joint, inputs, num_fwd_outputs=forward_results, static_lifetime_input_indices=[]
        )
    times = {(call.node.name, call.node.target): call.ns for call in step.calls}
    took = sum(times.get((node.name, node.target), 0) for part in parts for node in part.graph.nodes)
    given = {node.name: tensor for node, tensor in step.given_values(batch).items()}
    lasting = dict(given)
    with torch.no_grad(), Meter() as meter:
        given.update(run_part(parts[0], given))
        given.update(lasting)
        run_part(parts[1], given)
    return took, meter.peak


def run_part(part, given):
    """Runs a forward or a backward, each tensor freed after its last use; gives its results by their nodes' names.

    What is given and not the caller's must have no other reference, so it is taken out of `given`.
    """
    inputs = [given.pop(node.name) for node in part.graph.find_nodes(op="placeholder")]
    results = fx.Interpreter(part).boxed_run(inputs)
    nodes = part.graph.output_node().args[0]
    return {node.name: result for node, result in zip(nodes, results) if isinstance(node, fx.Node)}


def plan_of(rmplan, text, size, *options):
    """rmplan's figures and its plan of a graph in so many bytes; without a plan there is no time_ns in the figures."""
    with tempfile.TemporaryDirectory() as folder:
        graph, plan = os.path.join(folder, "step.rmg"), os.path.join(folder, "step.rmp")
        with open(graph, "w") as file:
            file.write(text)
        command = [rmplan, graph, "--budget", str(size), "--align", "1", "--out", plan, "--kv", *options]
        answer = subprocess.run(command, capture_output=True, text=True)
        if answer.returncode not in (0, 3):
            raise SystemExit(f"compare.py: {answer.stderr}")
        figures = dict(line.split("=", 1) for line in answer.stdout.splitlines() if "=" in line)
        return figures, open(plan).read() if answer.returncode == 0 else None


def ours(rmplan, step, model, batch, size):
    """What rmplan makes of a step in so many bytes: (nanoseconds, most bytes alive at a time); None: no plan fits."""
    figures, plan = plan_of(rmplan, graph_text(step), size)
    if plan is None:
        return None
    planned = Planned(step, graph_text(step), plan)
    if not same_bits(outcome(lambda: plain(model, batch), model, 1), outcome(lambda: planned(*batch), model, 1)):
        raise SystemExit("compare.py: the planned step has other bits than the plain one")
    return int(figures["time_ns"]), peak_of(lambda: planned(*batch), model)


def forms(rmplan, name, model, batch, shares, rounds):
    """Prints what the plans of one list of calls cost, and those of ops with backwards, at shares of keeping all."""
    step = capture(model, batch)
    measure(step, batch, rounds)
    graphs = {"one list": graph_text(step), "ops": Pairs(step).text()}
    columns = [("one list", "hiremate"), ("ops", "hiremate"), ("ops", "rockmate"), ("ops", "rotor")]
    keep = int(plan_of(rmplan, graphs["one list"], "100%")[0]["keep_all_bytes"])
    total = sum(call.ns for call in step.calls)
    print(f"\n{name}: {len(step.calls)} calls, {total / 1e6:.0f} ms, keeping everything takes {keep / 2**20:.1f} MiB")
    print("share MiB" + "".join(f"{graph + ', ' + preset:>21}" for graph, preset in columns))
    for share in shares:
        line = f"{share:3} % {keep * share / 100 / 2**20:5.1f}"
        for graph, preset in columns:
            figures, plan = plan_of(rmplan, graphs[graph], keep * share // 100, "--preset", preset)
            over = f"{int(figures['time_ns']) / total - 1:+.2%}" if plan else "none"
            line += f"{over:>13} {float(figures['solve_ms']) / 1e3:5.1f} s" if plan else f"{over:>21}"
        print(line, flush=True)
    least = [plan_of(rmplan, text, 1)[0]["min_bytes"] for text in graphs.values()]
    print("least memory with a plan: " + ", ".join(f"{int(size) / 2**20:.2f} MiB" for size in least))


def table(rmplan, name, model, batch, budgets, rounds):
    """Prints the table of one model."""
    step = capture(model, batch)
    for call in step.calls:
        call.over = None  # nothing in place
    measure(step, batch, rounds)
    total = sum(call.ns for call in step.calls)
    most = peak_of(lambda: plain(model, batch), model) / 2**20
    print(f"\n{name}: {len(step.calls)} calls, {total / 1e6:.0f} ms; a plain step takes {most:.1f} MiB")
    print(f"{'budget':>6} {'MiB':>8} {'theirs':>9} {'ours':>9} {'MiB':>8}")
    for budget in budgets:
        took, peak = theirs(step, batch, budget)
        plan = ours(rmplan, step, model, batch, peak)
        mine = f"{plan[0] / total - 1:+9.2%} {plan[1] / 2**20:8.2f}" if plan else f"{'none':>9}"
        print(f"{budget:6.2f} {peak / 2**20:8.2f} {took / total - 1:+9.2%} {mine}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rmplan", default="./rmplan", help="the planner: cc -O2 -o rmplan examples/rmplan.c -lm")
    parser.add_argument("--rounds", type=int, default=7, help="each call takes the least time of so many (default 7)")
    parser.add_argument("--small", action="store_true", help="small models, two budgets: to see that it works")
    parser.add_argument("--pair", action="store_true", help="compare one list of calls with ops that have backwards")
    options = parser.parse_args()
    if options.pair and options.small:
        forms(options.rmplan, "GPT", *models.gpt(layers=1, batch=2), [80, 70], options.rounds)
        return
    if options.pair:
        forms(options.rmplan, "GPT, 4 layers", *models.gpt(layers=4), [70, 50, 30, 25, 22], options.rounds)
        deep = models.gpt(layers=24, width=64, batch=4)
        forms(options.rmplan, "GPT, 24 layers", *deep, [70, 50, 30, 20, 12, 9, 8], options.rounds)
        forms(options.rmplan, "U-Net, depth 3", *models.unet(), [70, 50, 40, 35, 33], options.rounds)
        return
    if options.small:
        budgets = [1, 0.5]
        table(options.rmplan, "GPT", *models.gpt(layers=1, batch=2, dropout=0.0), budgets, options.rounds)
        table(options.rmplan, "U-Net", *models.unet(batch=1, size=32), budgets, options.rounds)
        return
    budgets = [1, 0.8, 0.6, 0.4, 0.2, 0.1, 0]
    table(options.rmplan, "GPT, 6 layers", *models.gpt(layers=6, width=256, dropout=0.0), budgets, options.rounds)
    table(options.rmplan, "U-Net, depth 3", *models.unet(batch=4, size=128, width=16), budgets, options.rounds)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main())
