"""Captures a training step of a PyTorch model, measures it, and writes it as a graph that rmplan reads:

    python export.py models.py:gpt --out gpt.rmg        the function gpt() of models.py gives the model and a batch
    rmplan gpt.rmg --budget 60% --out gpt.rmp
    python run.py models.py:gpt gpt.rmg gpt.rmp

With --pair each forward call is an op and the backward calls that belong to it are its backward (pair.py).

A step is one call of the model, which gives the loss, and the backward of that loss. AOTAutograd, the front half of
torch.compile, gives both as one list of ATen calls in which nothing changes in place. Calls that only look at bytes in
another way (views) take no part in the plan: what the graph calls a tensor is a storage, and a view of it is made anew
for each call that reads one.

A budget covers what the step allocates: activations and gradients, those of weights included. Weights, buffers and the
batch are the caller's, they are there before and after.
"""

import argparse
import contextlib
import functools
import importlib.util
import operator
import os
import sys
import time
import traceback

import torch
from torch import fx, nn

try:
    from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
    from torch.fx.traceback import annotate, preserve_node_meta
except ImportError:
    sys.exit(f"export.py: torch {torch.__version__} is too old: install 2.9 or a newer one")
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from pair import PairError, Pairs


class CaptureError(Exception):
    """The step cannot be captured; the message says where, why and what to do."""


class Call:
    """One ATen call that makes new bytes.

    node     its node of the graph
    name     the name of that node
    reads    names of the storages that it reads, in order, each once
    makes    {name of a storage that it makes: the node that holds it}: the node itself, or items of its tuple
    unread   bytes of items that nobody reads; they are freed at once
    random   it draws random numbers
    over     the node of an input whose bytes its output may take over, or None
    into     if so, the operator that writes there
    ns       nanoseconds that it takes, 0 before measure()
    """

    def __init__(self, node):
        self.node = node
        self.name = name_of(node)
        self.reads = []
        self.makes = {}
        self.unread = 0
        self.random = torch.Tag.nondeterministic_seeded in node.target.tags
        self.over = self.into = None
        self.ns = 0


class Step:
    """A captured training step: what is called, in which storages the tensors lie, what comes in and what goes out.

    model      the module; its parameters and buffers are read and written where they are
    batch      what each part of the batch must be, in words
    modes      {name of a module: its mode, train or eval}
    graph      the fx graph of forward and backward
    constants  the module that holds the graph's constants
    calls      the calls that make new bytes, in the order of the plain step
    storage    {node that is a tensor: name of the storage it lies in}
    bytes      {name of a storage: its size}
    given      names of the storages that are there before the step (a dict without values: a set that keeps its order)
    sources    of each placeholder ("tensor", name), ("batch", index) or ("tangent", what the ones look like)
    results    of each output (kind, which, node): ("loss", 0), ("other", index), ("buffer", name) or ("gradient", name)
    """

    def __init__(self, model, batch, graph_module, sources, results):
        self.model = model
        self.batch = describe(batch)
        self.modes = modes(model)
        self.graph = graph_module.graph
        self.constants = graph_module
        self.calls = []
        self.storage = {}
        self.bytes = {}
        self.given = {}
        self.sources = sources
        self.results = results

    def given_values(self, batch):
        """{node: tensor} of all that is there before the step. Refuses what the step was not captured for."""
        self.check(batch)
        tensors = dict(self.model.named_parameters()) | dict(self.model.named_buffers())
        leaves = pytree.tree_leaves(tuple(batch))
        values = {}
        for node, (kind, which) in zip(self.graph.find_nodes(op="placeholder"), self.sources, strict=True):
            if kind == "tensor":
                values[node] = tensors[which].detach()
            elif kind == "batch":
                values[node] = leaves[which]
            else:
                values[node] = torch.ones(which.shape, dtype=which.dtype, device=which.device)
        for node in self.graph.find_nodes(op="get_attr"):
            values[node] = getattr(self.constants, node.target)
        return values

    def check(self, batch):
        """Refuses another batch than that of the capture, or another mode."""
        now = describe(batch)
        if len(now) != len(self.batch):
            raise CaptureError(f"a batch of {len(now)} parts, and the step was captured for {len(self.batch)}")
        for i, (is_now, was) in enumerate(zip(now, self.batch)):
            if is_now != was:
                raise CaptureError(f"batch[{i}] is {is_now}, and the step was captured for {was}: capture it again")
        for name, mode in modes(self.model).items():
            if mode != self.modes[name]:
                what = f"module {name}" if name else "the model"
                raise CaptureError(f"{what} is in {mode} mode, and the step was captured in {self.modes[name]} mode")

    def bonds(self, calls):
        """{random call: the random call that must first run before it, where no data say so}."""
        needs = {}  # {name of a storage: the random calls without which it cannot be made}
        bonds, before = {}, None
        for call in calls:
            all_needed = set().union(*(needs.get(name, ()) for name in call.reads))
            if call.random:
                if before and before not in all_needed:
                    bonds[call] = before
                all_needed.add(call)
                before = call
            needs.update(dict.fromkeys(call.makes, all_needed))
        return bonds

    def op(self, call, bonds, reads=None):
        """What begins the statement of an op: (its inputs, its outputs, words), without `nograd` or a backward."""
        reads = list(call.reads if reads is None else reads)
        makes = [f"{name}:{self.bytes[name]}" for name in call.makes]
        words = ["rng"] if call.random else []
        if call in bonds:  # a tensor of no bytes goes from one to the other
            reads.append(f"random/{bonds[call].name}")
        if call in bonds.values():
            makes.append(f"random/{call.name}:0")
        if call.unread:
            words.append(f"fwd_ws={call.unread}")
        if call.over:
            words.append(f"inplace={self.storage[call.over]}")
        return reads, makes, words

    def value(self, node, held):
        """The tensor of a node: held, or a view of what is held."""
        if node in held:
            return held[node]
        return node.target(*self.arguments(node.args, held), **self.arguments(node.kwargs, held))

    def arguments(self, given, held):
        """Arguments of a node with tensors in place of nodes."""
        return fx.map_arg(given, lambda node: self.value(node, held))

    def run(self, call, held, over=False):
        """Runs a call. Gives {name of a storage: tensor}; with `over` the result lies in the bytes of call.over."""
        args, kwargs = self.arguments(call.node.args, held), self.arguments(call.node.kwargs, held)
        if over:
            target = self.value(call.over, held)
            return {call.name: call.into(args, kwargs, target)}
        made = call.node.target(*args, **kwargs)
        return {name: made if node is call.node else made[node.args[1]] for name, node in call.makes.items()}


