# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Elementwise ops: rows of tables that name the emission function and the attributes it takes."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, TensorType
from xdsl.ir import Attribute, Operation

from libtile.codegen import byte_words, compare, constants, conversions, floats, integers, math_functions
from libtile.codegen.builder import Value, integer
from libtile.codegen.control import as_it_is
from libtile.codegen.llvm_types import I64, IntType
from libtile.codegen.tile import Tile, map_tiles
from libtile.codegen.words import of_words, words_of
from libtile.dialects import arith
from libtile.dialects.nv_tileaa.arithmetic import OPS, ElementwiseOp
from libtile.dialects.nv_tileaa.attributes import keyword_of
from libtile.dialects.nv_tileaa.pointers import (
    EmulatedFpToFpOp,
    FloatConversion,
    FpToFpOp,
    FpToIntOp,
    IntToFpOp,
    IntToPtrOp,
    PtrToIntOp,
)
from libtile.ir.tile_form import TileOp, shape_of
from libtile.lowering.apart import APART
from libtile.lowering.errors import unsupported
from libtile.lowering.pairs import IN_PAIRS, IN_THREES, takes_pairs, takes_threes
from libtile.lowering.ranks import number_and_ranks
from libtile.lowering.to_llvm.emitter import Emitter, element_name, rule
from libtile.numerics.float_bits import encode

Function = Callable[..., Value]

INTEGERS: dict[type[Operation], tuple[Function, tuple[str, ...]]] = {
    arith.DivSIOp: (integers.div, ("signed", "zero")),
    arith.DivUIOp: (integers.div, ("unsigned", "zero")),
    arith.FloorDivSIOp: (integers.div, ("signed", "negative_inf")),
    arith.CeilDivSIOp: (integers.div, ("signed", "positive_inf")),
    arith.CeilDivUIOp: (integers.div, ("unsigned", "positive_inf")),
    arith.RemSIOp: (integers.rem, ("signed",)),
    arith.RemUIOp: (integers.rem, ("unsigned",)),
    arith.MaxSIOp: (integers.max_, ("signed",)),
    arith.MaxUIOp: (integers.max_, ("unsigned",)),
    arith.MinSIOp: (integers.min_, ("signed",)),
    arith.MinUIOp: (integers.min_, ("unsigned",)),
    arith.ShRSIOp: (integers.shr, ("signed",)),
    arith.ShRUIOp: (integers.shr, ("unsigned",)),
    arith.AndIOp: (integers.and_, ()),
    arith.OrIOp: (integers.or_, ()),
    arith.XOrIOp: (integers.xor, ()),
}
"""Ops of arith without attributes: the function and the arguments that the op stands for."""

WRAPPING: dict[type[Operation], Function] = {
    arith.AddiOp: integers.add,
    arith.SubiOp: integers.sub,
    arith.MuliOp: integers.mul,
    arith.ShLIOp: integers.shl,
}
"""Ops of arith with overflow flags."""

WORDS: dict[type[Operation], byte_words.WordOp] = {
    arith.AndIOp: byte_words.bits_and,
    arith.OrIOp: byte_words.bits_or,
    arith.XOrIOp: byte_words.bits_xor,
    arith.AddiOp: byte_words.add,
    arith.SubiOp: byte_words.sub,
    arith.ShLIOp: byte_words.shift_left,
    arith.ShRUIOp: byte_words.shift_right_unsigned,
    arith.ShRSIOp: byte_words.shift_right_signed,
}
"""Ops of arith that are computed of four bytes at a time, where these are one word."""

COMPARISONS = ("equal", "not_equal", "less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal")
_CMPI = [(c, "signed") for c in COMPARISONS] + [(c, "unsigned") for c in COMPARISONS[2:]]
_CMPF = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip
"""`arith.cmpf`'s conditions by their numbers, which are those of LLVM's `fcmp`."""

_FLOATS: dict[str, tuple[Function, str]] = {
    "addf": (floats.add, "rounding flush"),
    "subf": (floats.sub, "rounding flush"),
    "mulf": (floats.mul, "rounding flush"),
    "divf": (floats.div, "rounding flush"),
    "fma": (floats.fma, "rounding flush"),
    "sqrt": (floats.sqrt, "rounding flush"),
    "maxf": (floats.max_, "nan flush"),
    "minf": (floats.min_, "nan flush"),
    "clampf": (floats.clamp, "nan flush"),
    "remf": (floats.rem, ""),
    "negf": (floats.neg, ""),
    "absf": (floats.abs_, ""),
    "ceil": (floats.ceil, ""),
    "floor": (floats.floor, ""),
    "rsqrt": (math_functions.rsqrt, "flush"),
    "exp2": (math_functions.exp2, "flush"),
    "exp": (math_functions.exp, "full"),
    "tanh": (math_functions.tanh, "full"),
    "log": (math_functions.log, ""),
    "log2": (math_functions.log2, ""),
    "sin": (math_functions.sin, ""),
    "cos": (math_functions.cos, ""),
    "tan": (math_functions.tan, ""),
    "sinh": (math_functions.sinh, ""),
    "cosh": (math_functions.cosh, ""),
    "pow": (math_functions.pow_, ""),
    "fpowi": (math_functions.fpowi, ""),
    "atan2": (math_functions.atan2, ""),
    "mulhiui": (integers.mulhi, ""),
    "mulhisi": (integers.mulhi, "signed"),
}
"""Rows of nv_tileaa's arithmetic, by mnemonic: the function and the attributes that it takes, in order."""

