"""Runs a training step by a plan that rmplan made, with the bits of the plain step:

    python run.py models.py:gpt gpt.rmg gpt.rmp

prints losses, memory and time of both. In a program of your own:

    step = capture(model, batch)                                  # export.py
    planned = Planned(step, open("gpt.rmg").read(), open("gpt.rmp").read())
    for batch in batches:
        loss = planned(*batch)                                    # in place of loss = model(*batch); loss.backward()
        optimizer.step(); optimizer.zero_grad()
"""

import argparse
import contextlib
import statistics
import sys
import time
import weakref

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from export import CaptureError, capture, graph_text, load, random_state, set_random_state, wait
from pair import PairError, Pairs


class PlanError(Exception):
    """The plan cannot be run on this step; the message says why and what to do."""


def statements(text):
    """The statements of a text in one of rockmate's formats: lists of words, without comments."""
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words:
            yield words


def fingerprint(text):
    """FNV-1a 64 of a graph's statements, by which a plan names its graph."""
    value = 0xCBF29CE484222325
    for words in statements(text):
        for byte in (" ".join(words) + "\n").encode():
            value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def without_times(text):
    """A graph's statements without the times that were measured."""
    return [[word for word in words if not word.startswith(("fwd=", "bwd="))] for words in statements(text)]


class Planned:
    """A step that is run by a plan: `planned(*batch)` gives the loss (a tuple, if the model does), adds to the
    parameters' .grad and changes the buffers, as `model(*batch)` and `loss.backward()` do.

    step   the captured step
    plan   its statements, those that something is done for
    bytes  what the plan says that it takes
    pairs  the ops with their backwards, None for a graph that is one list of calls
    """

    def __init__(self, step, graph, plan):
        self.pairs = Pairs(step) if " bwd=" in graph else None
        own = self.pairs.text(times=False) if self.pairs else graph_text(step, times=False)
        if without_times(graph) != without_times(own):
            raise PlanError("the graph is not of this model and batch: export it again, and plan it again")
        self.step = step
        self.calls = {call.name: call for call in step.calls}
        self.holder = {name: node for call in step.calls for name, node in call.makes.items()}
        self.plan = []
        self.bytes = 0
        for words in statements(plan):
            self.read(words, graph)

    def read(self, words, graph):
        """Takes one statement of the plan."""
        match words:
            case ["rockmate", "plan", "1"] | ["step", "single" | "forward"]:
                pass
            case ["graph", name]:
                if name != fingerprint(graph):
                    raise PlanError("the plan was made for another graph: plan this one")
            case ["arena", size, *_]:
                self.bytes = int(size)
            case ["alloc" | "free" as what, name, *_]:
                if name in self.holder:  # neither workspace, nor a gradient, nor the bond between random calls
                    self.plan.append((what, self.holder[name], None))
            case ["reuse" | "alias", new, *_] if new.startswith("grad:"):
                pass
            case ["reuse", new, old]:
                self.plan.append(("reuse", self.holder[new], self.holder[old]))
            case ["run", "fwd", name]:
                self.plan.append(("run", self.calls[name], None))
            case ["run", "bwd", name]:
                self.plan.append(("back", self.pairs.cell(self.calls[name]), None))
            case _:
                raise PlanError(f"'{' '.join(words)}': only plans without host memory can be run (no --host)")

    def __call__(self, *batch):
        step = self.step
        held = step.given_values(batch)
        left = self.pairs.readers() if self.pairs else None
        random = {}  # {call: the state of the generators when it first ran}
        expected, over = set(), None
        with torch.no_grad():
            for what, subject, old in self.plan:
                if what == "alloc":
                    expected.add(subject)
                elif what == "free":
                    held.pop(subject, None)
                elif what == "reuse":
                    expected.add(subject)
                    over = old
                elif what == "back":
                    self.run_back(subject, held, left)
                else:
                    self.run(subject, held, expected, over, random)
                    expected, over = set(), None
            return self.finish(held)

    def run(self, call, held, expected, over, random):
        """Runs a call, with the random numbers of its first run. Takes the results that the plan has made room for."""
        after = None
        if call.random and call in random:
            after = random_state()
            set_random_state(random[call])
        elif call.random:
            random[call] = random_state()
        made = self.step.run(call, held, over is not None)
        if after:
            set_random_state(after)
        for name, tensor in made.items():
            if self.holder[name] in expected:
                held[self.holder[name]] = tensor
        if over is not None:
            del held[over]

    def run_back(self, cell, held, left):
        """Runs the backward of an op. What one call makes stays until the last of its readers has run."""
        for call in cell:
            made = self.step.run(call, held, call in self.pairs.over)
            for name, tensor in made.items():
                held[self.holder[name]] = tensor
            del made
            for name in [*call.reads, *call.makes]:
                if name in left:
                    left[name] -= name in call.reads
                    if not left[name]:
                        held.pop(self.holder[name], None)

    def finish(self, held):
        """Hands over what the step has made."""
        return hand_over(self.step, {node: self.step.value(node, held) for _, _, node in self.step.results})


