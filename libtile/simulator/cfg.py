# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Control flow of one function: units, the order that makes divergent threads meet again, and liveness.

A unit is a straight line of instructions that a group of threads runs without a scheduling decision. Units end at
control flow and start at branch targets and at each instruction that needs converged lanes (`shfl.sync`, `mma.sync`).

Threads have their own program counters. The scheduler runs the group with the smallest unit number first, so the
numbering decides where threads that took different paths meet. Units are numbered in a weak topological order
(Bourdoncle, "Efficient chaotic iteration strategies with widenings", 1993): every unit after its predecessors except
over back edges, every loop contiguous, and loop exits after the whole loop. Threads that leave a loop early thus wait
behind it, and both sides of a branch meet at its immediate post-dominator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from libtile.support.records import dataclass, field, replace

from .errors import PtxError
from .ir import Addr, Function, Group, Imm, Instruction, Label, Reg, Sym, Vec

if TYPE_CHECKING:
    from .program import Code

FALL, BRANCH, SWITCH, CALL, RET, EXIT, BARRIER, TRYWAIT, SLEEP, PRODUCTS, REGISTERS, COLUMNS = range(12)

_TERMINATORS = {
    "bra": BRANCH,
    "brx": SWITCH,
    "call": CALL,
    "ret": RET,
    "exit": EXIT,
    "trap": EXIT,
    "nanosleep": SLEEP,
    "setmaxnreg": REGISTERS,
}
_MASK_LAST = ("shfl", "vote", "match", "redux", "elect")
_ALIGNED = ("mma", "wmma", "ldmatrix", "stmatrix", "movmatrix", "setmaxnreg", "wgmma")
# Undefined when a thread of the warp has exited (PTX ISA, "mma", "ldmatrix", ...).
MATRIX = ("mma", "wmma", "ldmatrix", "stmatrix", "movmatrix", "wgmma")
_TALK = (("atom", ""), ("ld", "acquire"), ("ld", "relaxed"), ("ld", "volatile"), ("nanosleep", ""))
_MEMORY = ("ld", "st", "atom", "red", "cp", "ldu", "mbarrier", "fence", "membar", "tcgen05")


@dataclass(slots=True)
class Unit:
    """`gate` is None, "aligned", or the operand that holds the member mask. `next` and `targets` are unit ids."""

    id: int
    instructions: list[Instruction]
    kind: int = FALL
    terminator: Instruction | None = None
    gate: object | None = None
    next: int = -1
    targets: list[int] = field(default_factory=list)
    # The units that a fully converged group may run in one go, starting here.
    chain: list[Unit] = field(default_factory=list)
    live_out: int = 0
    # The head of the innermost loop around it, if threads may wait for others in that loop; -1 otherwise.
    spins: int = -1
    # Filled by the program: compiled variants, and how often each ran.
    code: dict = field(default_factory=dict)
    runs: int = 0
    threads: int = 0
    warps: int = 0
    function: Code | None = None

    def matrix_instruction(self) -> Instruction | None:
        """The first matrix instruction of the unit."""
        return next((ins for ins in self.instructions if ins.opcode in MATRIX), None)

    def starts_product(self) -> bool:
        """Whether a wgmma comes first: products find their registers in the register file, not in a chain's locals."""
        return self.kind == PRODUCTS or (bool(self.instructions) and self.instructions[0].opcode == "wgmma")

    def may_wait(self) -> bool:
        """Whether something in it is what a wait for other threads, of any CTA, is made of."""
        here = (*self.instructions, *([self.terminator] if self.terminator is not None else ()))
        return any(
            ins.opcode == opcode and (not modifier or modifier in ins.modifiers)
            for ins in here for opcode, modifier in _TALK
        )  # fmt: skip


