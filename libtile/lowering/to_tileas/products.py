# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which instruction computes each matrix product, and the layouts of its operands: decided here, said by the op."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.ir import Attribute, Operation

from libtile.atoms.operand_types import accumulator_type, ptx_type
from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.attributes import keyword_of
from libtile.dialects.nv_tileaa.collectives import DotOp, ScaledDotOp
from libtile.dialects.nv_tileas.attributes import FMA, MmaAtomAttr
from libtile.layouts import LinearLayout
from libtile.lowering.errors import unsupported
from libtile.lowering.to_tileas.accesses import contiguous_dim
from libtile.lowering.to_tileas.types import element_of
from libtile.support.diagnostics import LoweringError
from libtile.support.records import replace
from libtile.targets import MmaAtom, Target

if TYPE_CHECKING:
    from libtile.atoms.mma_layouts import DotLayouts, ScaledLayouts

Product = DotOp | ScaledDotOp
"""The products of nv_tileaa; those of nv_tileas have the instruction."""


def _shapes(op: Product) -> list[tuple[int, ...]]:
    return [tuple(v.type.get_shape()) for v in op.operands if isinstance(v.type, TensorType)]


class Products:
    """Answers for one function: its target, its number of warps, which of its products are chained, which have
    their results in tensor memory, which read from shared memory what the kernel's warps computed of others,
    of which rows lie `in_pairs`, and whether warpgroups share columns where there are not rows for all of them."""

    def __init__(
        self,
        gpu: Target,
        warps: int,
        chained: Collection[Operation] = (),
        in_tensor_memory: Collection[Operation] = (),
        by_rows: bool = False,
        bridged: Collection[Operation] = (),
        in_pairs: Collection[Operation] = (),
        share_columns: bool = False,
    ):

        self.gpu = gpu
        self.warps = warps
        self.chained = chained
        self.in_tensor_memory = in_tensor_memory
        self.by_rows = by_rows
        self.bridged = bridged
        self.in_pairs = in_pairs
        self.share_columns = share_columns
        self._known: dict[Operation, DotLayouts] = {}

    def operand_layouts(self, op: Product) -> tuple[LinearLayout, ...]:
        """Layouts of the operands of a dot or scaled_dot; the result has that of the third, the accumulator."""
        if isinstance(op, ScaledDotOp):
            scaled = self._scaled(op)
            return scaled.dot.a, scaled.dot.b, scaled.dot.c, scaled.lhs_scale, scaled.rhs_scale
        found = self.of(op)
        return found.a, found.b, found.c

    def of(self, op: Product) -> DotLayouts:
        """How a dot or scaled_dot is computed: by which instruction, and in which layouts."""
        if isinstance(op, ScaledDotOp):
            return self._scaled(op).dot
        if op not in self._known:
            self._known[op] = self._compute(op)
        return self._known[op]

    def _scaled(self, op: ScaledDotOp) -> ScaledLayouts:
        from libtile.atoms import tcgen05
        from libtile.atoms.mma_layouts import scaled_layouts

        a, b, _, sfa, sfb = _shapes(op)
        packed = op.packed is not None
        elements = NUMBER_NAMES[op.element(op.a)], NUMBER_NAMES[op.element(op.b)], element_of(op.sfa)
        found = scaled_layouts(a, b, sfa, sfb, self.gpu, self.warps, elements, packed)
        if op in self.in_tensor_memory:
            sums = tcgen05.register_layout((a[-2], b[-1]), self.warps)
            return replace(found, dot=replace(found.dot, c=sums, atom=tensor_memory_atom(op, self.gpu)))
        return found

    def chosen(self, op: Product) -> dict[str, Attribute]:
        """The attributes by which a dot or scaled_dot of nv_tileas says how it is computed."""
        found = self.of(op)
        if found.atom is None:
            element = accumulator_type(element_of(op.c))
            return {"atom": MmaAtomAttr(FMA, (1, 1, 1), element, element, element)}
        atom = found.atom
        attribute = MmaAtomAttr(atom.family, (atom.m, atom.n, atom.k), atom.a, atom.b, atom.d)
        if op in self.in_tensor_memory:
            return {"atom": attribute}
        return {"atom": attribute, "warps": DenseArrayBase.from_list(i64, found.grid)}

    def explained(self, op: Product) -> dict[str, Attribute]:
        """The attributes by which a dot or scaled_dot of nv_tileas says why, for remarks."""
        from libtile.lowering.product_reasons import explained

        return explained(op, self.of(op).atom, self.gpu)

    def _compute(self, op: DotOp) -> DotLayouts:
        from libtile.atoms import tcgen05, wgmma
        from libtile.atoms.mma_layouts import dot_layouts

        a, b, c = (element_of(v) for v in (op.a, op.b, op.c))
        shapes = _shapes(op)
        whole_rows = op in self.chained
        m_by_k, k_by_n, _ = shapes
        wide = [d for d, n in enumerate(k_by_n) if n != 1]
        lies = contiguous_dim(op.b)
        by_columns = lies is not None and wide[lies] == len(k_by_n) - 1
        try:
            found = dot_layouts(
                m_by_k, k_by_n, a, b, c, self.gpu, self.warps, whole_rows=whole_rows,
                by_columns=by_columns, **_signs(op),
            )  # fmt: skip
        except LoweringError as problem:  # which knows of no place
            raise unsupported(op, f"is {problem}", self.gpu.name) from None
        if op in self.in_tensor_memory:
            atom = tensor_memory_atom(op, self.gpu)
            if self.by_rows:
                left, sums = (tcgen05.row_layout(shapes[n], self.warps) for n in (0, 2))
                return replace(found, a=left, c=sums, atom=atom)
            return replace(found, c=tcgen05.register_layout(shapes[2], self.warps), atom=atom)
        if op in self.in_pairs:
            return replace(found, a=wgmma.in_pairs(found.a), c=wgmma.in_pairs(found.c))
        if self.share_columns and wgmma.column_groups(shapes[2][0], self.warps) > 1:
            return replace(found, c=wgmma.shared_layout(shapes[2], self.warps))
        return found


def tensor_memory_atom(op: Product, gpu: Target) -> MmaAtom | None:
    """The instruction by which a product's result can lie in tensor memory; None when there is none."""
    from libtile.atoms import tcgen05, tcgen05_factors

    if isinstance(op, ScaledDotOp):
        (*batches, m, k), (*_, n), _, (*_, blocks) = _shapes(op)[:4]
        a, b = (ptx_type(element_of(v), True) for v in (op.a, op.b))
        return None if batches else tcgen05_factors.find(gpu, a, b, element_of(op.sfa), (m, n, k), blocks)
    (*batches, m, k), (*_, n) = _shapes(op)[:2]
    acc, signs = accumulator_type(element_of(op.c)), _signs(op)
    a, b = (ptx_type(element_of(v), signed) for v, signed in zip((op.a, op.b), signs.values()))
    return None if batches else tcgen05.find(gpu, a, b, acc, m, n, k)


def _signs(op: DotOp) -> dict[str, bool]:
    given = {"signed_a": op.signedness_a, "signed_b": op.signedness_b}
    return {name: keyword_of(sign, "signed") == "signed" for name, sign in given.items()}