def hand_over(step, values):
    """Adds gradients to .grad, writes buffers; gives the loss, or the tuple of all that the model gives."""
    parameters, buffers = dict(step.model.named_parameters()), dict(step.model.named_buffers())
    given, taken = [], set()
    for kind, which, node in step.results:
        value = values[node]
        if kind == "buffer":
            buffers[which].copy_(value)
        elif kind == "gradient":
            storage = value.untyped_storage()
            if storage._cdata in taken or storage.nbytes() != value.nbytes or step.storage[node] in step.given:
                value = value.clone()  # two parameters must not share a gradient
            taken.add(storage._cdata)
            parameter = parameters[which]
            parameter.grad = value if parameter.grad is None else parameter.grad.add_(value)
        else:
            given.append(value)
    return given[0] if len(given) == 1 else tuple(given)


# --- measuring


class Meter(TorchDispatchMode):
    """Counts the bytes of storages that were made while it is on and are alive.

    It does not see what a kernel takes within itself.
    """

    def __init__(self):
        super().__init__()
        self.known = {}
        self.live = self.peak = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        before = {t.untyped_storage()._cdata for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)}
        result = function(*args, **(kwargs or {}))
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                key = storage._cdata
                if key not in before and key not in self.known:
                    self.known[key] = storage.nbytes()
                    self.live += storage.nbytes()
                    weakref.finalize(storage, self.gone, key)
        self.peak = max(self.peak, self.live)
        return result

    def gone(self, key):
        self.live -= self.known.pop(key)


def plain(model, batch):
    """The plain step."""
    result = model(*batch)
    loss = result[0] if isinstance(result, (tuple, list)) else result
    loss.backward()
    return result


def without_gradients(model):
    for parameter in model.parameters():
        parameter.grad = None


@contextlib.contextmanager
def unchanged(model):
    """Parameters and buffers are afterwards as before, gradients are gone."""
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    without_gradients(model)
    try:
        yield
    finally:
        model.load_state_dict(state)
        without_gradients(model)


def peak_of(function, model):
    """The most bytes that a step takes at a time beyond what is there before it."""
    with unchanged(model), Meter() as meter:
        function()
        return meter.peak


def time_of(functions, model, rounds):
    """The median time of each of some steps, in seconds, run in turn."""
    times = [[] for _ in functions]
    for _ in range(rounds + 1):  # the first round is not counted
        for function, taken in zip(functions, times):
            without_gradients(model)
            wait()
            start = time.perf_counter()
            function()
            wait()
            taken.append(time.perf_counter() - start)
    return [statistics.median(taken[1:]) for taken in times]


def outcome(function, model, steps=3, rate=0.01, seed=7):
    """All that some steps of plain descent leave: losses and other results, gradients, parameters, buffers."""
    torch.manual_seed(seed)
    left = []
    with unchanged(model):
        for _ in range(steps):
            without_gradients(model)
            left += [tensor.detach().clone() for tensor in pytree.tree_leaves(function())]
            with torch.no_grad():
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        left.append(parameter.grad.clone())
                        parameter -= rate * parameter.grad
        left += [tensor.clone() for tensor in model.state_dict().values()]
    left.append(torch.rand(1))  # the generator is where it would be
    return left


def same_bits(one, other):
    """Whether two lists of tensors are equal bit for bit."""
    if [(tensor.shape, tensor.dtype) for tensor in one] != [(tensor.shape, tensor.dtype) for tensor in other]:
        return False
    return all(torch.equal(bits(a), bits(b)) for a, b in zip(one, other))


def bits(tensor):
    """The bytes of a tensor's elements."""
    return tensor.contiguous().flatten().view(torch.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="FILE.py:FUNCTION, as for export.py")
    parser.add_argument("graph", help="the graph that export.py wrote, .rmg")
    parser.add_argument("plan", help="the plan that rmplan made of it, .rmp")
    parser.add_argument("--rounds", type=int, default=5, help="times are medians of so many steps (default 5)")
    options = parser.parse_args()
    model, batch = load(options.model)
    with open(options.graph) as graph, open(options.plan) as plan:
        planned = Planned(capture(model, batch), graph.read(), plan.read())
    steps = [lambda: plain(model, batch), lambda: planned(*batch)]
    left = [outcome(step, model) for step in steps]
    same = same_bits(*left)
    peaks = [peak_of(step, model) for step in steps]
    times = time_of(steps, model, options.rounds)
    print(f"losses, gradients, buffers of 3 steps: {'equal bit for bit' if same else 'NOT EQUAL'}")
    mib = [f"{size / 2**20:.2f} MiB" for size in (*peaks, planned.bytes)]
    print(f"memory  plain {mib[0]}, planned {mib[1]}; by the plan {mib[2]}")
    print(f"time    plain {times[0] * 1e3:.2f} ms, planned {times[1] * 1e3:.2f} ms ({times[1] / times[0] - 1:+.1%})")
    return 0 if same else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CaptureError, PairError, PlanError, OSError) as error:
        sys.exit(f"run.py: {error}")