def terminator_kind(ins: Instruction) -> int | None:
    """How an instruction ends a unit, or None."""
    if ins.opcode in ("bar", "barrier"):
        if ins.modifiers[:1] == ("warp",):
            return None
        return BARRIER
    if ins.opcode == "mbarrier" and "try_wait" in ins.modifiers:
        return TRYWAIT
    if ins.opcode == "wgmma" and "wait_group" in ins.modifiers:
        return PRODUCTS
    if ins.opcode == "tcgen05" and "alloc" in ins.modifiers:
        return COLUMNS
    return _TERMINATORS.get(ins.opcode)


def gate_of(ins: Instruction) -> object | None:
    """What must be converged before an instruction runs: a member mask operand, "aligned", or nothing."""
    op = ins.opcode
    if op in _ALIGNED or (op == "tcgen05" and "aligned" in ins.modifiers):
        return "aligned"
    if op in _MASK_LAST and "sync" in ins.modifiers:
        return ins.operands[-1] if ins.operands else "aligned"
    if op == "bar" and ins.modifiers[:1] == ("warp",):
        return ins.operands[0] if ins.operands else "aligned"
    if op in ("bar", "barrier") and (op == "bar" or "aligned" in ins.modifiers) and "cluster" not in ins.modifiers:
        return "aligned"
    return None


def build_units(function: Function, first_id: int, fine: bool, filename: str) -> list[Unit]:
    """The units of a function, numbered from `first_id` in scheduling order; the entry is the first.

    `fine` puts every memory access in a unit of its own, so that a random schedule can interleave accesses.
    """
    items = _with_waits(_expand_guards(function))
    blocks, labels = _split(items, _jump_targets(items, function), fine)
    for block in blocks:
        _link(block, function, labels, len(blocks), filename)
    order, loops = _weak_topological_order([[t for t in (*b.targets, b.next) if t >= 0] for b in blocks])
    waits = {loops[v] for v in order if blocks[v].may_wait()}
    number = {old: first_id + new for new, old in enumerate(order)}
    label_ids = set(labels.values())
    for index, block in enumerate(blocks):
        chain = [block]
        while chain[-1].kind == FALL and chain[-1].next >= 0 and chain[-1].next not in label_ids and not fine:
            if blocks[chain[-1].next].starts_product():
                break
            chain.append(blocks[chain[-1].next])
        block.chain = chain
        block.id = number.get(index, -1)
        head = loops.get(index, -1)
        block.spins = number[head] if head >= 0 and head in waits else -1
    for block in blocks:
        block.next = number.get(block.next, -1) if block.next >= 0 else -1
        block.targets = [number[t] for t in block.targets] if block.id >= 0 else []
    return [blocks[old] for old in order]


def _expand_guards(function: Function) -> list[Instruction | Label]:
    """Turn a guard on a control or convergence instruction into a branch around it."""
    items: list[Instruction | Label] = []
    for k, item in enumerate(function.body or []):
        if (
            isinstance(item, Label)
            or item.guard is None
            or item.opcode in ("bra", "brx")
            or (terminator_kind(item) is None and gate_of(item) is None)
        ):
            items.append(item)
        else:
            reg, negated = item.guard
            skip = f"<skip {k}>"
            items.append(
                Instruction(
                    "bra", ("guard",), (reg, not negated), (Sym(skip),), item.line, item.column, item.text, item.source
                )
            )
            items.append(
                Instruction(
                    item.opcode, item.modifiers, None, item.operands, item.line, item.column, item.text, item.source
                )
            )
            items.append(Label(skip, item.line))
    return items


def _with_waits(items: list[Instruction | Label]) -> list[Instruction | Label]:
    """A loop that does nothing but test an mbarrier until a phase is over waits for it, as mbarrier.try_wait does: the
    threads in it take no turns, and a phase that never ends is a deadlock instead of a loop without an end."""
    found = list(items)
    for place, label in enumerate(items):
        if isinstance(label, Label) and (test := _polled(label, items, place + 1)) is not None:
            ins = items[test]
            assert isinstance(ins, Instruction)
            found[test] = replace(ins, modifiers=tuple("try_wait" if m == "test_wait" else m for m in ins.modifiers))
    return found


_COMPUTES = frozenset({"mov", "not", "add", "shl", "xor", "cvt"})
"""What may stand beside the test in a loop: what an operand of it is computed by, and the condition of the branch."""