FLOATS: dict[type[ElementwiseOp], tuple[Function, tuple[str, ...]]] = {
    OPS[name]: (function, tuple(attributes.split())) for name, (function, attributes) in _FLOATS.items()
}
"""The same by the classes that are made of the rows."""

_NAMES = {"rounding": "rounding_mode", "full": "rounding_mode", "flush": "flush_to_zero", "nan": "propagate_nan"}
HONOURED: dict[type[TileOp], frozenset[str]] = {
    cls: frozenset(_NAMES[a] for a in attributes if a in _NAMES) for cls, (_, attributes) in FLOATS.items()
}
"""The attributes of these ops that the functions take."""

_ATTRIBUTES: dict[str, Callable[[ElementwiseOp], str | bool]] = {
    "signed": lambda op: "signed",
    "rounding": lambda op: op.rounding or "nearest_even",
    "full": lambda op: op.rounding or "full",
    "flush": lambda op: op.flushes,
    "nan": lambda op: op.propagates_nan,
}


def apply(e: Emitter, op: Operation, function: Function, *arguments: object) -> None:
    """Bind the op's result to a function of its operands: element by element for tiles."""
    result = op.results[0]
    if not shape_of(result._type) and any(type(v._type) is not TensorType for v in (*op._operands, result)):
        e.bind_one(result, e.number(op, function, *arguments))
        return
    tiles = [e.tile(v) for v in op._operands]
    e.bind(result, map_tiles(lambda *rs: function(e.b, *rs, *arguments), *tiles, element=e.element(result)))


def in_pairs(e: Emitter, op: TileOp) -> bool:
    """Whether an op says that it works on two registers at a time. LoweringError for one that cannot."""
    if IN_PAIRS not in op.attributes:
        return False
    if not takes_pairs(op, e.b.target):
        raise unsupported(op, f"is not computed two registers at a time, as '{IN_PAIRS}' says", e.b.target.name)
    return True


def in_threes(e: Emitter, op: TileOp) -> bool:
    """Whether a reduction says that it compares three values at a time. LoweringError for one that cannot."""
    if IN_THREES not in op.attributes:
        return False
    if not takes_threes(op, e.b.target):
        raise unsupported(op, f"does not compare three values at a time, as '{IN_THREES}' says", e.b.target.name)
    return True


@rule(*INTEGERS)
def _integer(e: Emitter, op: Operation) -> None:
    function, arguments = INTEGERS[type(op)]
    if not _on_words(e, op):
        apply(e, op, function, *arguments)


@rule(*WRAPPING)
def _wrapping(e: Emitter, op: Operation) -> None:
    if not _on_words(e, op):
        apply(e, op, WRAPPING[type(op)], _overflow(op))


def _on_words(e: Emitter, op: Operation) -> bool:
    """Compute an op of words, and say whether that can be done."""
    x, y = (e.held[v] for v in op.operands)
    if type(op) not in WORDS or not isinstance(x, Tile) or not isinstance(y, Tile):
        return False
    made = byte_words.on_words(e.b, WORDS[type(op)], x, y)
    if made is not None:
        e.bind(op.results[0], made)
    return made is not None


def _overflow(op: Operation) -> str:
    attr = op.properties.get("overflowFlags")
    flags = {str(f.value) for f in attr.data} if isinstance(attr, arith.IntegerOverflowAttr) else set()
    if flags >= {"nsw", "nuw"}:
        return "no_wrap"
    return "no_signed_wrap" if "nsw" in flags else "no_unsigned_wrap" if "nuw" in flags else "none"


@rule(arith.CmpiOp)
def _compare_integers(e: Emitter, op: arith.CmpiOp) -> None:
    predicate, signedness = _CMPI[op.predicate.value.data]
    apply(e, op, compare.compare_integers, predicate, signedness)


@rule(arith.CmpfOp)
def _compare_floats(e: Emitter, op: arith.CmpfOp) -> None:
    apply(e, op, compare.are_floats_so, _CMPF[op.predicate.value.data])