def describe(batch):
    """What each part of a batch is, in words."""
    return [
        f"{leaf.dtype} {list(leaf.shape)} on {leaf.device}" if isinstance(leaf, torch.Tensor) else repr(leaf)
        for leaf in pytree.tree_leaves(tuple(batch))
    ]


def modes(model):
    """{name of a module: train or eval}"""
    return {name: "train" if module.training else "eval" for name, module in model.named_modules()}


# --- capture


class Unique(nn.Module):
    """The model with each parameter and buffer once, however many names it has; it gives a tuple, the loss first."""

    def __init__(self, model):
        super().__init__()
        self.hidden = [model]
        self.names = {}
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            short = f"t{len(self.names)}"
            self.names[short] = name
            if isinstance(tensor, nn.Parameter):
                self.register_parameter(short, tensor)
            else:
                self.register_buffer(short, tensor)

    def forward(self, *batch):
        tensors = {name: getattr(self, short) for short, name in self.names.items()}
        result = torch.func.functional_call(self.hidden[0], tensors, batch)
        loss, *others = result if isinstance(result, (tuple, list)) else (result,)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            what = f"a {type(loss).__name__}"
            if isinstance(loss, torch.Tensor):
                what = f"a tensor of shape {list(loss.shape)}"
            raise CaptureError(f"the model gives {what}; it must give its loss, one number, or a tuple that begins so")
        if not loss.requires_grad:
            raise CaptureError("the loss does not depend on any parameter that requires a gradient")
        for other in others:
            if not isinstance(other, torch.Tensor):
                what = type(other).__name__
                raise CaptureError(f"behind its loss the model gives a {what}; only tensors can be given")
        return loss, *(other.detach() for other in others)


