"""Training steps from PyTorch: captured, planned and run, with the bits of the plain step.

    python tests/torch/test_torch.py PATH/TO/rmplan        last line: N passed, N failed, N skipped
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import traceback

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
EXAMPLES = os.path.join(ROOT, "examples", "torch")
sys.path.insert(0, EXAMPLES)

import export  # noqa: E402
import models  # noqa: E402
import pair  # noqa: E402
import run  # noqa: E402

RMPLAN = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "rmplan")
counts = {"passed": 0, "failed": 0}


def expect(fact, what):
    """Counts a fact; says which are not so."""
    counts["passed" if fact else "failed"] += 1
    if not fact:
        print(f"FAILED: {what}")


def rmplan(graph, *options):
    """What rmplan answers: (exit status, {key: value}, messages, the plan)."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = os.path.join(folder, "step.rmg"), os.path.join(folder, "step.rmp")
        with open(path, "w") as file:
            file.write(graph)
        answer = subprocess.run([RMPLAN, path, *options, "--out", out, "--kv"], capture_output=True, text=True)
        plan = open(out).read() if answer.returncode == 0 else ""
    figures = dict(line.split("=", 1) for line in answer.stdout.splitlines() if "=" in line)
    return answer.returncode, figures, answer.stderr, plan


def recomputed(plan):
    """The calls that a plan runs more than once."""
    runs = re.findall(r"^run fwd (\S+)", plan, re.MULTILINE)
    return {name for name in runs if runs.count(name) > 1}


def planned_as_plain(name, model, batch, budgets):
    """Plans a model at some budgets, as one list of calls and as ops with backwards, and runs both: the same bits, in
    no more memory than the plan says.

    Gives the step, and the calls that some plan recomputes.
    """
    step = export.capture(model, batch)
    export.measure(step, batch, 1)
    again = set()
    wanted = run.outcome(lambda: run.plain(model, batch), model)
    for form, graph in ("list", export.graph_text(step)), ("pairs", pair.Pairs(step).text()):
        for budget in budgets:
            what = f"{name}, {form}, at {budget}"
            status, _, error, plan = rmplan(graph, "--budget", budget)
            expect(status == 0, f"{what}: {error}")
            if status:
                continue
            planned = run.Planned(step, graph, plan)
            left = run.outcome(lambda: planned(*batch), model)
            expect(run.same_bits(wanted, left), f"{what}: other bits than the plain step")
            peak = run.peak_of(lambda: planned(*batch), model)
            expect(peak <= planned.bytes, f"{what}: {peak} bytes alive, {planned.bytes} by the plan")
            again |= recomputed(plan)
    return step, again


# --- the models of examples/torch/models.py, at two budgets each


def test_models():
    for make in (models.mlp, models.convnet, models.views, models.unet):
        name = make.__name__
        _, again = planned_as_plain(name, *make(), ["60%", "45%"])
        expect(again, f"{name}: nothing was recomputed")


def test_dropout_again():
    """Dropout that is run again gives the same mask, and the generator is left where the plain step leaves it."""
    step, again = planned_as_plain("gpt", *models.gpt(layers=3), ["60%", "35%"])
    random = {call.name for call in step.calls if call.random}
    expect(random & again, "gpt: no random call was recomputed, so nothing was tested")


def test_pairs_are_a_chain():
    """Of ops with backwards the presets that need a chain have plans; of one list of calls they have none."""
    step = export.capture(*models.gpt(layers=3))
    text = pair.Pairs(step).text()
    for preset in ("rotor", "rockmate"):
        expect(rmplan(text, "--budget", "70%", "--preset", preset)[0] == 0, f"{preset}: no plan of ops with backwards")
    expect(rmplan(export.graph_text(step), "--budget", "70%", "--preset", "rotor")[0] == 3, "a list has no stages")
    pairs = pair.Pairs(step)
    cells = {call.name: [each.name for each in cell] for call, cell in zip(pairs.ops, pairs.cells)}
    cell = cells["blocks.2.mlp.1/gelu_2"]
    expect(cell == ["blocks.2.mlp.1/gelu_backward"], f"the backward of gelu: {cell}")
    cell = cells["blocks.2.norm2/native_layer_norm_5"]
    expect(len(cell) == 2 and cell[1].startswith("add"), f"the sum at a residual belongs to the last that adds: {cell}")


