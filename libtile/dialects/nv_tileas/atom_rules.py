# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an atom and a shuffle have to fit: layouts and warps."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from libtile.dialects.cuda_tile.types import NUMBER_NAMES
from libtile.dialects.nv_tileaa.shapes import integers_of
from libtile.dialects.nv_tileaa.types import PtrType
from libtile.dialects.nv_tileas.attributes import SHARED_LOAD_KINDS, SHARED_STORE_KINDS, TRANS, CopyAtomAttr
from libtile.dialects.nv_tileas.layout import LayoutAttr
from libtile.ir.tile_form import element_of, layout_of, shape_of, stored_element, stored_shape, type_text
from libtile.layouts import REGISTER, WARP
from libtile.layouts.convert import Conversion, needed
from libtile.layouts.registers import register_groups
from libtile.numerics.elements import STORAGE_BYTES, memory_bits

BY_THREADS = ("ldg", "stg", "ldgsts", "lds", "sts", "red", "atom", "cas", "multimem")
"""Atoms whose bits are what one thread moves."""


MAX_BITS = 128
"""The most that one instruction of a thread moves."""


def _element_name(element: Attribute) -> str:
    """The keyword by which an element's size is known: an index is as wide as an i64."""
    if isinstance(element, IndexType):
        return "i64"
    return "ptr" if isinstance(element, PtrType) else NUMBER_NAMES[element]


def element_bits(type_: Attribute) -> int:
    """Bits that an element of a tile takes in memory."""
    return memory_bits(_element_name(stored_element(type_)))


def check_atom_width(atom: CopyAtomAttr | None, type_: Attribute, given: LayoutAttr | None = None) -> None:
    """A thread moves by one instruction whole elements along a dimension of the tile, and no more of them than the
    layout (the tile's, or what is `given`) gives it side by side; VerifyException."""
    if atom is None or not atom.bits:
        return
    bits, layout = element_bits(type_), given or layout_of(type_)
    if atom.dim is not None:
        _check_dimension(atom, bits, stored_shape(type_))
    if atom.kind not in BY_THREADS or not isinstance(layout, LayoutAttr):
        return
    held = bits * (layout.layout.in_size(REGISTER) if REGISTER in dict(layout.layout.bases) else 1)
    if atom.bits > held:
        raise VerifyException(
            f"expects an atom of at most {held} bits, which a thread has of {type_text(type_)}, but got {atom.bits}"
        )
    if atom.dim is None or atom.bits <= bits:
        return
    together = bits * len(register_groups(layout.layout, atom.dim, atom.bits // bits)[0])
    if atom.bits > together:
        raise VerifyException(
            f"expects an atom of at most {together} bits, which a thread has side by side along dimension {atom.dim} "
            f"of {type_text(type_)}, but got {atom.bits}"
        )


def check_shared_atom(atom: CopyAtomAttr, type_: Attribute, *, loads: bool) -> None:
    """An atom that moves a tile in registers from or to shared memory: of that direction, and of whole elements, no
    more of them than a thread has; VerifyException."""
    kinds = SHARED_LOAD_KINDS if loads else SHARED_STORE_KINDS
    if atom.kind not in kinds:
        raise VerifyException(f"expects an atom that is one of {', '.join(kinds)}, but got {atom.kind}")
    if not atom.bits:
        return
    element, layout = element_of(type_), layout_of(type_)
    bits = 8 * STORAGE_BYTES[_element_name(element)]
    most = MAX_BITS
    if isinstance(layout, LayoutAttr):
        most = min(most, bits * layout.layout.in_size(REGISTER))
    if atom.bits % bits or atom.bits & (atom.bits - 1) or not bits <= atom.bits <= most:
        raise VerifyException(
            f"expects an atom of a power of two of elements of {bits} bits, at most {most} bits, but got {atom.bits}"
        )
    if atom.mode not in (None, TRANS) or (atom.mode and atom.kind not in ("ldmatrix", "stmatrix")):
        raise VerifyException(f"expects no mode, or {TRANS} of matrices, but got {atom.mode}")


def check_tensor_atom(atom: CopyAtomAttr, type_: Attribute, *, loads: bool) -> None:
    """An atom that moves a tile in registers from or to tensor memory: of that direction, and for fragments
    (16x256b) in their layout; VerifyException."""
    from libtile.atoms import tcgen05

    kind = "tcgen05_ld" if loads else "tcgen05_st"
    if atom.kind != kind:
        raise VerifyException(f"expects an atom that is {kind}, but got {atom.kind}")
    layout = layout_of(type_)
    if atom.bits != tcgen05.FRAGMENT_BITS or not isinstance(layout, LayoutAttr):
        return
    shape = shape_of(type_)
    try:
        wanted = tcgen05.register_layout(shape, 1 << len(layout.layout.basis(WARP)))
    except ValueError as problem:
        raise VerifyException(f"expects a tile that warps load as fragments: {problem}") from None
    if layout.layout != wanted:
        raise VerifyException(f"expects a tile in the layout {LayoutAttr(wanted).body()}, but got {layout}")


def _check_dimension(atom: CopyAtomAttr, bits: int, shape: tuple[int, ...]) -> None:
    assert atom.dim is not None
    if atom.dim >= len(shape):
        raise VerifyException(f"expects dim of the atom in range 0 to {len(shape) - 1}, but got {atom.dim}")
    count = atom.bits // bits
    if atom.bits % bits or count & (count - 1) or not 0 < count <= shape[atom.dim] or atom.bits > MAX_BITS:
        raise VerifyException(
            f"expects bits of the atom for a power of two of elements of {bits} bits, at most {MAX_BITS} bits and "
            f"{shape[atom.dim]} elements, but got {atom.bits}"
        )


def check_masked(masked: Attribute | None, type_: Attribute) -> None:
    """The dimensions that are compared with the tensor's size are some of the tile's, in order; VerifyException."""
    dims = list(integers_of(masked))
    if dims != sorted(set(dims)) or any(not 0 <= d < len(stored_shape(type_)) for d in dims):
        raise VerifyException(f"expects dimensions of the tile as 'masked', in order, but got {dims}")


_WITHIN = {
    "registers": (Conversion.NONE, Conversion.REGISTERS),
    "shuffle": (Conversion.NONE, Conversion.REGISTERS, Conversion.SHUFFLE),
}
_STAY = {"registers": "threads", "shuffle": "warps"}


def check_way(kind: str, source: Attribute, result: Attribute) -> None:
    """By registers every element stays in its thread, by shuffles in its warp; VerifyException."""
    layouts = [layout_of(source), layout_of(result)]
    if kind not in _WITHIN:
        return
    found = [lay.layout for lay in layouts if isinstance(lay, LayoutAttr)]
    if not found:  # they are still to be chosen
        return
    if len(found) != len(layouts):
        raise VerifyException(f"expects tiles with layouts, but got {type_text(source)} and {type_text(result)}")
    warps = [lay.basis(WARP) for lay in found]
    if len(warps[0]) != len(warps[1]) or needed(*found) not in _WITHIN[kind]:
        raise VerifyException(f"expects layouts whose elements stay in their {_STAY[kind]}")
