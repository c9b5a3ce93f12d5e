# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`recover-views`: which accesses become views', that they do the same, and what the reference makes of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support import remarks
from transforms.pointer_kernels import PRODUCTS, Body, check_same_products, product

HEAD = """\
%zero = constant <i32: 0> : tile<i32>
%one = constant <i32: 1> : tile<i32>
%t16 = constant <i32: 16> : tile<i32>
%t8 = constant <i32: 8> : tile<i32>
%n = assume bounded<0, 65536>, %n0 : tile<i32>
%m = assume bounded<0, 65536>, %m0 : tile<i32>
%ld = assume bounded<1, 65536>, %ld0 : tile<i32>
%x, %y, %z = get_tile_block_id : tile<i32>
%row = muli %x, %t8 : tile<i32>
%col = muli %y, %t16 : tile<i32>"""
PARAMETERS = "%p: tile<ptr<i32>>, %q: tile<ptr<i32>>, %n0: tile<i32>, %m0: tile<i32>, %ld0: tile<i32>"
TILE = (8, 16)


def transformed(text: str, pipeline: str = "recover-views") -> tuple[libtile.Module, list[remarks.Remark]]:
    """The module behind the pipeline, and the remarks about accesses."""
    module = libtile.parse(text, filename="kernel.mlir")
    libtile.verify(module)
    with remarks.collect() as reported:
        PassManager(parse_pipeline(pipeline)).run(module.op)
    return module, reported


def names(module: libtile.Module) -> list[str]:
    return [op.name.removeprefix("cuda_tile.") for op in module.op.walk()]


def body() -> Body:
    return Body(HEAD.split("\n"))


# -- what is assumed elsewhere ----------------------------------------------------------------------------------------

ASSUME = "%b = assume bounded<1, 8>, %n : tile<i32>"


def masked(name: str, size: str) -> str:
    """Load and store of eight floats, as far as a size allows."""
    return f"""%{name}1 = reshape {size} : tile<i32> -> tile<1xi32>
    %{name}2 = broadcast %{name}1 : tile<1xi32> -> tile<8xi32>
    %{name}m = cmpi less_than %i, %{name}2, signed : tile<8xi32> -> tile<8xi1>
    %{name}x, %{name}t = load_ptr_tko weak %q, %{name}m : tile<8xptr<f32>>, tile<8xi1> -> tile<8xf32>, token
    %{name}u = store_ptr_tko weak %q, %{name}x, %{name}m token=%{name}t
      : tile<8xptr<f32>>, tile<8xf32>, tile<8xi1> -> token
"""


@pytest.mark.parametrize(
    "behind",
    [
        f"if %c {{\n{ASSUME}\n{masked('b', '%b')}}}",
        f'assert %c, "c" : tile<i1>\n{ASSUME}\n{masked("b", "%b")}',
        f"{ASSUME}\n{masked('b', '%b')}",
    ],
    ids=["branch", "assertion", "order"],
)
def test_what_is_assumed_later_says_nothing_of_an_access(behind: str) -> None:
    text = f"""cuda_tile.module @m {{ entry @kernel(%p: tile<ptr<f32>>, %n: tile<i32>, %c: tile<i1>) {{
    %i = iota : tile<8xi32>
    %p1 = reshape %p : tile<ptr<f32>> -> tile<1xptr<f32>>
    %p2 = broadcast %p1 : tile<1xptr<f32>> -> tile<8xptr<f32>>
    %q = offset %p2, %i : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
    {masked("a", "%n")}
    {behind}
    {masked("c", "%n")}
    return }} }}"""
    module, reported = transformed(text)
    libtile.verify(module)
    guarded = [dict(r.arguments)["Guarded"] for r in reported if r.kind is remarks.Kind.PASSED]
    assert guarded[:2] == ["yes", "yes"] and guarded[2:4] == ["no", "no"]
    assert guarded[4:] == (["no", "no"] if behind.startswith("%") else ["yes", "yes"])