def capture(model, batch):
    """The step of `model(*batch)` and of its loss's backward, as a Step. Computes nothing and takes no memory."""
    unique = Unique(model)
    try:
        with contextlib.ExitStack() as stack, torch.enable_grad(), modules_noted(model):
            graph_module = aot_export_joint_with_descriptors(stack, unique, tuple(batch)).graph_module
    except CaptureError:
        raise
    except Exception as error:
        raise CaptureError(why_not(error)) from error
    sources = [source_of(node, unique.names) for node in graph_module.graph.find_nodes(op="placeholder")]
    output = graph_module.graph.output_node()
    described = zip(output.meta["desc"], output.args[0], strict=True)
    results = [result_of(what, node, unique.names) for what, node in described if node is not None]
    for node, (kind, which) in zip(graph_module.graph.find_nodes(op="placeholder"), sources):
        names = {"tensor": f"self.{which}", "batch": f"batch[{which}]", "tangent": f"tangent/{node.name}"}
        node.meta["rockmate_name"] = names[kind]
    step = Step(model, batch, graph_module, sources, results)
    find_storages(step)
    find_takeovers(step)
    return step


@contextlib.contextmanager
def modules_noted(model):
    """While it is open, nodes of the graph note the submodule that they come of.

    A backward node notes that of the forward node with its number in autograd's sequence.
    """
    open_notes, hooks = [], []

    def enter(name, *_):
        open_notes.append(annotate({"module": name}))
        open_notes[-1].__enter__()

    def leave(*_):
        open_notes.pop().__exit__(None, None, None)

    for name, module in model.named_modules():
        hooks.append(module.register_forward_pre_hook(functools.partial(enter, name)))
        hooks.append(module.register_forward_hook(leave, always_call=True))
    try:
        with preserve_node_meta():
            yield
    finally:
        for hook in hooks:
            hook.remove()


def name_of(node):
    """The name of a node in graphs and plans: its submodule with its name in the graph; self.head.weight, batch[0]."""
    if "rockmate_name" in node.meta:
        return node.meta["rockmate_name"]
    module = (node.meta.get("custom") or {}).get("module")
    return f"{module}/{node.name}" if module else node.name


def why_not(error):
    """What a user can do about an exception of the tracer: the line of his code, the reason, the remedy."""
    frames = traceback.extract_tb(error.__traceback__)
    torch_itself = os.path.dirname(torch.__file__)
    own = [frame for frame in frames if not frame.filename.startswith(torch_itself) and frame.filename != __file__]
    where = f"{own[-1].filename}:{own[-1].lineno}: {own[-1].line}\n" if own else ""
    kind, text = type(error).__name__, str(error).strip().split("\n")[0]
    if kind == "DataDependentOutputException":
        return (f"{where}this looks at the value of a tensor (`if` on a tensor, .item(), float()), and a plan is for"
                " one fixed list of calls: compute it with tensors (torch.where), or before the step")
    if kind == "DynamicOutputShapeException":
        return (f"{where}here the size of a tensor depends on values ({text}), and a plan is for fixed sizes: multiply"
                " by a mask, or use torch.where")
    return f"{where}the step cannot be captured: {kind}: {text}"


def source_of(node, names):
    """What a placeholder stands for, by its descriptor."""
    what = node.meta["desc"]
    kind = type(what).__name__
    if kind in ("ParamAOTInput", "BufferAOTInput"):
        return "tensor", names[what.target]
    if kind == "PlainAOTInput":
        return "batch", what.idx
    if kind == "TangentAOTInput":
        return "tangent", node.meta["val"]
    raise CaptureError(f"an input of an unknown kind: {what}")


def result_of(what, node, names):
    """What an output stands for, by its descriptor."""
    kind = type(what).__name__
    if kind == "PlainAOTOutput":
        return "other" if what.idx else "loss", what.idx, node
    if kind == "GradAOTOutput":
        if type(what.grad_of).__name__ == "ParamAOTInput":
            return "gradient", names[what.grad_of.target], node
        which = what.grad_of.idx
        raise CaptureError(f"batch[{which}] requires a gradient, and only parameters get one: detach it")
    if kind == "InputMutationAOTOutput":
        if type(what.mutated_input).__name__ == "BufferAOTInput":
            return "buffer", names[what.mutated_input.target], node
        which = what.mutated_input.idx
        raise CaptureError(f"the model changes batch[{which}] in place: let it work on a copy, x.clone()")
    raise CaptureError(f"an output of an unknown kind: {what}")


