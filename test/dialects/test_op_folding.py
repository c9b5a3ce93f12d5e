# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ops of the inner dialects and of arith give for constants: each folds to what the interpreter computes, to the
bit, or is on a list that says why it does not."""

from __future__ import annotations

import random

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.traits import ConstantLike, IsTerminator, MemoryEffect, NoMemoryEffect

import libtile
from dialects.op_programs import names
from libtile.asm import parse
from libtile.asm.module import Module
from libtile.dialects import arith, tensor
from libtile.dialects.effect_traits import ChangesDestination
from libtile.dialects.folding import computes
from libtile.dialects.nv_tileaa.arithmetic import ROWS
from libtile.ir.tile_form import OP_CLASSES
from libtile.passes.pipeline import PassItem, make_pass

SPEC = "attributes {kernel_spec = #nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>}"
AA, AS = "nv_tileaa.", "nv_tileas."
FLOATS = "floats are not computed with: a target rounds as its instructions do"
TILES = "what it gives is another number for each element: cheaper computed than held"
HANDLE = "gives memory, an order or a turn, of which there are no constants"
LAUNCH = "what a launch decides"
LARGE = "a whole product or count, which no compilation does element by element"
NOT_FOLDED: dict[str, str] = {
    **{AA + name: FLOATS for name, row in ROWS.items() if row.kind == "float"},
    **dict.fromkeys([AA + n for n in ("fp_to_fp", "emulated_fp_to_fp", "int_to_fp", "fp_to_int")], FLOATS),
    AA + "make_range": TILES,
    **dict.fromkeys([AA + n for n in ("dot", "scaled_dot", "conv_dot", "histogram")], LARGE),
    **dict.fromkeys([AS + n for n in ("dot", "scaled_dot")], LARGE),
    **dict.fromkeys([AA + n for n in ("get_program_id", "get_num_programs", "get_cta_rank")], LAUNCH),
    AA + "is_valid_program_id": LAUNCH,
    **dict.fromkeys([AA + n for n in ("addptr", "int_to_ptr", "ptr_to_int", "make_memref", "block_tile", "conv_tile",
                                      "get_global", "create_mem_token", "join_mem_token")], HANDLE),
    AS + "async.pipeline.inc_iter": HANDLE,
    AA + "get_dim_size": "has no operand that could be constant: canonicalize-tileaa takes the size that the type has",
    "arith.cmpf": FLOATS,
}  # fmt: skip
"""Ops that only compute, and do not fold."""


def computing() -> dict[str, type[Operation]]:
    """Every op of the inner dialects, arith and tensor that does nothing but compute a value."""
    classes = {name: OP_CLASSES[name] for name in names()} | {cls.name: cls for cls in (*arith.OPS, *tensor.OPS)}
    found = {}
    for name, cls in classes.items():
        traits = cls.get_irdl_definition().traits if hasattr(cls, "get_irdl_definition") else cls.traits
        effects = [trait for trait in traits if isinstance(trait, MemoryEffect)]
        constant = any(isinstance(trait, ConstantLike | IsTerminator) for trait in traits)
        if not constant and any(isinstance(effect, NoMemoryEffect | ChangesDestination) for effect in effects):
            found[name] = cls
    return found


def test_every_op_that_only_computes_folds_or_says_why_not() -> None:
    silent = {name for name, cls in computing().items() if not _computes(cls)}
    assert silent == set(NOT_FOLDED)


def _computes(cls: type[Operation]) -> bool:
    return computes(cls.__new__(cls))


# -- values -----------------------------------------------------------------------------------------------------------

WIDTHS = (1, 8, 16, 32, 64)
BINARY = ("addi", "subi", "muli", "andi", "ori", "xori", "minsi", "minui", "maxsi", "maxui")
DIVISIONS = ("divsi", "divui", "ceildivsi", "ceildivui", "floordivsi", "remsi", "remui")
SHIFTS = ("shli", "shrsi", "shrui")
PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
SLICE = "{offsets = array<i64: 1>}"


def tile(shape: str, bits: int) -> str:
    return f"tile<{shape}xi{bits}>"


def cases(bits: int) -> list[tuple[str, str, str]]:
    """Ops on `%a` and `%b`, four numbers of a width each, `%s` and `%u`, of one number in all of them, and the scalar
    `%n`: the op, its text, and the type of its result."""
    t, i, c = tile("4", bits), f"i{bits}", tile("4", 1)
    found = [(f"arith.{op}", f"arith.{op} %a, %b : {t}", t) for op in BINARY]
    found += [(f"arith.{op}", f"arith.{op} %a, %d : {t}", t) for op in DIVISIONS if bits > 1]
    found += [(f"arith.{op}", f"arith.{op} %a, %h : {t}", t) for op in SHIFTS if bits > 1]
    found += [("arith.cmpi", f"arith.cmpi {p}, %a, %b : {t}", c) for p in PREDICATES]
    found += [("arith.select", f"arith.select %c, %a, %b : {c}, {t}", t)]
    found += [(f"arith.ext{s}i", f"arith.ext{s}i %a : {t} to tile<4xi64>", tile("4", 64)) for s in "su" if bits < 64]
    found += [("arith.trunci", f"arith.trunci %a : {t} to tile<4xi8>", tile("4", 8))] if bits > 8 else []
    found += [("arith.index_cast", f"arith.index_cast %n : {i} to index", "index")] if bits > 1 else []
    found += [(AA + op, f"nv_tileaa.{op} %a, %b : {t}, {t} -> {t}", t) for op in ("mulhiui", "mulhisi") if bits > 8]
    wide, square, one = tile("8", bits), tile("2x2", bits), tile("1", bits)
    found += [
        (AA + "splat", f"nv_tileaa.splat %n : {i} -> {t}", t),
        (AA + "broadcast", f"nv_tileaa.broadcast %o : {one} -> {t}", t),
        (AA + "expand_dims", f"nv_tileaa.expand_dims %a {{axes = array<i64: 0>}} : {t} -> {tile('1x4', bits)}",
         tile("1x4", bits)),
        (AS + "expand_dims", f"nv_tileas.expand_dims %a {{axes = array<i64: 0>}} : {t} -> {tile('1x4', bits)}",
         tile("1x4", bits)),
        (AA + "view", f"nv_tileaa.view %a : {t} -> {square}", square),
        (AS + "view", f"nv_tileas.view %a : {t} -> {square}", square),
        (AS + "reinterpret", f"nv_tileas.reinterpret %a : {t} -> {t}", t),
        (AS + "convert_layout", f"nv_tileas.convert_layout %a : {t} -> {t}", t),
        (AS + "shuffle", f"nv_tileas.shuffle %a : {t} -> {t}", t),
        (AA + "bitcast", f"nv_tileaa.bitcast %a : {t} -> {t}", t),
        (AA + "assume", f"nv_tileaa.assume %a {{predicates = [#nv_tileaa.div_by<1>]}} : {t} -> {t}", t),
        (AA + "permute", f"nv_tileaa.permute %s {{permutation = array<i64: 0>}} : {t} -> {t}", t),
        (AA + "extract", f"nv_tileaa.extract %s[%zero] : {t}, index -> {tile('2', bits)}", tile("2", bits)),
        (AA + "extract_slice", f"nv_tileaa.extract_slice %s {SLICE} : {t} -> {tile('2', bits)}", tile("2", bits)),
        (AS + "extract_slice", f"nv_tileas.extract_slice %s {SLICE} : {t} -> {tile('2', bits)}", tile("2", bits)),
        (AA + "insert_slice", f"nv_tileaa.insert_slice %o1[%zero], %s : {one}, {t}, index -> {t}", t),
        (AS + "insert_slice", f"nv_tileas.insert_slice %o1, %s {SLICE} : {one}, {t} -> {t}", t),
        (AA + "cat", f"nv_tileaa.cat %s, %s2 {{dim = 0}} : {t}, {t} -> {wide}", wide),
        ("tensor.extract", f"tensor.extract %s[%zero] : tensor<4xi{bits}>", i),
    ]  # fmt: skip
    return found


def numbers(rng: random.Random, bits: int) -> dict[str, list[int]]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    draw = [low, high, 0, -1, *(rng.randint(low, high) for _ in range(8))]
    same = rng.randint(low, high)
    return {
        "a": rng.sample(draw, 4), "b": rng.sample(draw, 4),
        "s": [same] * 4, "s2": [same] * 4, "o": [same], "o1": [same],
        "d": [rng.choice([1, 3, min(high, 7), max(low, -5)]) for _ in range(4)],
        "h": [rng.randrange(min(bits, high + 1) if bits > 1 else 1) for _ in range(4)],
    }  # fmt: skip


def dense(values: list[int], bits: int) -> str:
    shown = ["true" if v else "false" for v in values] if bits == 1 else [str(v) for v in values]
    return f"dense<[{', '.join(shown)}]> : !cuda_tile.tile<{len(values)}xi{bits}>"


def kernel(text: str, result: str, bits: int, rng: random.Random) -> str:
    """A kernel that computes an op of constants, and prints what it gives."""
    lines = [
        f"%{name} = nv_tileaa.constant {{value = {dense(values, bits)}}} : {tile(str(len(values)), bits)}"
        for name, values in numbers(rng, bits).items()
    ]
    lines.append(f"%c = nv_tileaa.constant {{value = {dense([1, 0, 0, 1], 1)}}} : {tile('4', 1)}")
    number = (
        rng.choice(["true", "false"])
        if bits == 1
        else f"{rng.randint(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)} : i{bits}"
    )
    lines += [f"%n = arith.constant {number}", "%zero = arith.constant 0 : index", f"%r = {text}"]
    lines.append(f'nv_tileaa.print %r {{format = "%ld"}} : {result}')
    return f"nv_tileaa.func @k() {SPEC} {{\n" + "\n".join(lines) + "\nnv_tileaa.return\n}"


def printed(module: ModuleOp) -> str:
    return libtile.run(Module(module), args=[], check="full").output


def fold_all(module: ModuleOp, pass_name: str) -> None:
    make_pass(PassItem(pass_name, ())).apply(Context(), module)


@pytest.mark.parametrize("bits", WIDTHS)
def test_what_folds_is_what_the_interpreter_computes(bits: int) -> None:
    rng = random.Random(bits)
    for name, text, result in cases(bits):
        given = kernel(text, result, bits, rng)
        module = parse(given)
        assert isinstance(module, ModuleOp)
        assert name in {op.name for op in module.walk()}, text
        want = printed(module)
        fold_all(module, "canonicalize-tileaa")
        left = [op.name for op in module.walk() if op.name == name and not _is_of_constant(op)]
        assert not left, given
        assert printed(module) == want, given


def _is_of_constant(op: Operation) -> bool:
    """A splat of a constant is how a tile of one number is held."""
    return op.name == "nv_tileaa.splat"


def test_every_op_that_folds_is_computed_here() -> None:
    seen = {name for bits in WIDTHS for name, _, _ in cases(bits)}
    assert {name for name, cls in computing().items() if _computes(cls)} == seen


def test_sizes_of_memory_that_are_known_are_constants() -> None:
    memory = "!nv_tileaa.memref<?x16xf32, 1>"
    text = f"""nv_tileaa.func @k(%p: !nv_tileaa.ptr<f32, 1>, %n: index, %s: index) {SPEC} {{
      %m = nv_tileaa.make_memref %p, %n, %s, %s : !nv_tileaa.ptr<f32, 1>, index, index, index -> {memory}
      %rows = nv_tileaa.get_dim_size %m {{dim = 0}} : {memory} -> index
      %columns = nv_tileaa.get_dim_size %m {{dim = 1}} : {memory} -> index
      nv_tileaa.print %rows, %columns {{format = "%ld %ld"}} : index, index
      nv_tileaa.return
    }}"""
    module = parse(text)
    assert isinstance(module, ModuleOp)
    fold_all(module, "canonicalize-tileaa")
    assert "nv_tileaa.get_dim_size" not in {op.name for op in module.walk()}
    given = [np.zeros(16, np.float32), 5, 1]
    assert libtile.run(Module(module), args=given).output == libtile.run(parse(text), args=given).output == "5 16"