# -- products ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PRODUCTS)
def test_products_of_pointers_become_products_of_views_that_do_the_same(kind: str) -> None:
    module, reported = transformed(product(kind))
    assert [r.kind for r in reported] == [remarks.Kind.PASSED] * 3
    assert "load_ptr_tko" not in names(module) and "store_ptr_tko" not in names(module)
    check_same_products(kind, module)


@pytest.mark.oracle
@pytest.mark.parametrize("kind", PRODUCTS)
def test_the_reference_loads_products_by_tma_on_sm_90(kind: str) -> None:
    from oracle import run_tileiras

    tidy = "canonicalize,cse,licm,dce,synthesize-debug-info-scopes"
    found = []
    for passes in (f"recover-views{{everywhere=false}},{tidy}", *([tidy] if kind == "masked" else [])):
        module, _ = transformed(product(kind), passes)
        done = run_tileiras(libtile.write(module), "sm_90", "--remarks=memory", "--lineinfo")
        assert done.rc == 0, done.stderr
        found.append((done.stdout + done.stderr).count("TMA Load instruction"))
    assert found == ([2, 0] if kind == "masked" else [2])


# -- single accesses --------------------------------------------------------------------------------------------------


def copy(kind: str = "load", **more: object) -> str:
    """A kernel that copies a tile of p (n x m, rows `ld` apart) to its place in q, where tiles lie side by side."""
    made = body()
    given: dict[str, object] = {"starts": ("%row", "%col"), "strides": ("%ld", None), "sizes": ("%n", "%m"), **more}
    value = made.access("%p", "i32", TILE, **given)  # type: ignore[arg-type]
    made.access("%q", "i32", TILE, ("%row", "%col"), ("%m", None), ("%n", "%m"), store=value)
    return made.text(PARAMETERS)


def run_copy(module: libtile.Module, n: int, m: int, ld: int, grid: tuple[int, int]) -> np.ndarray:
    p = np.arange(1, n * ld + 1, dtype=np.int32)
    q = np.full(n * m + 1, -7, np.int32)
    libtile.run(module, "kernel", grid=grid, args=[p, q, n, m, ld], check="full")
    return q


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"unsigned": True},
        {"padding": "5"},  # no padding of views: a select
        {"padding": None},
        {"sizes": ("%n", None), "starts": ("%row", "%zero")},
    ],
)
def test_what_lies_outside_is_masked_and_tiles_beyond_the_tensor_are_not_accessed(more: dict[str, object]) -> None:
    text = copy(**more)
    module, reported = transformed(text)
    assert {r.kind for r in reported} == {remarks.Kind.PASSED} and "load_view_tko" in names(module)
    assert ("select" in names(module)) == (more.get("padding") == "5")
    for n, m, grid in ((8, 16, (1, 1)), (13, 20, (4, 3)), (1, 16, (2, 1)), (0, 16, (1, 1))):
        expected = run_copy(libtile.parse(text), n, m, 24, grid)
        assert run_copy(module, n, m, 24, grid).tobytes() == expected.tobytes(), (n, m)


def halo(kind: str = "signed") -> str:
    """A kernel that copies what lies one row and three columns before its tile: in front of the tensor that is masked,
    by a comparison of its own, or by an unsigned one."""
    made = body()
    row = made.op("subi %row, %one overflow<no_signed_wrap> : tile<i32>")
    three = made.op("constant <i32: 3> : tile<i32>")
    column = made.op(f"subi %col, {three} overflow<no_signed_wrap> : tile<i32>")
    if kind == "unsigned":
        value = made.access("%p", "i32", TILE, (row, column), ("%ld", None), ("%n", "%m"), unsigned=True)
    else:
        shape, masks = "8x16", []
        for dim, start in enumerate((row, column)):
            for predicate, bound in (("less_than", ("%n", "%m")[dim]), ("greater_than_or_equal", "%zero")):
                at = made.positions(start, dim, TILE)
                operands = f"{at}, {made.spread(bound, TILE)}, signed"
                masks.append(made.op(f"cmpi {predicate} {operands} : tile<{shape}xi32> -> tile<{shape}xi1>"))
        for mask in masks[1:]:
            masks[0] = made.op(f"andi {masks[0]}, {mask} : tile<{shape}xi1>")
        at, fill = made.address("%p", "i32", TILE, (row, column), ("%ld", None)), made.spread("%zero", TILE)
        types = f"tile<{shape}xptr<i32>>, tile<{shape}xi1>, tile<{shape}xi32> -> tile<{shape}xi32>, token"
        made.lines.append(f"%value, %t = load_ptr_tko weak {at}, {masks[0]}, {fill} : {types}")
        value = "%value"
    made.access("%q", "i32", TILE, ("%row", "%col"), ("%m", None), ("%n", "%m"), store=value)
    return made.text(PARAMETERS)


