"""A captured step as ops with backwards, in place of one list of calls:

    python export.py models.py:gpt --pair --out gpt.rmg

Each op is a forward call. Its backward is a *cell*: the backward calls with its number in autograd's sequence, which is
how autograd itself tells what belongs to what. A planner then sees what it sees of a model written by hand: a chain of
stages, with blocks and residuals.

What lies between two cells is bytes on the way: a value that one backward call makes and another reads. It goes from op
to op against the direction of the forward, along the tensors that the ops read, and counts as part of the gradient of
each tensor that it passes. So the gradient of an activation takes the bytes of all that ever passes there, and `grad`
says how many that are. Sums of gradients are calls like others, in the cell of the last op that adds to them.
"""

import collections

import torch


class PairError(Exception):
    """Forward and backward cannot be paired; the message says why and what to do."""


class Place:
    """What passes a storage on its way through the backward.

    comes, goes  {op: (value, the call that will read it) that its backward brings, that it takes away}
    around       {op: names of the values that are there before, after its backward}, for ops that bring or take
    names        what is there for the backward of the op that made the storage
    bytes        the most that is there at a time: the size of the gradient
    """

    def __init__(self):
        self.comes, self.goes = collections.defaultdict(list), collections.defaultdict(list)
        self.around, self.names, self.bytes = {}, set(), 0