def find_storages(step):
    """Runs the step on tensors without bytes, to see which outputs are new storages and which are views."""
    values = {}  # they stay until the end, so that no two storages have one address
    owner = {}  # {address of a storage: its name}
    calls = {}

    def is_new(node, tensor):
        if tensor.layout != torch.strided:
            what = f"{node.target} gives a tensor of layout {tensor.layout}"
            raise CaptureError(f"{what}; only dense ones can be planned (Embedding: sparse=False)")
        storage = tensor.untyped_storage()
        name = owner.setdefault(storage._cdata, name_of(node))
        step.storage[node] = name
        if name == name_of(node):
            step.bytes[name] = storage.nbytes()
        return name == name_of(node)

    fake = next(node.meta["val"].fake_mode for node in step.graph.nodes if isinstance(node.meta.get("val"), FakeTensor))
    with fake, torch.no_grad():
        for node in step.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                real = getattr(step.constants, node.target) if node.op == "get_attr" else None
                values[node] = node.meta.get("val") if real is None else fake.from_tensor(real)
                if isinstance(values[node], torch.Tensor):  # else a number or None, which calls have as a constant
                    is_new(node, values[node])
                    step.given[step.storage[node]] = None
                continue
            if node.op == "output":
                continue
            values[node] = made = node.target(*fx.map_arg(node.args, values.get), **fx.map_arg(node.kwargs, values.get))
            if node.target is operator.getitem:
                maker = calls.get(node.args[0])
                if is_new(node, made):
                    maker.makes[name_of(node)] = node
                continue
            calls[node] = Call(node)
            if isinstance(made, torch.Tensor) and is_new(node, made):
                calls[node].makes[name_of(node)] = node
            elif not isinstance(made, (torch.Tensor, tuple, list)):
                raise CaptureError(f"{node.target} gives a {type(made).__name__}; only tensors can be planned")
    for node, call in calls.items():
        if not call.makes:
            continue  # a view, or a tuple of views
        call.reads = list(dict.fromkeys(step.storage[read] for read in node.all_input_nodes if read in step.storage))
        if isinstance(values[node], (tuple, list)):
            items = [item.untyped_storage() for item in values[node] if isinstance(item, torch.Tensor)]
            call.unread = sum(item.nbytes() for item in items if item._cdata not in owner)
        step.calls.append(call)


def find_takeovers(step):
    """Finds the calls whose result may be written over an input: element by element, in the same layout."""
    last = {name: call for call in step.calls for name in call.reads}
    for call in step.calls:
        into, may_be = operator_into(call.node)
        fits = [node for node in may_be if fits_over(step, node, call)]
        if fits:
            call.over = next((node for node in fits if last[step.storage[node]] is call), fits[0])
            call.into = into


def fits_over(step, node, call):
    """Whether an input fills its storage, in the layout of the call's result, and no other input lies there."""
    old, new, name = node.meta["val"], call.node.meta["val"], step.storage[node]
    same = (old.shape, old.stride(), old.dtype, old.storage_offset()) == (new.shape, new.stride(), new.dtype, 0)
    alone = all(other is node or step.storage[other] != name for other in call.node.all_input_nodes)
    return same and alone and name not in step.given and step.bytes[name] == step.bytes[call.name]


def operator_into(node):
    """A function (args, kwargs, target) that does what the node does, into target; the inputs that may be target."""
    operator_of = node.target
    if torch.Tag.pointwise not in operator_of.tags or not isinstance(node.meta["val"], torch.Tensor):
        return None, []
    packet = operator_of.overloadpacket
    in_place = getattr(torch.ops.aten, packet.__name__ + "_", None)
    for into in [getattr(packet, name) for name in packet.overloads()]:
        out = [argument.name for argument in into._schema.arguments if argument.is_out]
        if len(out) == 1 and same_arguments(into, operator_of, node):
            return functools.partial(write_to, into, out[0]), node.all_input_nodes
    for into in [getattr(in_place, name) for name in in_place.overloads()] if in_place else []:
        if same_arguments(into, operator_of, node) and isinstance(node.args[0], fx.Node):
            return functools.partial(write_over, into), [node.args[0]]
    return None, []


def same_arguments(into, operator_of, node):
    """Whether an operator takes the arguments of another, but for where it writes, and has a kernel of its own.

    Without one it would compute elsewhere and copy.
    """
    taken, wanted = (
        [(argument.name, str(argument.type)) for argument in each._schema.arguments if not argument.is_out]
        for each in (into, operator_of)
    )
    backend = node.meta["val"].device.type.upper()
    return taken == wanted and torch._C._dispatch_has_kernel_for_dispatch_key(into.name(), backend)


def write_to(operator_of, name, args, kwargs, target):
    """Calls an operator whose argument of that name is where its result goes."""
    return operator_of(*args, **kwargs, **{name: target})


