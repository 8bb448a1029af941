#!/usr/bin/env python3
"""The league table, docs/league.md: published instances, our plans, their figures, the proven gap.

   cc -O2 -o rmplan examples/rmplan.c -lm
   python3 tests/bench/league/league.py chains ./rmplan                 equal chains; needs nothing else
   python3 tests/bench/league/league.py vgg19 ./rmplan                  Checkmate's largest batch; needs nothing else
   python3 tests/bench/league/league.py llmq ./rmplan                   LLMQ's flags on its models; needs nothing else
   python3 tests/bench/league/league.py moccasin ./rmplan PATH          PATH: git clone https://github.com/haoming-codes/moccasin
   python3 tests/bench/league/league.py pipedream ./rmplan PATH [50 25]  PATH: git clone https://github.com/msr-fiddle/pipedream
   python3 tests/bench/league/league.py published ./rmplan PATH         PATH: a folder with published.tsv and the graphs (.rmg) that
                                                                        it names: MONeT's and Checkmate's results on MONeT's profiles
   python3 tests/bench/league/league.py optima ./rmplan PATH            PATH: a folder with optima.tsv and its graphs: proven optima
   python3 tests/bench/league/league.py addresses ./rmplan PATH         PATH: https://github.com/google/minimalloc/tree/main/benchmarks/challenging

A row of a Markdown table for each plan. Standard library only; nothing of the sources is kept. Ends with 1 if a plan is worse than
theirs where that can be said."""
import json
import math
import os
import re
import subprocess
import sys
import tempfile

worse = 0