class Pairs:
    """The ops of a step.

    step     the captured step
    ops      the forward calls, in order
    cells    for each op its backward calls, in order
    maker    {name of a storage: the op that makes it}, for what forward calls make
    uses     {name of a storage: the backward calls that read it}, for what backward calls make
    results  names of storages that outlast the step
    inputs   for each op the names of storages that it reads, those that only its cell reads among them
    over     backward calls that work in place
    paths    {(storage, backward call): names of storages on the way from the cell that makes it to that call's}
    places   {name of a storage that a forward call makes: its Place}
    """

    def __init__(self, step):
        self.step = step
        self.ops = [call for call in step.calls if not is_backward(call)]
        self.maker = {name: op for op, call in enumerate(self.ops) for name in call.makes}
        self.results = {step.storage[node] for _, _, node in step.results}
        backward = [call for call in step.calls if is_backward(call)]
        for call in backward:
            if call.random:
                raise PairError(f"the backward draws random numbers ({call.name}), and elsewhere it would draw others:"
                                " export without --pair")
        self.made_by = {name: call for call in backward for name in call.makes}
        self.uses = {name: [] for name in self.made_by}
        for call in backward:
            for name in call.reads:
                if name in self.made_by:
                    self.uses[name].append(call)
        self.cell_of = self.find_cells(backward)
        self.cells = [[] for _ in self.ops]
        for call in backward:
            self.cells[self.cell_of[call]].append(call)
        self.inputs = [list(call.reads) for call in self.ops]
        for op, cell in enumerate(self.cells):
            for name in [name for call in cell for name in call.reads]:
                if name in self.maker and name not in self.inputs[op] and name not in self.ops[op].makes:
                    self.inputs[op].append(name)
        self.paths = {}
        for name, call in self.made_by.items():
            for use in self.uses[name]:
                if self.cell_of[use] != self.cell_of[call]:
                    self.paths[name, use] = self.find_path(self.cell_of[call], use)
        self.over = self.find_in_place(backward)
        self.places = self.find_traffic()

    def is_sum(self, call):
        """Whether a backward call adds two gradients."""
        both = len(call.reads) == 2 and all(name in self.made_by for name in call.reads)
        return both and call.node.target == torch.ops.aten.add.Tensor

    def find_cells(self, backward):
        """The op of each backward call: that of its number, but not before what it reads, nor behind its readers.

        Backwards run from the last op to the first, so `most` is the first op of those that make what a call reads, and
        `least` the last of those whose values it or a later reader wants.
        """
        of_number = {}
        for node, name in self.step.storage.items():
            number = node.meta.get("seq_nr")
            if number is not None and name in self.maker and node.meta.get("partitioner_tag") != "is_backward":
                of_number.setdefault(number, self.maker[name])  # calls without a backward have that of the one before
        least = {}
        for call in reversed(backward):
            wanted = [self.maker[name] for name in call.reads if name in self.maker]
            least[call] = max([0, *wanted, *(least[use] for name in call.makes for use in self.uses[name])])
        found = {}
        for call in backward:
            before = [found[self.made_by[name]] for name in call.reads if name in self.made_by]
            most = min(before, default=len(self.ops) - 1)
            own = most if self.is_sum(call) else of_number.get(call.node.meta.get("seq_nr"), most)
            found[call] = max(min(own, most), least[call])
        return found

    def find_path(self, start, use):
        """The tensors by which a value comes from the backward of op `start` to a call of another cell.

        To a sum it may come by a tensor that both ops read. Where there is no way, the start is made to read of the
        end.
        """
        end = self.cell_of[use]
        goals = set(self.ops[end].makes)
        if self.is_sum(use):
            goals |= {name for name in self.inputs[end] if name in self.maker}
        waiting, seen = collections.deque([(start, ())]), {start}
        while waiting:
            op, path = waiting.popleft()
            names = [name for name in self.inputs[op] if name in self.maker]
            for name in names:
                if name in goals:
                    return path + (name,)
            for name in names:
                if self.maker[name] > end and self.maker[name] not in seen:
                    seen.add(self.maker[name])
                    waiting.append((self.maker[name], path + (name,)))
        self.inputs[start].append(next(iter(self.ops[end].makes)))
        return (self.inputs[start][-1],)

    def find_in_place(self, backward):
        """The backward calls that write over what they read: all other readers have run, in whatever order ops run."""
        before, over = {}, set()  # {call: the calls that it waits for}, as bits
        bit = {call: 1 << i for i, call in enumerate(backward)}
        for call in backward:
            before[call] = bit[call]
            for name in call.reads:
                if name in self.made_by:
                    before[call] |= before[self.made_by[name]]
            name = call.over and self.step.storage[call.over]
            if name in self.made_by and name not in self.results:
                others = [use for use in self.uses[name] if use is not call]
                if all(before[call] & bit[use] for use in others):
                    over.add(call)
        return over

    def cell(self, call):
        """The backward calls of a forward call."""
        return self.cells[self.ops.index(call)]

    def readers(self):
        """{name of a storage that a backward call makes: how many calls read it}, without what outlasts the step."""
        return {name: len(uses) for name, uses in self.uses.items() if name not in self.results}

    # --- bytes

    def bytes_of(self, names):
        """Bytes of values, without those that outlast the step: these have gradients of their own."""
        return sum(self.step.bytes[name] for name in set(names) if name not in self.results)

    def find_traffic(self):
        """Follows the values along their paths; gives {name of a storage: its Place}."""
        places = {name: Place() for name in self.maker}
        for (name, use), path in self.paths.items():
            op = self.cell_of[self.made_by[name]]
            for storage in path:
                places[storage].comes[op].append((name, use))
                op = self.maker[storage]
            if op != self.cell_of[use]:  # a sum takes it from here, before the backward of the op that made the storage
                places[storage].goes[self.cell_of[use]].append((name, use))
        for place in places.values():
            here = set()
            for op in sorted({*place.comes, *place.goes}, reverse=True):
                before = {name for name, _ in here}
                here = here.union(place.comes[op]).difference(place.goes[op])
                place.names = {name for name, _ in here}
                place.around[op] = before, place.names
                place.bytes = max(place.bytes, self.bytes_of(place.names))
        return places

    def most_in_cell(self, op):
        """The most bytes that a cell holds at a time: what arrives for it or passes it, and what it makes."""
        cell = self.cells[op]
        leaves = {name for storage in self.behind(op) for name, _ in self.places[storage].comes[op]}
        here = {name for storage in self.ops[op].makes for name in self.places[storage].names}
        most = self.bytes_of(here)
        for i, call in enumerate(cell):
            here |= set(call.makes)
            taken = self.step.bytes[self.step.storage[call.over]] if call in self.over else 0
            most = max(most, self.bytes_of(here) + call.unread - taken)
            here &= leaves.union(*(later.reads for later in cell[i + 1 :]))
        return most

    def behind(self, op):
        """Names of the storages that an op reads and another op makes."""
        return [name for name in self.inputs[op] if name in self.maker]

    # --- text

    def text(self, times=True):
        """The step as an .rmg, as export.graph_text gives it."""
        step = self.step
        lines = ["rockmate graph 1"]
        for name in step.given:
            kind = "input" if name.startswith("batch") else "const"
            lines.append(f"tensor {name} {kind} {step.bytes[name]} external")
        weights = [{} for _ in self.ops]  # {name: bytes} of the gradients that a cell makes
        seen = set()
        for kind, which, node in step.results:
            name = step.storage[node]
            if name in self.made_by and name not in seen:
                seen.add(name)
                weights[self.cell_of[self.made_by[name]]][f"weight[{which}]"] = step.bytes[name]
        for made in weights:
            lines += [f"tensor {name} param 0 grad={size}" for name, size in made.items()]
        bonds = step.bonds(self.ops)
        for op in range(len(self.ops)):
            lines += self.op_lines(op, list(weights[op]), bonds, times)
        forward = [name for name in dict.fromkeys(step.storage[node] for _, _, node in step.results)]
        lines.append("output " + " ".join(name for name in forward if name in self.maker))
        return "\n".join(lines) + "\n"

    def op_lines(self, op, weights, bonds, times):
        """The statements of an op."""
        step, call, cell = self.step, self.ops[op], self.cells[op]
        reads, makes, words = step.op(call, bonds, self.inputs[op])
        if times:
            words.append(f"fwd={call.ns}")
        passed = any(self.places[name].around for name in call.makes)
        if cell or passed:
            needs = sorted({name for each in cell for name in each.reads if name in self.maker})
            words.append(f"needs={','.join(needs) or 'none'}")
            words += self.room(op)
            if times:
                words.append(f"bwd={sum(each.ns for each in cell)}")
        else:
            words.append("nograd")
        inputs = f"in={','.join(reads + weights)} " if reads + weights else ""
        lines = [f"op {call.name} {inputs}out={','.join(makes)} {' '.join(words)}"]
        if cell or passed:
            for name in call.makes:
                if self.places[name].bytes != step.bytes[name]:
                    lines.append(f"grad {name} {self.places[name].bytes}")
        return lines

    def room(self, op):
        """The words that say in which bytes a backward works: workspace, what may take over what, what is shared."""
        first, *others = (self.places[name] for name in self.ops[op].makes)
        inputs = {name: self.places[name] for name in self.behind(op)}
        most = self.most_in_cell(op) - first.bytes - sum(place.bytes for place in others)
        free = {name: place.bytes for name, place in inputs.items()}  # of each gradient, when this backward begins
        for name, place in inputs.items():
            free[name] -= self.bytes_of(place.around.get(op, [place.names])[0])
        workspace = max(0, most - sum(free.values()))
        words = [f"bwd_ws={workspace}"] if workspace else []
        alike = [name for name, place in inputs.items() if 0 < place.bytes <= first.bytes]
        if not self.cells[op] and not others:
            brought = [name for name in alike if inputs[name].bytes == first.bytes and op in inputs[name].around]
            shared = [name for name in brought if inputs[name].around[op][1] == first.names]
            return words + ([f"share_bwd={','.join(shared)}"] if shared else [])
        over = [name for name in alike if most <= sum(free.values()) - free[name] + workspace]
        return words + [f"inplace_bwd={over[0]}"] if over else words


def is_backward(call):
    return call.node.meta.get("partitioner_tag") == "is_backward"