@pytest.mark.parametrize("kind", ["signed", "unsigned"])
def test_tiles_at_the_edge_whose_first_positions_are_masked_keep_their_pointers(kind: str) -> None:
    text = halo(kind)
    module, reported = transformed(text)
    assert names(module).count("load_view_tko") == names(module).count("load_ptr_tko") == 1
    assert "leaves out no first positions" in reported[0].message
    for n, m, grid in ((8, 16, (1, 1)), (13, 20, (2, 2)), (40, 50, (5, 4)), (1, 1, (1, 1))):
        expected = run_copy(libtile.parse(text), n, m, m + 3, grid)
        assert expected.any() and run_copy(module, n, m, m + 3, grid).tobytes() == expected.tobytes(), (n, m)
    kept_, said = transformed(text, "recover-views{guard=false}")
    assert "load_view_tko" not in names(kept_) and said[0].kind is remarks.Kind.MISSED


def test_a_branch_on_the_way_says_that_no_first_positions_are_masked() -> None:
    text = halo().replace("%value, %t = load", "%in = cmpi greater_than %row, %zero, signed : tile<i32> -> tile<i1>\n"
                          "%right = cmpi greater_than %col, %zero, signed : tile<i32> -> tile<i1>\n"
                          "%both = andi %in, %right : tile<i1>\nif %both {\n} else {\nreturn\n}\n"
                          "%value, %t = load")  # fmt: skip
    module, reported = transformed(text)
    assert reported[0].message == "Load through pointers made one through a view"
    assert "load_ptr_tko" not in names(module)
    expected = run_copy(libtile.parse(text), 40, 50, 53, (5, 4))
    assert run_copy(module, 40, 50, 53, (5, 4)).tobytes() == expected.tobytes()


def test_without_guards_only_what_is_inside_for_certain_is_changed() -> None:
    module, reported = transformed(copy(), "recover-views{guard=false}")
    assert "load_ptr_tko" in names(module)
    assert {r.arguments for r in reported} == {(("Reason", "it is not known that the tile starts within the tensor"),)}
    whole, _ = transformed(product("whole"), "recover-views{guard=false}")
    assert names(whole).count("load_view_tko") == 2 and "if" not in names(whole)


def kept(text: str) -> list[str]:
    """Why the accesses of a kernel keep their pointers where only operands of products in loops lose them."""
    module, reported = transformed(text, "recover-views{everywhere=false}")
    assert sum("_ptr_tko" in name for name in names(module)) == len([r for r in reported if r.kind.name == "MISSED"])
    return [dict(r.arguments)["Reason"] for r in reported if r.kind is remarks.Kind.MISSED]


FOR_NOTHING = "no product on tensor cores takes it"


def test_only_operands_of_products_in_loops_are_worth_a_view() -> None:
    assert kept(copy()) == [FOR_NOTHING] * 2
    assert kept(product("masked")) == [FOR_NOTHING]  # the store
    cast = product("masked").replace("f16", "f32")
    assert kept(cast) == [FOR_NOTHING] * 3  # no tensor core multiplies f32