def plan(rmplan, graph, *options):
    """The figures of one plan; those of an infeasible budget have status=infeasible."""
    done = subprocess.run([rmplan, graph, "--kv", *options], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(done.stderr)
    out = done.stdout
    return {k: v for k, v in (line.split("=", 1) for line in out.splitlines() if "=" in line)}


def written(text):
    f = tempfile.NamedTemporaryFile("w", suffix=".rmg", delete=False)
    f.write(text)
    f.close()
    return f.name


def row(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def judge(ours, theirs):
    global worse
    worse += ours > theirs
    return "=" if ours == theirs else "%+.2f %%" % (100 * (ours / theirs - 1))


def chains(rmplan):
    """n equal steps, room for s things beside the step that runs: a value to start from again, or what a backward reads."""
    best = {}

    def optimum(n, s):  # fewest forward steps: Maddison 2024, as checkpoint_schedules' MixedCheckpointSchedule
        if n <= s + 1:
            return n
        if s == 1:
            return n * (n + 1) // 2 - 1
        if (n, s) not in best:
            best[n, s] = min([optimum(n - 1, s - 1) + 1] + [i + optimum(i, s) + optimum(n - i, s - 1) for i in range(2, n)])
        return best[n, s]

    sys.setrecursionlimit(5000)
    row("steps, units", "ours: forward steps", "theirs", "", "proven gap", "ms")
    row(*["---"] * 6)
    unit = 1 << 20
    for n, s in (10, 3), (50, 3), (100, 4), (100, 10), (200, 5), (500, 8):
        lines = ["rockmate graph 1", "tensor v0 input %d grad" % unit]
        for p in range(1, n):
            lines.append("op f%d in=v%d out=v%d saved=%d needs=saved fwd=1000000 bwd=1 inplace=v%d" % (p, p - 1, p, unit, p - 1))
            lines.append("grad v%d 16" % p)
        lines += ["op f%d in=v%d out=v%d:16 saved=%d needs=saved fwd=1000000 bwd=1" % (n, n - 1, n, unit), "output v%d" % n]
        graph = written("\n".join(lines) + "\n")
        p = plan(rmplan, graph, "--live", "--budget", str((s + 2) * unit + 4096))
        os.unlink(graph)
        ours = int(p["time_ns"]) // 1000000
        row("%d, %d" % (n, s), ours, optimum(n, s), judge(ours, optimum(n, s)), p["gap_pct"] + " %", p["solve_ms"])


def vgg19(rmplan):
    """fp32, 224 x 224, 16 GB with weights and their gradients, at most one forward more: the largest batch."""
    def graph(batch, inplace):
        lines = ["rockmate graph 1", "tensor x0 input %d" % (batch * 224 * 224 * 3 * 4 if inplace else 4)]
        side, channels, n, name = 224, 3, 0, "x0"

        def weight(name, floats):
            lines.append("tensor %s param %d" % (name, floats * 4))
            return name

        for stage, (width, convs) in enumerate(((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))):
            for _ in range(convs):
                n += 1
                time = batch * side * side * width * channels * 9 // 5000
                read = "%s,x%d" % (name, n)
                w = weight("w%d" % n, 9 * width * channels + width)
                lines.append("op conv%d in=%s,%s out=x%d:%d needs=%s,%s fwd=%d bwd=%d" % (
                    n, name, w, n, batch * side * side * width * 4, name if inplace else read, w, time, 2 * time))
                if inplace:
                    lines.append("op relu%d in=x%d out=r%d needs=r%d fwd=%d bwd=%d inplace=x%d inplace_bwd=x%d" % (n, n, n, n, time // 100 + 1, time // 100 + 1, n, n))
                name, channels = ("r%d" if inplace else "x%d") % n, width
            side //= 2
            lines.append("op pool%d in=%s out=p%d:%d needs=%s,p%d fwd=%d bwd=%d" % (stage, name, stage, batch * side * side * width * 4, name, stage, time // 50 + 1, time // 50 + 1))
            name = "p%d" % stage
        size = 512 * 49
        for k, width in enumerate((4096, 4096, 1000)):
            w = weight("w_fc%d" % k, size * width + width)
            lines.append("op fc%d in=%s,%s out=y%d:%d needs=%s,%s,y%d fwd=%d bwd=%d" % (
                k, name, w, k, batch * width * 4, name, w, k, batch * 10000, batch * 20000))
            name, size = "y%d" % k, width
        return "\n".join(lines + ["op loss in=%s out=l:4 needs=%s fwd=1000 bwd=1000" % (name, name), "output l"]) + "\n"

    row("VGG19, fp32, 16 GB", "ours: images", "theirs", "", "time over keeping all")
    row(*["---"] * 5)
    for what, inplace in ("in their model: nothing in place, images not counted", 0), ("relu in place, images counted", 1):
        low, high, good = 1, 1024, None
        while high - low > 1:
            batch = (low + high) // 2
            path = written(graph(batch, inplace))
            p = plan(rmplan, path, "--budget", str(16 * 10**9), "--live")
            os.unlink(path)
            fits = p["status"] == "ok" and int(p["recomputed_ns"]) * 3 <= int(p["keep_all_ns"])
            low, high, good = (batch, high, p) if fits else (low, batch, good)
        row(what, low, 289, "=" if low == 289 else "%+.0f %%" % (100 * low / 289 - 100), "%+.1f %%" % (100 * int(good["time_ns"]) / int(good["keep_all_ns"]) - 100))


def pipedream(rmplan, root, *shares):
    """Profiles of times and sizes. A backward reads its inputs, of relu, sigmoid and tanh the output, of additions and views nothing;
    a weight is updated as soon as its gradient is complete."""
    row("profile, nodes", "least memory", *[c for s in shares or ("50", "25") for c in (s + " % of the way from it: ours", "rotor")], "s")
    row(*["---"] * (3 + 2 * len(shares or "12")))
    for folder, _, files in sorted(os.walk(root)):
        if "graph.txt" not in files or "/profiles/" not in folder + "/":
            continue
        nodes, into = {}, {}
        for line in open(os.path.join(folder, "graph.txt")):
            part = line.strip("\n").split(" -- ")
            if line.startswith("\t"):
                into.setdefault(part[1].strip(), []).append(part[0].strip())
            elif len(part) >= 3:
                get = lambda key: sum(float(x) for x in re.findall(r"[0-9.]+(?:e[+-]?\d+)?", re.search(key + r"=(\[[^\]]*\]|[^,]*)", line).group(1)))
                nodes[part[0]] = (part[1], get("forward_compute_time"), get("backward_compute_time"), get("activation_size"), int(get("parameter_size")))
        done, order = set(), []

        def visit(top):
            stack = [(top, 0)]
            while stack:
                node, k = stack.pop()
                if node in done:
                    continue
                before = [b for b in into.get(node, []) if b not in done]
                if before and k < 3:
                    stack += [(node, k + 1)] + [(b, 0) for b in before]
                else:
                    done.add(node)
                    order.append(node)

        for node in nodes:
            visit(node)
        lines = ["rockmate graph 1"]
        for node in order:
            kind, forward, backward, size, weight = nodes[node]
            size = max(int(size), 4)
            if not into.get(node):
                lines.append("tensor %s input %d" % (node, size))
                continue
            ins = list(dict.fromkeys(into[node]))
            reads = [node] if re.match("(?i)relu|sigmoid|tanh|softmax", kind) else [] if re.match("(?i)add|concat|view|size|dropout|flatten|getitem", kind) else ins
            more = ["needs=" + (",".join(reads) or "none"), "fwd=%d" % max(1, forward * 1e6), "bwd=%d" % max(1, backward * 1e6)]
            if weight:
                lines.append("tensor w.%s param %d opt=1" % (node, weight))
                ins = ins + ["w." + node]
            lines.append("op %s in=%s out=%s:%d %s" % (node, ",".join(ins), node, size, " ".join(more)))
        ends = [n for n in order if into.get(n) and not any(n in b for b in into.values())]
        lines += ["op loss in=%s out=loss:4 needs=%s fwd=1000 bwd=1000" % (",".join(ends), ",".join(ends)), "output loss"]
        graph = written("\n".join(lines) + "\n")
        none = plan(rmplan, graph, "--budget", "1")
        least, all_bytes = int(none["min_bytes"]), int(none["keep_all_bytes"])
        over = lambda q: "%+.2f %%" % (100 * int(q["time_ns"]) / int(q["keep_all_ns"]) - 100) if q.get("status") == "ok" else "no plan"
        cells = []
        for share in shares or ("50", "25"):
            budget = str(least + (all_bytes - least) * int(share) // 100)
            p = plan(rmplan, graph, "--budget", budget)
            cells += [over(p) + ", gap %.2f %%" % float(p["gap_pct"]), over(plan(rmplan, graph, "--budget", budget, "--preset", "rotor"))]
        row("%s, %d" % (os.path.basename(folder), len(order)), "%.0f %%" % (100 * least / all_bytes), *cells, "%.1f" % (float(p["solve_ms"]) / 1e3))
        os.unlink(graph)


def moccasin(rmplan, root):
    """Graphs of calls: a size and a time each, and an order. Budgets are shares of the peak in that order."""
    budgets = 90, 80, 70, 60, 50
    order_fixed = written("rockmate config 1\npreset=hiremate\noff=reorder\n")
    row("graph", "calls, edges", "order", *["%d %%" % share for share in budgets])
    row(*["---"] * (3 + len(budgets)))
    for name in sorted(os.listdir(os.path.join(root, "data"))):
        if not name.endswith(".json") or name.endswith("_test_nx.json"):
            continue
        data = json.load(open(os.path.join(root, "data", name)))
        one, two = ("0", "1") if "0" in data["links"][0] else ("source", "target")
        size, time, into, out = {}, {}, {}, {}
        for node in data["nodes"]:
            v = node.get("id", node["name"])
            size[v], time[v] = node.get("out_cost", node.get("cost_ram")), node.get("duration", node.get("cost_cpu"))
            into[v], out[v] = [], []
        for edge in data["links"]:
            out[edge[one]].append(edge[two])
            into[edge[two]].append(edge[one])
        order = data["graph"].get("order") or in_layers(into, out)
        live, peak, left = 0, 0, {v: len(out[v]) for v in out}
        for v in order:  # a value is there until its last reader has run
            live += size[v]
            peak = max(peak, live)
            live -= 0 if out[v] else size[v]
            for u in into[v]:
                left[u] -= 1
                live -= 0 if left[u] else size[u]
        lines, ends = ["rockmate graph 1", "tensor start input 0"], [v for v in order if not out[v]]
        for v in order:  # what nobody reads may go at once: a mark of no bytes says that it was made
            made = "v%d:%d%s" % (v, size[v], "" if out[v] else ",made%d:0" % v)
            lines.append("op v%d in=%s out=%s nograd fwd=%d" % (v, ",".join("v%d" % u for u in into[v]) or "start", made, time[v] * 1000))
        lines += ["op end in=%s out=end:0 nograd" % ",".join("made%d" % v for v in ends), "output end"]
        graph = written("\n".join(lines) + "\n")
        for what, options in ("theirs", ["--config", order_fixed]), ("any", []):
            cells = []
            for share in budgets:
                p = plan(rmplan, graph, "--live", "--budget", str(math.ceil(peak * share / 100)), *options)
                over = 100 * int(p.get("time_ns", 0)) / int(p["keep_all_ns"]) - 100
                least = 100 * int(p.get("min_bytes", 0)) / peak, 100 * int(p["min_bound_bytes"]) / peak
                cells.append("%+.2f %%" % over if p["status"] == "ok" else "none below %.1f %% (proven: %.1f %%)" % least)
            row(re.split(" |_w|[.]json", name)[0], "%d, %d" % (len(order), len(data["links"])), what, *cells)
        os.unlink(graph)
    os.unlink(order_fixed)


def in_layers(into, out):
    """The nodes of a graph that names no order: those whose inputs are there, then those that these make ready, and so on."""
    left, layer, order = {v: len(into[v]) for v in into}, [v for v in into if not into[v]], []
    while layer:
        order += layer
        ready = []
        for v in layer:
            for w in out[v]:
                left[w] -= 1
                ready += [] if left[w] else [w]
        layer = ready
    return order


def llmq(rmplan):
    """Flags of LLMQ as fixed plans, and ours in the bytes that these take: a step of accumulation, sequences of 1,024, states of 4 bytes a
    weight. --recompute-block with --offload-residual is preset `blocks`."""
    ffn, att = ["gate-up", "swiglu"], ["qkv", "rope", "attention"]
    flags = {
        "swiglu": ["swiglu"], "swiglu, norm": ["swiglu", "norm1", "norm2"], "ffn": ffn, "ffn, att": ffn + att,
        "ffn, att, norm": ffn + att + ["norm1", "norm2"],
        "block": ffn + att + ["norm1", "norm2", "proj", "residual1"],
    }
    row("model, sequences, device", "recompute", "GiB", "theirs", "ours", "proven gap", "s")
    row(*["---"] * 7)

    def set_beside(model, batch, device, what, host, *options):
        common = ["--model", model, "--device", device, "--tokens", str(batch * 1024), "--sequence", "1024", "--step", "middle", "--optimizer", "slim", "--host", host]
        done = [rmplan, *common, "--kv", "--budget"]
        run = lambda budget, *more: dict(line.split("=", 1) for line in subprocess.run([*done, budget, *more], capture_output=True, text=True).stdout.splitlines() if "=" in line)
        size = run("1", *options)["min_bytes"]
        theirs, ours = run(size, *options), run(size)
        over = lambda p: "%+.2f %%" % (100 * int(p["time_ns"]) / int(p["keep_all_ns"]) - 100)
        global worse
        worse += int(ours["time_ns"]) > int(theirs["time_ns"])
        row("%s, %d, %s" % (model, batch, device), what, "%.2f" % (int(size) / 2**30), over(theirs), over(ours), ours["gap_pct"] + " %", "%.1f" % (float(ours["solve_ms"]) / 1e3))

    for model, batch, device in ("qwen2.5-0.5b", 16, "rtx5090"), ("qwen2.5-1.5b", 8, "rtx5090"), ("qwen2.5-3b", 8, "rtx5090"), ("qwen2.5-7b", 4, "h100"):
        for what, kinds in flags.items():
            config = written("rockmate config 1\npasses=kinds\noff=variants,reorder\nkinds=%s\n" % ",".join(kinds))
            set_beside(model, batch, device, what, "0", "--config", config)
            os.unlink(config)
    for model, batch in ("qwen2.5-7b", 16), ("qwen2.5-14b", 32):
        set_beside(model, batch, "rtx4090", "block, residuals and weights in host memory", "256G", "--preset", "blocks")


def published(rmplan, folder):
    row("network, GiB", "ours: ms", "MONeT", "", "Checkmate", "proven gap", "ours in s", "MONeT in s")
    row(*["---"] * 8)
    rows = [line.rstrip("\n").split("\t") for line in open(os.path.join(folder, "published.tsv"))][1:]
    for name, budget, monet, _, seconds, checkmate, _, _ in rows:
        p = plan(rmplan, os.path.join(folder, name + ".rmg"), "--budget", budget)
        if p["status"] != "ok":
            row("%s, %.2g" % (name, int(budget) / 2**30), "no plan", monet, "", checkmate, "", "", seconds)
            continue
        ours = int(p["time_ns"]) / 1e6
        row("%s, %.2g" % (name, int(budget) / 2**30), "%.1f" % ours, monet, judge(round(ours, 2), float(monet)) if monet != "-" else "", checkmate, p["gap_pct"] + " %", "%.2f" % (float(p["solve_ms"]) / 1e3), seconds)


def optima(rmplan, folder):
    equal = below = above = proven = 0
    head, *rows = [line.rstrip("\n").split("\t") for line in open(os.path.join(folder, "optima.tsv")) if not line.startswith("#")]
    column = {name: i for i, name in enumerate(head)}
    for cells in rows:
        name, budget, best = cells[0], cells[column["budget_bytes"]], cells[column["optimal_ns"]]
        if best == "-":
            continue
        p = plan(rmplan, os.path.join(folder, name + ".rmg"), "--live", "--budget", budget)
        ours = int(p.get("time_ns", 1 << 62))
        equal, below, above = equal + (ours == int(best)), below + (ours < int(best)), above + (ours > int(best))
        proven += p.get("time_ns") == p.get("bound_ns")
    global worse
    worse += above
    row("small graphs with proven optima", "equal", "faster (backwards in another order)", "slower", "proven by our own bound")
    row(*["---"] * 5)
    row(equal + below + above, equal, below, above, proven)


def addresses(rmplan, folder):
    row("minimalloc", "ours: height", "capacity", "", "ms")
    row(*["---"] * 5)
    for name in sorted(f for f in os.listdir(folder) if re.match(r"[A-K]\.\d+\.csv", f)):
        capacity = name.split(".")[1]
        out = subprocess.run([rmplan, "--place", os.path.join(folder, name), "--capacity", capacity, "--kv"], capture_output=True, text=True).stdout
        p = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        row(name[0], p["height"], capacity, judge(int(p["height"]), int(capacity)) if int(p["height"]) > int(capacity) else "=", p["solve_ms"])


if len(sys.argv) < 3 or sys.argv[1] not in ("chains", "vgg19", "llmq", "moccasin", "pipedream", "published", "optima", "addresses"):
    sys.exit(__doc__)
globals()[sys.argv[1]](*sys.argv[2:])
sys.exit(worse > 0)