def _polled(label: Label, items: list[Instruction | Label], start: int) -> int | None:
    """The place of the test in a loop from a label to a branch back to it that does nothing else, the same each time,
    and goes on when the phase is over; None for anything else."""
    test: int | None = None
    over: tuple[Reg, bool] | None = None
    read: set[Reg] = set()
    written: set[Reg] = set()
    for place in range(start, len(items)):
        ins = items[place]
        if not isinstance(ins, Instruction):
            return None
        if ins.opcode == "bra":
            back = over is not None and ins.guard == (over[0], not over[1])
            same = ins.operands == (Sym(label.name),) and not read & written
            return test if back and same else None
        target = ins.operands[0] if ins.operands else None
        if ins.guard is not None or not isinstance(target, Reg):
            return None
        sources = {op.base if isinstance(op, Addr) else op for op in ins.operands[1:]}
        read |= {op for op in sources if isinstance(op, Reg)} - written
        written.add(target)
        if ins.opcode == "mbarrier" and "test_wait" in ins.modifiers and test is None:
            test, over = place, (target, False)
        elif ins.opcode not in _COMPUTES:
            return None
        elif over is not None and ins.opcode == "not" and ins.operands[1] == over[0]:
            over = target, not over[1]
    return None


def _jump_targets(items: list[Instruction | Label], function: Function) -> set[str]:
    # Debug labels are everywhere in the output of -G; only those that something jumps to start a unit.
    used = {name for names in function.branch_targets.values() for name in names}
    for item in items:
        if isinstance(item, Instruction) and item.opcode == "bra":
            used |= {op.name for op in item.operands if isinstance(op, Sym)}
    return used


def _split(items: list[Instruction | Label], used: set[str], fine: bool) -> tuple[list[Unit], dict[str, int]]:
    units: list[Unit] = [Unit(0, [])]
    labels: dict[str, int] = {}

    def fresh() -> None:
        if units[-1].instructions or units[-1].terminator is not None:
            units[-1].next = len(units)
            units.append(Unit(len(units), []))

    for item in items:
        if isinstance(item, Label):
            if item.name not in used:
                continue
            fresh()
            labels[item.name] = len(units) - 1
            continue
        gate = gate_of(item)
        if gate is not None or (fine and item.opcode in _MEMORY):
            fresh()
            units[-1].gate = gate
        kind = terminator_kind(item)
        if kind is None:
            units[-1].instructions.append(item)
        else:
            units[-1].kind, units[-1].terminator = kind, item
            fresh()
    if units[-1].terminator is None and units[-1].kind == FALL:
        # Falling off the end of a body returns.
        units[-1].kind = RET
    return units, labels


def _link(unit: Unit, function: Function, labels: dict[str, int], count: int, filename: str) -> None:
    ins = unit.terminator
    if unit.kind in (RET, EXIT):
        unit.next = -1
        return
    if unit.next >= count:
        unit.next = -1
    if ins is None:
        return

    def find(name: str) -> int:
        if name not in labels:
            raise PtxError(f"branch to unknown label {name}", ins.line, ins.column, ins.text, filename)
        return labels[name]

    if unit.kind == BRANCH:
        target = ins.operands[0] if ins.operands else None
        if not isinstance(target, Sym):
            raise PtxError("bra needs a label", ins.line, ins.column, ins.text, filename)
        unit.targets = [find(target.name)]
        if ins.guard is None:
            unit.next, unit.targets, unit.kind = unit.targets[0], [], FALL
    elif unit.kind == SWITCH:
        table = ins.operands[1] if len(ins.operands) > 1 else None
        names = function.branch_targets.get(table.name) if isinstance(table, Sym) else None
        if names is None:
            raise PtxError("brx.idx needs the name of a .branchtargets list", ins.line, ins.column, ins.text, filename)
        unit.targets = [find(name) for name in names]
        if ins.guard is None:
            unit.next = -1


