# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles that a producer agent copies by TMA, operands of products and others: which loads can be copies, and the copies
themselves."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, SSAValue

from libtile.analysis.tokens import is_fresh
from libtile.atoms import tcgen05, tma, wgmma
from libtile.atoms.cp_async import operand_shared_layout
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.functions import FuncOp
from libtile.dialects.nv_tileas.async_products import matrix_of
from libtile.dialects.nv_tileas.attributes import CopyAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.dialects.nv_tileas.memory import TiledLoadOp
from libtile.dialects.nv_tileas.tma import TiledTmaLoadOp
from libtile.dialects.nv_tileas.tma_rules import MULTICAST_BITS
from libtile.dialects.nv_tileas.types import AsyncTokenType, BufferType
from libtile.ir.tile_form import shape_of
from libtile.layouts import LinearLayout
from libtile.layouts.row_swizzles import CHUNK
from libtile.lowering.clusters import SAME_IN_CLUSTER
from libtile.lowering.tileas.ahead import orders_nothing_behind
from libtile.lowering.tileas.copies.tma_tiles import Laid, Parted, TmaTile, Unfit, described_tile
from libtile.lowering.tileas.exchanges.exchange_sizes import Kernel
from libtile.lowering.tileas.exchanges.shared_atoms import transposed_by
from libtile.lowering.tileas.inserter import Inserter
from libtile.numerics.elements import STORAGE_BYTES
from libtile.support.records import dataclass, replace
from libtile.targets import MmaAtom, Target

__all__ = ["TmaOperand", "Unfit", "read_operand", "tma_operand", "tma_tile", "transposed_atoms"]


ROW_BYTES = 128
"""Of the rows that TMA's widest swizzle exchanges atoms of: shorter ones take as many requests for fewer bytes."""


def check_token(load: TiledLoadOp) -> None:
    """Unfit where the token of a load that becomes a copy orders something behind it in the same block."""
    if not orders_nothing_behind(load):
        raise Unfit("a token orders another access behind one that is a copy by TMA")


def transposed_atoms(gpu: Target, atom: MmaAtom) -> tuple[int, ...]:
    """The bytes of the atoms of swizzles under which operands in shared memory may be MN-major for the asynchronous
    products of a target."""
    return (tcgen05 if gpu.has("tcgen05") else wgmma).transposed_atoms(gpu, atom)


def _layout_as_copied(
    gpu: Target, atom: MmaAtom, side: str, shape: Sequence[int], element: str, dense: int
) -> LinearLayout:
    """Where TMA puts an operand (side "a" or "b") that is contiguous along a dimension: under the swizzle under which
    products read it so, if they do and its rows are long enough."""
    wide = [d for d, n in enumerate(shape) if n != 1]
    along_k = not wide or dense == wide[-1 if side == "a" else 0]
    atoms = () if along_k else transposed_atoms(gpu, atom)
    return operand_shared_layout(shape, element, dense, max(atoms, default=CHUNK))


def read_operand(gpu: Target, atom: MmaAtom, side: str, type_: BufferType) -> wgmma.SharedOperand | str:
    """How an instruction reads an operand from shared memory, or why it does not."""
    assert type_.layout is not None
    share = tcgen05.share_of(atom) if gpu.has("tcgen05") else atom
    size = STORAGE_BYTES[NUMBER_NAMES[type_.element_type]]
    return wgmma.shared_operand(matrix_of(type_.layout.layout), side, share, size, transposed_atoms(gpu, atom))


@dataclass(frozen=True)
class TmaOperand(TmaTile):
    """A tile that TMA copies to a stage."""

    access: TiledLoadOp
    ctas: int = 1
    """Of a cluster, each of which copies its share of the tile to all of them."""
    shadow: BufferType | None = None
    """Where products read the tile, if that is not where TMA puts it: threads copy it there."""

    @property
    def read(self) -> BufferType:
        """The buffer that products read."""
        return self.type if self.shadow is None else self.shadow

    @property
    def atom(self) -> CopyAtomAttr:
        if self.ctas == 1:
            return super().atom
        return CopyAtomAttr("tma_load", _row_bits(self.boxes, self.type), self.box, multicast=self.ctas)

    @property
    def load(self) -> TiledLoadOp:
        return self.access

    def copy(
        self, at: Inserter, number: int, descriptor: SSAValue, buffer: SSAValue, values: dict[SSAValue, SSAValue],
        part: int = 0,
    ) -> None:  # fmt: skip
        """The copy of the tile, or of a part of it, whose corner is given in elements of the tensor's dimensions."""
        at.add(
            TiledTmaLoadOp.make(
                descriptor,
                self.corner(at, values, part),
                buffer,
                results=[AsyncTokenType()],
                atom=self.atom,
                tmaIdx=number,
                dim_map=self.dim_map,
                multicast=UnitAttr() if self.ctas > 1 else None,
                num_multicast=self.ctas if self.ctas > 1 else None,
            ),
            self.load.location,
        )


def shared_by_cluster(function: FuncOp, operand: TmaOperand, parted: Parted | None) -> TmaOperand:
    """The operand, of which each CTA of the kernel's cluster copies a share to all, if they all load the same tile, and
    it has boxes for them that are large enough."""
    spec = function.kernel_spec
    if spec is None or spec.num_ctas == 1 or SAME_IN_CLUSTER not in operand.load.attributes:
        return operand
    found = operand
    if len(found.boxes.copies) % spec.num_ctas:
        tile = described_tile(
            function, found.load, order=found.indices, rows=tma.rows_of(found.boxes.box) // spec.num_ctas,
            parted=parted,
        )  # fmt: skip
        found = replace(found, boxes=tile.boxes)
    if len(found.boxes.copies) % spec.num_ctas or _row_bits(found.boxes, found.type) < MULTICAST_BITS:
        return operand
    return replace(found, ctas=spec.num_ctas)


