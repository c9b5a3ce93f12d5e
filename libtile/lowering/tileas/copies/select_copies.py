# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileas-select-copies`: by which instruction each access moves its tile, how wide, and which elements it checks.

    atom                        on an access: the instruction, how many bits a thread's one moves, along which dimension
    masked                      on an access through a view: the dimensions compared with the tensor's end
    not_wide, not_tma           on an access: why it is narrower than 128 bits, and why TMA does not do it
    offset_bits                 on a `make_memref`: the bits in which offsets of accesses through it are computed

What analysis does not know (that a tile is not cut by the tensor's end, that strides and the base are aligned) costs a
few instructions to find out, once per tile and alike for all threads. Where that makes an access wider, there are two
of it, in the arms of an `scf.if` with `checks_access`: the wide one, and the one for what is known anyway.

An asynchronous copy of which no 4 bytes are aligned becomes a load to registers and a copy to shared memory. One whose
layout is for wider copies gets a layout in which neighbouring lanes copy what lies side by side.

An access that has an atom with `bits` keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from libtile.codegen.memory import MAX_ACCESS_BYTES, Vector
from libtile.dialects import arith, scf, tensor
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileaa.pointers import MakeMemRefOp, PtrToIntOp
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileaa.types import DYNAMIC, MemRefType
from libtile.dialects.nv_tileas import memory, tma
from libtile.dialects.nv_tileas.attributes import UNKNOWN_COPY, CopyAtomAttr
from libtile.dialects.nv_tileas.copy_atoms import load_atom
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.tiles import CopyOp
from libtile.dialects.nv_tileas.types import BufferType
from libtile.ir.locations import set_location
from libtile.ir.module_pass import ModulePass
from libtile.ir.numbers import integer, integers
from libtile.ir.operands import operand_of
from libtile.ir.places import ops_of
from libtile.ir.tile_form import Given, build, erase, operand_group
from libtile.layouts import LinearLayout
from libtile.layouts.registers import register_groups
from libtile.lowering.agents import warps_of
from libtile.lowering.constants import constant_of
from libtile.lowering.discardable import NOT_TMA, NOT_WIDE
from libtile.lowering.errors import unsupported
from libtile.lowering.index_width import index_bits
from libtile.lowering.tileas.copies.access_reasons import pointer_reason, tma_reason, view_reason
from libtile.lowering.tileas.copies.view_accesses import ViewAccess, memref_of, view_access
from libtile.lowering.tileas.exchanges.exchange_sizes import Kernel, element_bytes, element_name
from libtile.lowering.tileas.exchanges.shared_atoms import loaded_by, stored_by, transposed_by
from libtile.lowering.to_tileas.accesses import pointer_vector
from libtile.lowering.to_tileas.shape_layouts import spread
from libtile.lowering.to_tileas.types import layout_of, with_layout
from libtile.numerics.elements import ELEMENTS, STORAGE_BYTES, memory_bits
from libtile.support.diagnostics import LoweringError
from libtile.support.records import dataclass
from libtile.targets import Target, target

MAX_BITS = 8 * MAX_ACCESS_BYTES
CHECKS, OFFSET_BITS = "checks_access", "offset_bits"


@dataclass(frozen=True)
class SelectCopiesPass(ModulePass):
    """Choose the instruction of each access; `run-time-checks` allows two forms of one, of which a check at run time
    takes the wide one, for tiles of at most `max-registers` registers of a thread (code would grow too much)."""

    name = "tileas-select-copies"
    run_time_checks: bool = True
    max_registers: int = 64

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.body.block.ops:
            if isinstance(inner, FuncOp) and inner.kernel_spec is not None and inner.kernel_spec.target is not None:
                most = self.max_registers if self.run_time_checks else 0
                _Selector(target(inner.kernel_spec.target), inner.kernel_spec.num_warps, most).run(inner)


class _Selector:
    """The choices for one function."""

    def __init__(self, gpu: Target, warps: int, max_registers: int):
        self.gpu, self.warps, self.max_registers = gpu, warps, max_registers

    def run(self, function: Operation) -> None:
        for op in ops_of(function):
            if isinstance(op, MakeMemRefOp) and OFFSET_BITS not in op.attributes and (bits := index_bits(op)):
                op.attributes[OFFSET_BITS] = integer(bits, i64)
            choose = _CHOICES.get(type(op))
            if choose is not None and is_open(op):
                choose(self, op)

    # -- through pointers -------------------------------------------------------------------------------------------

    def by_pointers(self, op: Operation) -> None:
        """A load or store through a tile of pointers."""
        assert isinstance(op, memory.LoadOp | memory.StoreOp)
        layout = _layout_of(op, op.base)
        vector, element = pointer_vector(op)
        size = STORAGE_BYTES[element]
        count = len(register_groups(layout, vector.dim, min(vector.count, MAX_ACCESS_BYTES // size))[0])
        kind = "stg" if isinstance(op, memory.StoreOp) else "ldg"
        self._by_pointers(op, kind, layout, vector.dim, count, size)

    def _by_pointers(self, op: Operation, kind: str, layout: LinearLayout, dim: int, count: int, size: int) -> None:
        _choose(op, kind, 8 * size * count, dim, layout)
        if layout.out_dims and 8 * size * count < MAX_BITS:
            op.attributes[NOT_WIDE] = StringAttr(pointer_reason(op, layout, size))

    def async_by_pointers(self, op: Operation) -> None:
        """An asynchronous copy through a tile of pointers."""
        from libtile.atoms.cp_async import copy_width

        assert isinstance(op, tma.LoadOp)
        layout, shared = _layout_of(op, op.base), _buffer(op, op.buffer)
        vector, element = pointer_vector(op)
        size = STORAGE_BYTES[element]
        width = copy_width(shared, layout, element, vector.dim, vector.count)
        if width is not None:
            self._by_pointers(op, "ldgsts", layout, vector.dim, width, size)
            return
        mask = next(iter(operand_group(op, "mask")), None)
        type_ = with_layout(_tile_type(op.buffer), layout)
        load = build(memory.LoadOp.name, [op.base, None, mask], [type_], _carried(op))
        self._through_registers(op, load)
        self.by_pointers(load)

    def _through_registers(self, op: Operation, load: Operation) -> None:
        """Load to registers and store to shared memory in the place of an asynchronous copy."""
        at = _At(op)
        tile = at.add(load).results[0]
        buffer = operand_group(op, "buffer")[0]
        self.copy(at.add(build(CopyOp.name, [tile, buffer])))
        erase(op)

    # -- between registers and shared memory ------------------------------------------------------------------------

    def copy(self, op: Operation) -> None:
        """A copy between registers and shared memory; those of tensor memory are left."""
        from libtile.codegen.shapes import embedded, part_offset

        assert isinstance(op, CopyOp)
        loads = op.result is not None
        buffer, tile = (op.source, op.result) if loads else (op.destination, op.source)
        assert buffer is not None and tile is not None  # as the verifier wants it
        if not isinstance(buffer.type, BufferType):
            return
        if isinstance(tile.type, BufferType):
            self._transposed(op, tile.type, buffer.type)
            return
        if buffer.type.space == "shared":
            kernel, layout, shared = Kernel(self.gpu, self.warps).of(op), _layout_of(op, tile), _buffer(op, buffer)
            by, first = loaded_by if loads else stored_by, 0
            if op.offsets is not None:
                first, layout = part_offset(shared, integers_of(op.offsets)), embedded(layout, shared)
            op.atom = by(layout, shared, element_bytes(tile), kernel, first)

    def _transposed(self, op: CopyOp, source: BufferType, target: BufferType) -> None:
        """A copy within shared memory to where another dimension is the dense one; others are left."""
        if source.space == target.space == "shared":
            how = transposed_by(source, target, Kernel(self.gpu, self.warps).of(op))
            if isinstance(how, str):
                raise unsupported(op, f"copies within shared memory: {how}", self.gpu.name)
            op.atom = load_atom(how.loads)

    # -- through views ----------------------------------------------------------------------------------------------

    def by_view(self, op: Operation) -> None:
        """A load, store or asynchronous copy through a view: one, or two behind a check at run time."""
        view, layout = self._view(op), moved_layout(op)
        store = isinstance(op, memory.TiledStoreOp)
        chosen = NOT_TMA in op.attributes  # by tileas-select-tma-stores
        if self.gpu.has("tma") and not chosen and (reason := tma_reason(op, view, store=store, adds=False)) is not None:
            op.attributes[NOT_TMA] = StringAttr(reason)
        once = "mem_scope" in op.properties or _is_cut(op)
        wide = None if once else view.checked(layout, self.max_registers)
        if wide is None:
            self._by_view(op, view, layout)
            return
        condition = _checks(_At(op), op, view)
        arms = [op.clone(), op.clone()]
        results = [r for r in op.results if r.first_use is not None]
        regions = []
        for arm in arms:
            _placed_as(arm, op)
            given = scf.YieldOp(*(arm.results[op.results.index(r)] for r in results))
            regions.append(Region(Block([arm, _placed_as(given, op)])))
        made = scf.IfOp.create(
            operands=[condition], result_types=[r.type for r in results], regions=regions,
            attributes={CHECKS: UnitAttr()},
        )  # fmt: skip
        _At(op).add(made)
        for old, new in zip(results, made.results):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        erase(op)
        for arm, known in zip(arms, (wide, view)):
            self._by_view(arm, known, layout)

    def _by_view(self, op: Operation, view: ViewAccess, layout: LinearLayout) -> None:
        """One access with what is known of it."""
        dim = view.contiguous or 0
        if isinstance(op, tma.TiledLoadOp):
            width = self._copied(op, view, layout)
            if width is None:
                groups: dict[str, Sequence[SSAValue]] = {n: operand_group(op, n) for n in ("indices", "token")}
                operands: list[Given] = [op.view, groups["indices"], None, None]
                type_ = with_layout(_tile_type(operand_group(op, "buffer")[0]), layout)
                load = build(memory.TiledLoadOp.name, operands, [type_], _carried(op))
                self._through_registers(op, load)
                self._by_view(load, view, layout)
                return
            _choose(op, "ldgsts", view.bits * width, dim, layout)
            op.properties["layout"] = LayoutAttr(self._side_by_side(layout, dim, width, warps_of(op, self.warps)))
            count = width
        else:
            count = view.moved_width(layout)
            kind = "stg" if isinstance(op, memory.TiledStoreOp) else "ldg"
            _choose(op, kind, view.bits * count, dim, layout)
        op.properties["masked"] = integers(view.masked, i64)
        if layout.out_dims and view.bits * count < MAX_BITS:
            op.attributes[NOT_WIDE] = StringAttr(view_reason(view, layout))

    def _copied(self, op: Operation, view: ViewAccess, layout: LinearLayout) -> int | None:
        """The elements of one asynchronous copy; None where there is none so narrow."""
        from libtile.atoms.cp_async import copy_width

        dim, shared = view.contiguous, _buffer(op, operand_group(op, "buffer")[0])
        if dim is None:
            return None
        most = view.cut_width(layout) if _is_cut(op) else view.width(layout)
        return copy_width(shared, layout, view.element, dim, most)

    def _side_by_side(self, layout: LinearLayout, dim: int, width: int, warps: int) -> LinearLayout:
        """The layout to copy in, `width` elements at a time: one in which neighbouring lanes copy what lies side by
        side, where the layout is for wider accesses. It does not matter which thread copies an element."""
        if len(register_groups(layout, dim, layout.shape[dim])[0]) <= width:
            return layout
        order = [dim, *(d for d in reversed(range(len(layout.shape))) if d != dim)]
        return spread(layout.shape, warps, width, order)

    def reduction(self, op: Operation) -> None:
        """An atomic combination of a tile with one of a view; what was there before only `atom` gives."""
        from libtile.codegen import atomics

        view, layout, wanted = self._view(op), moved_layout(op), op.results[0].first_use is not None
        if not wanted and self.gpu.has("tma") and (reason := tma_reason(op, view, store=True, adds=True)) is not None:
            op.attributes[NOT_TMA] = StringAttr(reason)
        mode = getattr(op.properties["rmw_mode"], "keyword", "")
        if mode == "add" and not ELEMENTS[view.element].is_integer:
            mode = "addf"
        acquires = getattr(op.properties.get("mem_semantic"), "keyword", "weak") in ("acquire", "acq_rel")
        try:
            kind = atomics.instruction(self.gpu, mode, view.element, wanted=wanted, acquires=acquires)
        except LoweringError as problem:  # which knows of no place
            raise unsupported(op, str(problem)) from None
        self._whole(op, kind, view, layout, reduced_at_once(self.gpu, mode, acquires or wanted, view, layout))

    def atomic(self, op: Operation) -> None:
        """An atomic op through pointers: an instruction for each element."""
        from libtile.codegen import atomics

        assert isinstance(op, memory.AtomicRmwOp | memory.AtomicCasOp)
        element, kind = element_name(op.result), atomics.ATOM
        acquires = op.semantic in ("acquire", "acq_rel")
        if isinstance(op, memory.AtomicRmwOp):
            wanted, mode = op.result.first_use is not None, op.rmw_mode.keyword
            try:
                kind = atomics.instruction(self.gpu, mode, element, wanted=wanted, acquires=acquires)
            except LoweringError as problem:
                raise unsupported(op, str(problem)) from None
        op.atom = CopyAtomAttr(kind, memory_bits(element))

    def multimem(self, op: Operation) -> None:
        """An access to all replicas of a tile. LoweringError for one that no instruction does."""
        view, layout = self._view(op), moved_layout(op)
        reduction = getattr(op.properties.get("reduction"), "keyword", "")
        try:
            operation = _REPLICATED[type(op)]
            count = replicated_at_once(self.gpu, operation, reduction, view, layout)
        except LoweringError as problem:  # which knows of no place
            raise unsupported(op, str(problem)) from None
        self._whole(op, "multimem", view, layout, count)

    def _whole(self, op: Operation, kind: str, view: ViewAccess, layout: LinearLayout, count: int) -> None:
        _choose(op, kind, view.bits * count, view.contiguous or 0, layout)
        op.properties["masked"] = integers(view.masked, i64)

    def _view(self, op: Operation) -> ViewAccess:
        view = view_access(op)
        if view is None:
            raise unsupported(op, "goes to a view that is not made in its function", self.gpu.name)
        return view


_CHOICES: dict[type[Operation], Callable[[_Selector, Operation], None]] = {
    memory.LoadOp: _Selector.by_pointers,
    memory.StoreOp: _Selector.by_pointers,
    tma.LoadOp: _Selector.async_by_pointers,
    memory.TiledLoadOp: _Selector.by_view,
    memory.TiledStoreOp: _Selector.by_view,
    tma.TiledLoadOp: _Selector.by_view,
    memory.TiledAtomicRmwOp: _Selector.reduction,
    memory.AtomicRmwOp: _Selector.atomic,
    memory.AtomicCasOp: _Selector.atomic,
    CopyOp: _Selector.copy,
    memory.MultimemLoadReduceOp: _Selector.multimem,
    memory.MultimemReduceOp: _Selector.multimem,
    memory.MultimemStoreOp: _Selector.multimem,
}
"""How the atom of each access is chosen."""


def reduced_at_once(gpu: Target, mode: str, gives: bool, view: ViewAccess, layout: LinearLayout) -> int:
    """Elements that one atomic combination changes; one where it has to be an `atom`, which alone acquires, and gives
    what was there before."""
    from libtile.codegen import atomics

    forms = {} if gives else atomics.vector_reductions(gpu, mode, view.element)
    width = min(view.width(layout), max(forms, default=1))
    return len(register_groups(layout, view.contiguous or 0, width)[0])


def replicated_at_once(gpu: Target, operation: str, reduction: str, view: ViewAccess, layout: LinearLayout) -> int:
    """Elements of one access to all replicas. LoweringError where there is none of so few, or none at all."""
    from libtile.codegen import multimem

    forms = multimem.forms(gpu, operation, reduction, view.element)
    count = len(register_groups(layout, view.contiguous or 0, min(view.width(layout), max(forms)))[0])
    if count not in forms:
        needed = f"needs {min(forms)} neighbouring, aligned elements in a thread"
        raise LoweringError(f"multimem access to {view.element} {needed}")
    return count


def offset_bits(memref: MakeMemRefOp) -> int:
    """The bits that offsets of accesses through a memref need; 0 where nothing is said."""
    bits = memref.attributes.get(OFFSET_BITS)
    return bits.value.data if isinstance(bits, IntegerAttr) else 0


def vector_of(op: Operation, element: str) -> Vector:
    """How many neighbouring elements one instruction of an access moves, by its atom. LoweringError without one."""
    atom = op.properties.get("atom")
    if not isinstance(atom, CopyAtomAttr):
        raise unsupported(op, "has no atom, which tileas-select-copies gives it")
    return Vector(atom.dim or 0, max(atom.bits // memory_bits(element), 1))


def is_open(op: Operation) -> bool:
    """Whether the atom of an access is still to be chosen."""
    atom = op.properties.get("atom")
    return not isinstance(atom, CopyAtomAttr) or atom.kind == UNKNOWN_COPY or (not atom.bits and not atom.is_tma)


def _choose(op: Operation, kind: str, bits: int, dim: int, layout: LinearLayout) -> None:
    op.properties["atom"] = CopyAtomAttr(kind, bits, dim=dim if layout.out_dims else None)


def moved_layout(op: Operation) -> LinearLayout:
    """The layout of the tile that an access through a view moves."""
    given = op.properties.get("layout")
    if isinstance(given, LayoutAttr):
        return given.layout
    if isinstance(op, tma.TiledLoadOp):
        raise unsupported(op, "cannot be compiled without a layout")
    return _layout_of(op, op.results[0] if isinstance(op, _LOADS) else operand_of(op, "value"))


def _layout_of(op: Operation, value: SSAValue) -> LinearLayout:
    """The layout of a tile that an access moves, or of its pointers; LoweringError for one without."""
    if not isinstance(value.type, TensorType) or not isinstance(value.type.encoding, LayoutAttr):
        raise unsupported(op, "moves a tile without a layout, which convert-tileaa-to-tileas gives it")
    return layout_of(value)


_LOADS = (memory.TiledLoadOp, memory.MultimemLoadReduceOp)


def _buffer(op: Operation, value: SSAValue) -> LinearLayout:
    """The layout of a buffer in shared memory that an access fills, or reads; LoweringError for one without."""
    if not isinstance(value.type, BufferType) or value.type.layout is None:
        reads = isinstance(op, CopyOp) and op.result is not None
        raise unsupported(op, f"{'reads' if reads else 'fills'} a buffer without a layout")
    return value.type.layout.layout


def _tile_type(buffer: SSAValue) -> TensorType[Attribute]:
    assert isinstance(buffer.type, BufferType)
    return TensorType(buffer.type.element_type, buffer.type.shape)


_REPLICATED: dict[type[Operation], str] = {
    memory.MultimemLoadReduceOp: "load_reduce",
    memory.MultimemReduceOp: "reduce",
    memory.MultimemStoreOp: "store",
}
"""What `codegen.multimem` calls the accesses to all replicas."""


def _carried(op: Operation) -> dict[str, Attribute]:
    """What an asynchronous copy says that a load in its place says as well."""
    found = {name: attr for name, attr in op.properties.items() if name == "in_bounds"}
    return {**found, **op.attributes}


def _placed_as(op: Operation, other: Operation) -> Operation:
    if other.location is not None:
        set_location(op, other.location)
    return op


class _At:
    """Ops in front of an op, at its place in the source."""

    def __init__(self, op: Operation):
        self.op = op

    def add(self, made: Operation) -> Operation:
        block = self.op.parent
        assert block is not None
        block.insert_op_before(_placed_as(made, self.op), self.op)
        return made

    def value(self, made: Operation) -> SSAValue:
        return self.add(made).results[0]

    def number(self, value: int) -> SSAValue:
        return self.value(arith.ConstantOp(integer(value, i64)))


# -- checks at run time -----------------------------------------------------------------------------------------------


def _checks(at: _At, op: Operation, view: ViewAccess) -> SSAValue:
    """Whether the tile lies inside of the tensor, and its rows are aligned to the widest access."""
    memref, t, most = memref_of(op), view.contiguous, view.row_width
    assert memref is not None and t is not None  # of a view that is known, with rows
    whole: SSAValue | None = None

    def also(condition: SSAValue) -> None:
        nonlocal whole
        whole = condition if whole is None else at.value(arith.AndIOp(whole, condition, i1))

    sizes, strides = _run_time(memref)
    for dim, index in enumerate(operand_group(op, "indices")):
        if dim != view.sparse and view.needs_mask(dim):
            also(_inside(at, index, view, dim, sizes[view.dims[dim]]))
        stride = strides[view.dims[dim]]  # what a constant one is divided by is known
        if dim != t and stride is not None and view.stride_divisor(dim) % most and view.size(dim) != 1:
            also(_divides(at, _as_i64(at, stride), most))
    if view.alignment % MAX_ACCESS_BYTES:
        also(_divides(at, _address(at, memref), MAX_ACCESS_BYTES))
    assert whole is not None  # what is known does not make the access as wide
    return whole


def _run_time(memref: MakeMemRefOp) -> tuple[list[SSAValue | None], list[SSAValue | None]]:
    """The sizes and strides of a memref that are of run time; None for the others."""
    type_ = memref.result.type
    assert isinstance(type_, MemRefType)
    found = []
    for static, dynamic in ((type_.shape, memref.sizes), (type_.strides, memref.strides)):
        rest = iter(dynamic)
        found.append([next(rest) if size == DYNAMIC else None for size in static])
    return found[0], found[1]


def _inside(at: _At, index: SSAValue, view: ViewAccess, dim: int, size: SSAValue | None) -> SSAValue:
    """Whether the tile's last element along a dimension is one of the tensor's."""
    known, tile, step = view.size(dim), view.tile[dim], view.steps[dim]
    limit = at.number(known) if known is not None else None if size is None else _as_i64(at, size)
    if constant_of(index) == 0:
        end = at.number(tile)
        return at.value(arith.CmpiOp(end, end if limit is None else limit, "ule"))
    start = _as_i64(at, index)
    if step != 1:
        start = at.value(arith.MuliOp(start, at.number(step)))
    if limit is not None and _may_wrap(index, step, tile):  # the end of what is outside would be one inside
        beyond = at.value(arith.SubiOp(at.value(arith.MaxUIOp(limit, at.number(tile - 1))), at.number(tile - 1)))
        return at.value(arith.CmpiOp(start, beyond, "ult"))
    end = at.value(arith.AddiOp(start, at.number(tile)))
    return at.value(arith.CmpiOp(end, end if limit is None else limit, "ule"))


def _may_wrap(index: SSAValue, step: int, tile: int) -> bool:
    """Whether the end of the tile at an index may be beyond the numbers of 64 bits: one of i64 below 0 is as large."""
    constant = constant_of(index)
    if constant is not None:
        return not 0 <= constant * step < (1 << 64) - tile
    cast = index.owner
    return isinstance(cast, arith.IndexCastOp) and not isinstance(cast.input.owner, arith.ExtUIOp)


def _divides(at: _At, value: SSAValue, power: int) -> SSAValue:
    low = at.value(arith.AndIOp(value, at.number(power - 1), i64))
    return at.value(arith.CmpiOp(low, at.number(0), "eq"))


def _address(at: _At, memref: MakeMemRefOp) -> SSAValue:
    """The address at which a memref begins."""
    base = memref.base.type
    kept = base.encoding if isinstance(base, TensorType) else None
    type_ = TensorType(i64, base.get_shape(), kept) if isinstance(base, TensorType) and kept is not None else i64
    address = _as_i64(at, at.value(PtrToIntOp.make(memref.base, results=[type_])))
    if memref.offset is None:
        return address
    return at.value(arith.AddiOp(address, _as_i64(at, memref.offset)))


def _as_i64(at: _At, value: SSAValue) -> SSAValue:
    """An unsigned scalar, or the element of a tile of rank 0, as an i64."""
    if isinstance(value.type, TensorType):
        value = at.value(tensor.ExtractOp(value, [], value.type.element_type))
    if isinstance(value.type, IndexType):
        return at.value(arith.IndexCastOp(value, i64))
    if isinstance(value.type, IntegerType) and value.type.width.data < i64.width.data:
        return at.value(arith.ExtUIOp(value, i64))
    return value


def _is_cut(op: Operation) -> bool:
    """Whether an access is an asynchronous copy that the tensor's end may cut."""
    return isinstance(op, tma.TiledLoadOp) and op.cut is not None