def _weak_topological_order(successors: list[list[int]]) -> tuple[list[int], dict[int, int]]:
    """The order, and for each node the head of the innermost loop that it is in, or -1."""
    reachable = _reachable(successors)
    order: list[int] = []
    loops = dict.fromkeys(reachable, -1)
    # Work items: a list of nodes, with the edges into `header` cut.
    stack: list[tuple[list[int], int]] = [(sorted(reachable), -1)]
    while stack:
        nodes, header = stack.pop()
        if len(nodes) == 1:
            order.append(nodes[0])
            if nodes[0] in successors[nodes[0]]:
                loops[nodes[0]] = nodes[0]
            continue
        inside = set(nodes)
        if header >= 0:
            loops.update(dict.fromkeys(nodes, header))
        graph = {v: [w for w in successors[v] if w in inside and w != header] for v in nodes}
        parts = _components(nodes, graph)
        # Components come in reverse topological order, and the stack reverses once more.
        for part in parts:
            if len(part) == 1:
                stack.append((part, -1))
            else:
                stack.append((part, _header(part, successors, reachable)))
    return order, loops


def _reachable(successors: list[list[int]]) -> set[int]:
    seen = {0}
    todo = [0]
    while todo:
        for w in successors[todo.pop()]:
            if w not in seen:
                seen.add(w)
                todo.append(w)
    return seen


def _header(part: list[int], successors: list[list[int]], reachable: set[int]) -> int:
    inside = set(part)
    entries = {w for v in reachable if v not in inside for w in successors[v] if w in inside}
    return min(entries) if entries else min(part)


def _components(nodes: list[int], graph: dict[int, list[int]]) -> list[list[int]]:
    """Tarjan's strongly connected components, without recursion, in reverse topological order."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    result: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(graph[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            v, edges = work[-1]
            for w in edges:
                if w not in index:
                    index[w] = low[w] = len(index)
                    stack.append(w)
                    on_stack.add(w)
                    work.append((w, iter(graph[w])))
                    break
                if w in on_stack:
                    low[v] = min(low[v], index[w])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[v])
                if low[v] == index[v]:
                    part = []
                    while True:
                        w = stack.pop()
                        on_stack.discard(w)
                        part.append(w)
                        if w == v:
                            break
                    result.append(sorted(part))
    return result


def solve_liveness(units: list[Unit], uses: list[int], defs: list[int], returned: int) -> None:
    """Backward data flow over register bit sets; fills `live_out` of each unit. `returned` is read by every `ret`."""
    by_id = {u.id: k for k, u in enumerate(units)}
    live_in = list(uses)
    changed = True
    while changed:
        changed = False
        for k in range(len(units) - 1, -1, -1):
            unit = units[k]
            out = returned if unit.kind == RET else 0
            for target in (*unit.targets, unit.next):
                if target >= 0:
                    out |= live_in[by_id[target]]
            unit.live_out = out
            new = uses[k] | (out & ~defs[k])
            if new != live_in[k]:
                live_in[k] = new
                changed = True


def operand_registers(operand: object) -> list[Reg]:
    """Every register inside an operand."""
    if isinstance(operand, Reg):
        return [operand]
    if isinstance(operand, Vec | Group):
        return [r for item in operand.items for r in operand_registers(item)]
    if isinstance(operand, Addr):
        found = [operand.base] if isinstance(operand.base, Reg) else []
        return found + [r for item in operand.extra for r in operand_registers(item)]
    if isinstance(operand, Imm | Sym):
        return []
    return [r for r in (getattr(operand, "first", None), getattr(operand, "reg", None)) if isinstance(r, Reg)]


def plain_copy(ins: Instruction) -> tuple[int, int] | None:
    """(target, source) of an unguarded mov from one register of 32 bits to another."""
    if ins.opcode != "mov" or ins.guard is not None or len(ins.operands) != 2:
        return None
    target, source = ins.operands
    if not isinstance(target, Reg) or not isinstance(source, Reg) or target.type.bits != 32 or source.type.bits != 32:
        return None
    return target.index, source.index