def _row_bits(boxes: tma.Boxes, type_: BufferType) -> int:
    """Bits that a copy moves at once: a row of its box."""
    return boxes.box[0] * STORAGE_BYTES[NUMBER_NAMES[type_.element_type]] * 8


def tma_operand(
    function: FuncOp, gpu: Target, atom: MmaAtom, side: str, load: TiledLoadOp, order: Sequence[int] | None = None,
    halved: int | None = None, element: Attribute | None = None, warps: int = 0, parts: int = 1, *,
    by_threads: bool = False,
) -> TmaOperand:  # fmt: skip
    """How TMA copies an operand (side "a" or "b") of a product that reads shared memory by this instruction; Unfit
    where it does not. Dimension n of the operand is dimension order[n] of the load's tile; dimensions of size 1 may
    stand between those of the matrix. Of an operand that is `halved` along a dimension, each CTA of a pair has half.
    TMA rounds f32 where the operand's elements are of another type, tf32. An operand that is dense along another
    dimension than k, and that the instruction does not read so, gets a shadow if so many `warps` can transpose it. One
    that is read `by_threads` is dense along another dimension. It is copied in so many `parts` along k, one after the
    other."""
    what = f"#{side.upper()} "
    parted = Parted(_depth_dim(side, load, order), parts) if parts > 1 else None

    def layout(shape: Sequence[int], stored: str, dense: int) -> LinearLayout:
        if parted is not None:
            _check_part(what, shape, parted.dim, atom, STORAGE_BYTES[stored] if dense == parted.dim else 0)
        return _layout_as_copied(gpu, atom, side, shape, stored, dense)

    found = tma_tile(function, what, load, order, layout, halved, parted)
    if element is not None:
        found = replace(found, type=BufferType(found.type.shape, element, found.type.space, found.type.layout))
    read = read_operand(gpu, atom, side, found.type)
    if by_threads:
        if not isinstance(read, str):
            raise Unfit(what + "is read from shared memory by products, not by threads")
    elif isinstance(read, str):
        shadow = _shadow(gpu, atom, side, found.type, warps) if warps else None
        if shadow is not None:
            return replace(found, shadow=shadow)
        raise Unfit(what + "cannot be read from shared memory: " + read)
    # Only of wgmma's products each CTA's thread says to all of a cluster that a stage is free.
    return found if gpu.has("tcgen05") else shared_by_cluster(function, found, parted)


def _check_part(what: str, shape: Sequence[int], depth_dim: int, atom: MmaAtom, dense_bytes: int) -> None:
    """Unfit for a part of an operand that is cut further along k than an instruction goes, or than the rows of a
    swizzle, which are along k where elements of so many bytes are contiguous there."""
    depth = shape[depth_dim]
    if depth % atom.k or depth < atom.k:
        raise Unfit(what + f"has parts of {depth} along k, and an instruction multiplies {atom.k}")
    if 0 < depth * dense_bytes < ROW_BYTES:
        raise Unfit(what + f"has parts with rows of {depth * dense_bytes} bytes")


def _depth_dim(side: str, load: TiledLoadOp, order: Sequence[int] | None) -> int:
    """The dimension of an operand along which products add up."""
    shape = shape_of(load.value.type)
    wide = [n for n, d in enumerate(order or range(len(shape))) if shape[d] != 1]
    return wide[-1 if side == "a" else 0]


def _shadow(gpu: Target, atom: MmaAtom, side: str, type_: BufferType, warps: int) -> BufferType | None:
    """The buffer of an operand that is dense along k, to which so many warps copy it; None where products do not read
    that either, or warps do not copy it."""
    wide = [d for d, n in enumerate(type_.shape) if n != 1]
    element = NUMBER_NAMES[type_.element_type]
    layout = operand_shared_layout(type_.shape, element, wide[1 if side == "a" else 0])
    made = BufferType(type_.shape, type_.element_type, type_.space, LayoutAttr(layout))
    read = wgmma.shared_operand(matrix_of(layout), side, atom, STORAGE_BYTES[element], ())
    if not gpu.has("wgmma") or isinstance(read, str) or isinstance(transposed_by(type_, made, Kernel(gpu, warps)), str):
        return None
    return made


def tma_tile(
    function: FuncOp,
    what: str,
    load: TiledLoadOp,
    order: Sequence[int] | None = None,
    shared: LinearLayout | Laid | None = None,
    halved: int | None = None,
    parted: Parted | None = None,
) -> TmaOperand:
    """How TMA copies the tile of a load, which `what` calls it in reasons; Unfit where it does not. Dimension n of the
    copy is dimension order[n] of the load's tile (None: they are the same); `halved` is one of which each CTA of a pair
    copies half, and `parted` says in which parts it is copied. It is to lie in shared memory as products read operands,
    or in the layout `shared`."""
    if load.group("other"):
        raise Unfit(what + "is accessed in a way that copies by TMA have not")
    for token in load.group("token"):
        if not is_fresh(token):
            raise Unfit(what + "is ordered behind another access by a token")
    tile = described_tile(function, load, what, order, shared=shared, halved=halved, parted=parted)
    return TmaOperand(
        load, tile.type, tile.boxes, tile.memref, tile.dims, tile.indices, tile.steps, halved=halved,
        parted=tile.parted, sliced=tile.sliced,
    )  # fmt: skip