def test_two_threads():
    torch.set_num_threads(2)
    planned_as_plain("gpt with two threads", *models.gpt(layers=1, batch=2), ["60%"])
    torch.set_num_threads(1)


def test_modules_in_names():
    step = export.capture(*models.gpt(layers=1, batch=2))
    names = {call.name for call in step.calls}
    expect({"blocks.0.mlp.1/gelu", "blocks.0.mlp.1/gelu_backward"} <= names, "calls have the names of their modules")
    expect({"self.blocks.0.mlp.0.weight", "batch[1]"} <= set(step.given), "weights and batch have their names")


# --- models that a stranger may bring


class Of(nn.Module):
    """A module whose forward is a function of the module and the batch."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *batch):
        return self.function(self, *batch)


class Square(torch.autograd.Function):
    """A function with a backward of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x * gradient


class Noisy(torch.autograd.Function):
    """A function whose backward draws random numbers."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient + torch.rand_like(gradient)


def in_bfloat16(self, x):
    with torch.autocast("cpu", torch.bfloat16):
        hidden = self.b(F.gelu(self.a(x)))
    return hidden.float().pow(2).mean()


def statistics_first(self, x):
    self.mean.copy_(x.mean(0))
    hidden = self.a(x - self.mean)
    self.mean.add_(hidden.detach().mean(0))
    return (hidden * self.mean).pow(2).mean()


def attention(self, x):
    return F.scaled_dot_product_attention(self.a(x), x, x, is_causal=True).mean()


def several_random(self, x):
    return (self.a(x) * torch.randn(64) + torch.rand_like(x) * torch.randperm(64)).mean()


def channels_last(self, x):
    return self.a(x.contiguous(memory_format=torch.channels_last)).relu().mean()


def strangers():
    """{name: (model, batch)}"""
    torch.manual_seed(6)
    x = torch.randn(32, 64)

    def linear():
        return nn.Linear(64, 64)

    def ones():
        return nn.Parameter(torch.ones(64))

    tall = nn.Sequential(nn.Linear(64, 256), nn.Dropout(0.2), nn.Linear(256, 64))
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    normed = nn.utils.parametrizations.spectral_norm(linear())
    return {
        "a function with its own backward": (Of(lambda m, x: Square.apply(m.b(Square.apply(x))).mean(), b=tall), x),
        "checkpoint": (Of(lambda m, x: checkpoint(m.b, x.tanh(), use_reentrant=False).mean(), b=tall), x),
        "autocast": (Of(in_bfloat16, a=linear(), b=linear()), x),
        "one gradient of two parameters": (Of(lambda m, x: ((m.p + m.q) * x).sum(), p=ones(), q=ones()), x),
        "a buffer that changes twice": (Of(statistics_first, a=linear(), mean=torch.zeros(64)), x),
        "a layer of torch.nn": (Of(lambda m, x: m.a(x).pow(2).mean(), a=layer), x[None]),
        "attention of torch.nn": (Of(attention, a=linear()), x[None, None]),
        "a recurrent network": (Of(lambda m, x: m.a(x)[0].pow(2).mean(), a=nn.GRU(64, 32)), x[:, None]),
        "random numbers of several kinds": (Of(several_random, a=linear()), x),
        "spectral norm": (Of(lambda m, x: m.a(x).pow(2).mean(), a=normed), x),
        "channels last": (Of(channels_last, a=nn.Conv2d(1, 8, 3)), x[None, None]),
        "a batch with None and a number": (Of(lambda m, x, mask, scale: m.a(x).sum() * scale, a=linear()), x, None, 2),
        "a batch in a dict": (Of(lambda m, batch: m.a(batch["x"]).sum(), a=linear()), {"x": x}),
    }


def test_strangers():
    for name, (model, *batch) in strangers().items():
        planned_as_plain(name, model, batch, ["100%"])


def test_gradients_add_up():
    """Two steps without zero_grad between them, as for accumulation."""
    model, batch = models.mlp()
    step = export.capture(model, batch)
    graph = export.graph_text(step)
    planned = run.Planned(step, graph, rmplan(graph, "--budget", "60%")[3])
    left = []
    for function in (lambda: run.plain(model, batch), lambda: planned(*batch)):
        run.without_gradients(model)
        function()
        function()
        left.append([parameter.grad.clone() for parameter in model.parameters()])
    expect(run.same_bits(*left), "gradients of two steps add up as in plain steps")


# --- mistakes


def refused(function, words, what):
    """A call must fail with words that help."""
    try:
        function()
    except (export.CaptureError, pair.PairError, run.PlanError) as error:
        expect(words in str(error), f"{what}: no '{words}' in: {error}")
    except Exception:
        expect(False, f"{what}: {traceback.format_exc(limit=-2)}")
    else:
        expect(False, f"{what}: not refused")


def test_mistakes():
    x, a = torch.randn(8, 4), nn.Linear(4, 4)
    mistakes = {
        "looks at the value of a tensor": lambda m, x: m.a(x).sum() if x.sum() > 0 else m.a(x).mean(),
        "size of a tensor depends on values": lambda m, x: m.a(x)[x > 0].sum(),
        "changes batch[0] in place": lambda m, x: m.a(x.add_(1)).sum(),
        "a tensor of shape [8]": lambda m, x: m.a(x).sum(1),
        "the model gives a dict": lambda m, x: {"loss": m.a(x).sum()},
        "does not depend on any parameter": lambda m, x: m.a(x).detach().sum(),
        "behind its loss the model gives a float": lambda m, x: (m.a(x).sum(), 1.0),
        "numpy": lambda m, x: m.a(torch.from_numpy(x.numpy())).sum(),
    }
    with contextlib.redirect_stderr(io.StringIO()):
        for words, function in mistakes.items():
            refused(lambda: export.capture(Of(function, a=a), (x,)), words, words)
    plain = Of(lambda m, x: m.a(x).sum(), a=a)
    refused(lambda: export.capture(plain, (x.clone().requires_grad_(),)), "detach it", "a batch with a gradient")
    sparse = Of(lambda m, i: m.a(i).sum(), a=nn.Embedding(8, 4, sparse=True))
    refused(lambda: export.capture(sparse, (torch.tensor([1, 2]),)), "only dense", "sparse gradients")
    try:
        export.capture(Of(mistakes["looks at the value of a tensor"], a=a), (x,))
    except export.CaptureError as error:
        expect(f"{os.path.basename(__file__)}:" in str(error), f"the message names the line of the model: {error}")

    noisy = export.capture(Of(lambda m, x: Noisy.apply(m.a(x)).sum(), a=a), (x,))
    refused(lambda: pair.Pairs(noisy), "export without --pair", "random numbers in the backward")
    step, other = export.capture(*models.mlp()), export.capture(*models.gpt(layers=1, batch=2))
    graph = export.graph_text(step)
    plan = rmplan(graph, "--budget", "60%")[3]
    refused(lambda: run.Planned(other, graph, plan), "not of this model", "a graph of another model")
    refused(lambda: run.Planned(other, pair.Pairs(step).text(), plan), "not of this model", "pairs of another model")
    slower = graph.replace("fwd=0", "fwd=7")
    refused(lambda: run.Planned(step, slower, plan), "made for another graph", "a plan for other times")
    refused(lambda: run.Planned(step, graph, plan + "prefetch batch[0]\n"), "no --host", "a plan that copies")

    model, batch = models.mlp()
    planned = run.Planned(export.capture(model, batch), graph, plan)
    half = [part[:256] for part in batch]
    refused(lambda: planned(*half), "torch.float32 [256, 64] on cpu, and the step was captured for", "another batch")
    refused(lambda: planned(batch[0]), "a batch of 1 parts", "a part too few")
    model.blocks[2].eval()
    refused(lambda: planned(*batch), "module blocks.2 is in eval mode", "another mode")

    status, figures, error, _ = rmplan(graph, "--budget", "5%")
    expect(status == 3 and "Give " in error, f"a budget that is too small: {error}")
    status, _, error, plan = rmplan(graph, "--budget", figures["min_bytes"])
    fits = status == 0 and run.Planned(step, graph, plan).bytes <= int(figures["min_bytes"])
    expect(fits, f"the budget that the message names: {error}")


def test_command_lines():
    """What export.py and run.py say of files that are not as they should be, and of a model in eval mode."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "mine.py")
        with open(path, "w") as file:
            file.write("import sys\nsys.path.append(%r)\nimport models\n" % EXAMPLES)
            file.write("def number():\n    return 3\n\ndef model():\n    m, b = models.mlp()\n    return m.eval(), b\n")
        graph = os.path.join(folder, "mine.rmg")
        for script, words, said in (
            ("export.py", [f"{path}:number", "--out", graph], "gives a int; it must give (model, batch)"),
            ("export.py", [f"{path}:nothing", "--out", graph], "has no function nothing"),
            ("export.py", ["nofile.py:model", "--out", graph], "expected FILE.py:FUNCTION"),
            ("export.py", [f"{path}:model", "--out", graph], "note: the model is in eval mode"),
            ("run.py", [f"{path}:model", graph, "none.rmp"], "No such file or directory: 'none.rmp'"),
        ):
            command = [sys.executable, os.path.join(EXAMPLES, script), *words]
            answer = subprocess.run(command, capture_output=True, text=True)
            text = answer.stdout + answer.stderr
            expect(said in text and "Traceback" not in text, f"{script} {words}: {text}")