def test_what_is_loaded_once_keeps_its_pointers() -> None:
    text = product("whole")
    start, end = text.index("%sum = for"), text.index("continue")
    loop = text[start : text.index("}", end) + 1]
    body_ = "\n".join(loop.splitlines()[1:-2]).replace("%i", "%zero").replace("%acc", "%none")
    last = next(line for line in body_.splitlines() if "mmaf" in line).split(" = ")[0].strip()
    once = text.replace(loop, body_).replace("%sum", last)
    assert kept(once) == ["it is not repeated"] * 2 + [FOR_NOTHING]


def test_an_index_that_is_loaded_is_no_operand_of_the_product_behind_it() -> None:
    text = product("whole").replace("f16", "i8").replace("f32", "i32").replace("0.0", "0")
    text = text.replace("mmaf", "mmai").replace("%acc :", "%acc signed signed :")
    lines = text.splitlines()
    load = next(number for number, line in enumerate(lines) if "load_ptr_tko" in line)
    pointers = lines[load].split("weak ")[1].split(" ")[0]
    lines[load:load] = [
        f"%near, %w = load_ptr_tko weak {pointers} : tile<32x32xptr<i8>> -> tile<32x32xi8>, token",
        f"%far = offset {pointers}, %near : tile<32x32xptr<i8>>, tile<32x32xi8> -> tile<32x32xptr<i8>>",
    ]
    lines[load + 2] = lines[load + 2].replace(f"weak {pointers}", "weak %far")
    assert kept("\n".join(lines)).count(FOR_NOTHING) == 2  # the index and the store


def scalar(made: Body, text: str) -> str:
    return made.op(text)


def reason(made: Body) -> str:
    _, reported = transformed(made.text(PARAMETERS))
    assert [r.kind for r in reported] == [remarks.Kind.MISSED]
    return reported[0].arguments[0][1]


def test_reasons_are_said_where_an_access_stays() -> None:
    made = body()
    made.access("%p", "i32", TILE, (made.op("muli %x, %n0 : tile<i32>"), "%col"), ("%ld", None), ("%n", "%m"))
    assert reason(made) == "addi of 32 bits may wrap around"
    made = body()
    made.access("%p", "i32", TILE, ("%row", "%col"), ("%ld0", None), ("%n", "%m"))
    assert reason(made) == "a stride is not known to be positive"
    made = body()
    made.access("%p", "i32", TILE, ("%row", "%col"), ("%ld", None), ("%n", "%m"), predicate="not_equal")
    assert reason(made) == "the mask compares for equality"
    made = body()
    far = made.op("constant <i32: 65536> : tile<i32>")
    made.access("%p", "i32", TILE, ("%zero", "%zero"), ("%ld", None), (far, "%m"), predicate="greater_than")
    assert reason(made) == "the mask leaves out the first positions of each tile"
    made = body()
    index = made.op("iota : tile<8xi32>")
    square = made.op(f"muli {index}, {index} : tile<8xi32>")
    base = made.spread("%p", (8,), "ptr<i32>")
    at = made.op(f"offset {base}, {square} : tile<8xptr<i32>>, tile<8xi32> -> tile<8xptr<i32>>")
    made.lines.append(f"%v, %t = load_ptr_tko weak {at} : tile<8xptr<i32>> -> tile<8xi32>, token")
    assert reason(made) == "an index is multiplied by another"


def test_strong_accesses_stay() -> None:
    text = copy().replace("load_ptr_tko weak", "load_ptr_tko relaxed device")
    _, reported = transformed(text)
    assert reported[0].arguments == (("Reason", "the access is not weak"),)


# -- random ones ------------------------------------------------------------------------------------------------------