@rule(arith.SelectOp)
def _select(e: Emitter, op: arith.SelectOp) -> None:
    if (ranked := number_and_ranks(op)) is not None:
        (of, ranks), lhs, rhs = ranked, e.tile(op.lhs), e.tile(op.rhs)
        number = e.tile(of)
        chosen = compare.select_by_ranks(e.b, number.registers[0], ranks, lhs.registers, rhs.registers)
        e.bind(op.result, lhs.with_registers(chosen))
        return
    condition = e.held[op.cond]
    if isinstance(condition, Tile) or isinstance(e.held[op.lhs], Value):
        apply(e, op, compare.select)
        return
    tiles, one = (e.tile(op.lhs), e.tile(op.rhs)), e.scalar(op.cond)  # one condition for all elements
    e.bind(op.result, map_tiles(lambda a, b: compare.select(e.b, one, a, b), *tiles, element=e.element(op.result)))


@rule(arith.ConstantOp)
def _scalar_constant(e: Emitter, op: arith.ConstantOp) -> None:
    value = op.value
    if isinstance(value, FloatAttr):
        element = element_name(value.type)
        e.bind(op.result, constants.number(element, encode(value.value.data, element)))
    elif isinstance(value, IntegerAttr):
        e.bind(op.result, integer(_scalar_type(value.type), value.value.data))
    else:
        raise unsupported(op, "is a tile; nv_tileaa.constant gives tiles that can be compiled", e.b.target.name)


def _scalar_type(type_: Attribute) -> IntType:
    return I64 if not isinstance(type_, IntegerType) else IntType(type_.width.data)


@rule(arith.IndexCastOp)
def _index_cast(e: Emitter, op: arith.IndexCastOp) -> None:
    source, type_ = e.scalar(op.input), _scalar_type(op.result.type)
    e.bind(op.result, e.b.cast("sext" if type_.bits > source.type.bits else "trunc", source, type_))


@rule(arith.ExtSIOp)
def _extend_signed(e: Emitter, op: arith.ExtSIOp) -> None:
    apply(e, op, conversions.exti, e.element(op.input), e.element(op.result), "signed")


@rule(arith.ExtUIOp)
def _extend_unsigned(e: Emitter, op: arith.ExtUIOp) -> None:
    apply(e, op, conversions.exti, e.element(op.input), e.element(op.result), "unsigned")


@rule(arith.TruncIOp)
def _truncate(e: Emitter, op: arith.TruncIOp) -> None:
    apply(e, op, conversions.trunci, e.element(op.input), e.element(op.result), _overflow(op))


@rule(*(OPS[name] for name in _FLOATS))
def _float(e: Emitter, op: ElementwiseOp) -> None:
    function, attributes = FLOATS[type(op)]
    arguments = [_ATTRIBUTES[a](op) for a in attributes]
    if in_pairs(e, op):
        e.bind(op.results[0], floats.on_tiles(e.b, function, [e.tile(v) for v in op.operands], *arguments))
        return
    apply(e, op, function, *arguments)


@rule(FpToFpOp, EmulatedFpToFpOp)
def _fp_to_fp(e: Emitter, op: FloatConversion) -> None:
    source, result = e.element(op.source), e.element(op.result)
    mode = keyword_of(op.rounding_mode, "nearest_even")
    tile = e.tile(op.source)
    if APART in op.attributes:
        tile = of_words(e.b, tile, [as_it_is(e.b, word) for word in words_of(e.b, tile)])
    registers = conversions.ftof_all(e.b, list(tile.registers), source, result, mode)
    e.bind(op.result, tile.with_registers(registers, result))


def _signedness(op: IntToFpOp | FpToIntOp) -> str:
    return "signed" if op.unsigned is None else "unsigned"


@rule(IntToFpOp)
def _int_to_fp(e: Emitter, op: IntToFpOp) -> None:
    result, how = e.element(op.result), (_signedness(op), keyword_of(op.rounding_mode, "nearest_even"))
    if not shape_of(op.result.type):
        apply(e, op, conversions.itof, result, *how)
        return
    tile = e.tile(op.source)
    e.bind(op.result, tile.with_registers(conversions.itof_all(e.b, tile.registers, result, *how), result))


@rule(FpToIntOp)
def _fp_to_int(e: Emitter, op: FpToIntOp) -> None:
    source, result = e.element(op.source), e.element(op.result)
    apply(e, op, conversions.ftoi, source, result, _signedness(op), op.saturating is not None)


@rule(PtrToIntOp)
def _ptr_to_int(e: Emitter, op: PtrToIntOp) -> None:
    apply(e, op, conversions.ptr_to_int)


@rule(IntToPtrOp)
def _int_to_ptr(e: Emitter, op: IntToPtrOp) -> None:
    apply(e, op, conversions.int_to_ptr)