def test_compare():
    """compare.py plans, runs and compares bits; here of small models."""
    command = [sys.executable, os.path.join(EXAMPLES, "compare.py"), "--rmplan", RMPLAN, "--small", "--rounds", "1"]
    answer = subprocess.run(command, capture_output=True, text=True)
    rows = re.findall(r"^ +[\d.]+ +[\d.]+ +[+-][\d.]+% ", answer.stdout, re.MULTILINE)
    expect(answer.returncode == 0 and len(rows) == 4, f"compare.py: {answer.stdout}{answer.stderr}")
    answer = subprocess.run([*command, "--pair"], capture_output=True, text=True)
    rows = re.findall(r"^ +\d+ % +[\d.]+ +[+-][\d.]+% ", answer.stdout, re.MULTILINE)
    expect(answer.returncode == 0 and len(rows) == 2, f"compare.py --pair: {answer.stdout}{answer.stderr}")


# --- the command lines of docs/from-pytorch.md


def blocks_of(path, language):
    """The fenced blocks of a page in one language."""
    text = open(path).read()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_page():
    """Runs the page's files and commands in order, in an empty folder."""
    page = os.path.join(ROOT, "docs", "from-pytorch.md")
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(os.path.join(ROOT, "examples"), os.path.join(folder, "examples"))
        os.symlink(RMPLAN, os.path.join(folder, "rmplan"))
        for block in blocks_of(page, "python"):
            name = re.match(r"# (\S+\.py)\n", block)
            if name:
                with open(os.path.join(folder, name[1]), "w") as file:
                    file.write(block)
        for block in blocks_of(page, "console"):
            for command in re.findall(r"^\$ (.*)", block, re.MULTILINE):
                if command.startswith(("cc ", "pip ")):
                    continue
                command = re.sub("^python ", f"{sys.executable} ", command)
                wanted = 3 if "--budget 10%" in command else 0
                answer = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
                said = f"exit status {answer.returncode}\n{answer.stdout}{answer.stderr}"
                expect(answer.returncode == wanted, f"{command}: {said}")


def main():
    torch.set_num_threads(1)
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            before = dict(counts)
            try:
                test()
            except Exception:
                expect(False, f"{name}: {traceback.format_exc()}")
            if counts["failed"] > before["failed"]:
                print(f"in {name}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, 0 skipped")
    return counts["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