def write_over(operator_of, args, kwargs, target):
    """Calls an operator that writes over its first argument."""
    return operator_of(target, *args[1:], **kwargs)


# --- measure


class Lifetimes:
    """Says after each call of the plain step which storages nobody reads any more."""

    def __init__(self, step):
        last = {}
        for call in step.calls:
            for name in [*call.makes, *call.reads]:
                last[name] = call
        kept = set(step.given) | {step.storage[node] for _, _, node in step.results}
        holders = {name: node for call in step.calls for name, node in call.makes.items()}
        self.after = {call: [] for call in step.calls}
        for name, call in last.items():
            if name not in kept:
                self.after[call].append(holders[name])


def measure(step, batch, rounds=5):
    """Gives each call the least time of some rounds, on this machine now. Takes the memory of the plain step."""
    lifetimes = Lifetimes(step)
    best = {}
    random = random_state()
    with torch.no_grad():
        for _ in range(rounds):
            held = step.given_values(batch)
            for call in step.calls:
                wait()
                start = time.perf_counter_ns()
                try:
                    made = step.run(call, held)
                except Exception as error:
                    raise CaptureError(f"{call.node.target} works within autograd only: {error}") from error
                wait()
                took = time.perf_counter_ns() - start
                best[call] = min(took, best.get(call, took))
                for name, tensor in made.items():
                    held[call.makes[name]] = tensor
                del made
                for node in lifetimes.after[call]:
                    del held[node]
    set_random_state(random)
    for call, took in best.items():
        call.ns = took


def wait():
    """Waits for the accelerator, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def random_state():
    """The state of all generators of random numbers."""
    return torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_available() else None


def set_random_state(state):
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1])


# --- write


def graph_text(step, times=True):
    """The step as an .rmg (docs/formats.md). Without times it is the same for each capture of one model and batch."""
    lines = ["rockmate graph 1"]
    for name in step.given:
        lines.append(f"tensor {name} {'input' if name.startswith('batch') else 'const'} {step.bytes[name]} external")
    bonds = step.bonds(step.calls)
    for call in step.calls:
        reads, makes, words = step.op(call, bonds)
        words.append("nograd")
        if times:
            words.append(f"fwd={call.ns}")
        inputs = f"in={','.join(reads)} " if reads else ""
        lines.append(f"op {call.name} {inputs}out={','.join(makes)} {' '.join(words)}")
    results = dict.fromkeys(step.storage[node] for _, _, node in step.results)
    lines.append("output " + " ".join(name for name in results if name not in step.given))
    return "\n".join(lines) + "\n"


# --- command line


def load(where):
    """What the function of `FILE.py:FUNCTION` gives: a model and its batch."""
    path, _, name = where.rpartition(":")
    if not path or not os.path.exists(path):
        raise CaptureError(f"'{where}': expected FILE.py:FUNCTION, a function that gives a model and its batch")
    spec = importlib.util.spec_from_file_location("model_file", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, name):
        raise CaptureError(f"{path} has no function {name}")
    given = getattr(module, name)()
    if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], nn.Module):
        raise CaptureError(f"{where} gives a {type(given).__name__}; it must give (model, batch)")
    model, batch = given
    return model, batch if isinstance(batch, (tuple, list)) else (batch,)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="FILE.py:FUNCTION, which gives (model, batch); model(*batch) gives the loss")
    parser.add_argument("--out", required=True, help="the graph, .rmg")
    parser.add_argument("--rounds", type=int, default=5, help="each call takes the least time of so many (default 5)")
    parser.add_argument("--pair", action="store_true", help="ops with backwards, in place of one list of calls")
    options = parser.parse_args()
    model, batch = load(options.model)
    step = capture(model, batch)
    pairs = Pairs(step) if options.pair else None
    measure(step, batch, options.rounds)
    with open(options.out, "w") as file:
        file.write(pairs.text() if pairs else graph_text(step))
    total = sum(call.ns for call in step.calls)
    what = f", {len(pairs.ops)} ops with their backwards" if pairs else ""
    print(f"{options.out}: {len(step.calls)} calls that take {total / 1e6:.2f} ms together{what}")
    if not model.training:
        print("note: the model is in eval mode: no dropout, batch norm keeps its statistics (else: model.train())")


if __name__ == "__main__":
    try:
        main()
    except (CaptureError, PairError, OSError) as error:
        sys.exit(f"export.py: {error}")