def random_kernel(rng: random.Random) -> str:
    """Loads and stores at random places: block ids, counters of loops, constants, and mixtures of them."""
    made = body()
    loop = rng.choice(["for", "for", "loop", ""])
    by_element = loop == "for" and rng.random() < 0.5
    if loop == "for":
        bound, step = (
            ("%m", "%t16")
            if by_element
            else (made.op("divi %m, %t16 signed rounding<positive_inf> : tile<i32>"), "%one")
        )
        made.lines.append(f"for %i in (%zero to {bound}, step {step}) : tile<i32> {{")
    elif loop == "loop":
        made.lines.append("loop iter_values(%i = %zero) : tile<i32> -> tile<i32> {")
        made.lines.append("%done = cmpi greater_than_or_equal %i, %one, signed : tile<i32> -> tile<i1>")
        made.lines.append("if %done {\nbreak %i : tile<i32>\n}")
    for _ in range(rng.randint(1, 3)):
        column = rng.choice(["%col", "%zero"])
        if loop:
            at = "%i" if by_element else made.op("muli %i, %t16 overflow<no_signed_wrap> : tile<i32>")
            column = rng.choice([column, at, at])
        row = rng.choice(["%row", "%row", "%zero"])
        for shift in (0, 1):
            if rng.random() < 0.25:
                distance = made.op(f"constant <i32: {rng.choice([1, 3, 8, 16])}> : tile<i32>")
                moved = made.op(f"addi {(row, column)[shift]}, {distance} overflow<no_signed_wrap> : tile<i32>")
                row, column = (moved, column) if shift == 0 else (row, moved)
        unsigned = rng.random() < 0.4
        if unsigned and rng.random() < 0.4:
            back = rng.choice(["%t8", "%one", "%t16"])
            row = made.op(f"subi {row}, {back} overflow<no_signed_wrap> : tile<i32>")
        if unsigned and rng.random() < 0.2:
            column = made.op(f"subi {column}, %one overflow<no_signed_wrap> : tile<i32>")
        more = {"unsigned": unsigned, "predicate": rng.choice(["less_than", "less_than", "less_than_or_equal"])}
        sizes = ("%n", "%m")
        if more["predicate"] == "less_than_or_equal":
            sizes = tuple(made.op(f"subi {size}, %one overflow<no_signed_wrap> : tile<i32>") for size in sizes)  # type: ignore[assignment]
            more["unsigned"] = False
            if unsigned:
                row, column = "%row", "%col"
        strides: tuple[str | None, str | None] = rng.choice([("%ld", None), ("%ld", None), (None, "%n")])
        padding = rng.choice(["0", "0", "9", None])
        value = made.access("%p", "i32", TILE, (row, column), strides, sizes, padding=padding or "0", **more)  # type: ignore[arg-type]
        made.access("%q", "i32", TILE, (row, column), strides, sizes, store=value, token=f"%t{value[2:]}", **more)  # type: ignore[arg-type]
    if loop == "for":
        made.lines.append("continue\n}")
    elif loop == "loop":
        made.lines.append("%next = addi %i, %one : tile<i32>\ncontinue %next : tile<i32>\n}")
    return made.text(PARAMETERS)


def check_random(seed: int) -> int:
    """Compare a random kernel's memory before and behind the pass; returns how many accesses it has changed."""
    rng = random.Random(seed)
    text = random_kernel(rng)
    module, reported = transformed(text)
    more, _ = transformed(text, "recover-views,canonicalize,cse,licm,dce")
    scalars, _ = transformed(text, "strength-reduce{min-ops=1},canonicalize,licm,cse,dce")
    spread, _ = transformed(text, "tile-addresses")
    n, m = rng.choice([(8, 16), (13, 21), (20, 40), (1, 1), (16, 32)])
    ld = m + rng.choice([0, 3])
    memory = []
    for version in (libtile.parse(text), module, more, scalars, spread):
        p = np.arange(1, max(n * ld, n * m) + 1, dtype=np.int32)
        q = np.full_like(p, -7)
        libtile.run(version, "kernel", grid=(3, 3), args=[p, q, n, m, ld], check="full,-race")
        memory.append(q.tobytes())
    assert memory.count(memory[0]) == len(memory), f"seed {seed}\n{text}"
    return sum(r.kind is remarks.Kind.PASSED for r in reported)


def test_random_accesses_do_the_same() -> None:
    assert sum(check_random(seed) for seed in range(6)) > 10


@pytest.mark.slow
def test_many_random_accesses_do_the_same() -> None:
    for seed in range(6, 300):
        check_random(seed)
