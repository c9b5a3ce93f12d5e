# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every op, for every element type and many shapes and attributes, through the whole compiler: simulator = interpreter.

The rows are made by the modules beside this one, from the dialect's declarations where these say enough. Default runs
take some rows of each op (all of its element types), on one target each; `-m slow` takes all rows, on all targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain

import pytest

import libtile
from libtile.spec import default_spec
from libtile.support.diagnostics import LoweringError
from libtile.targets import target
from matrix import elementwise, flow, memory, products, structure
from matrix.kernel import BLOCKS, Input, Result, Row, Writer, build, differences, problems, run, tile

pytestmark = pytest.mark.usefixtures("verified_passes")

SPEC = default_spec()
TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120")
SHAPES = ((), (1,), (8,), (128,), (512,), (32, 64), (64, 2), (4, 4, 8), (2, 1, 4, 16))
"""Shapes of elementwise ops: fewer elements than lanes, one per thread, several."""

KERNEL_ROWS = 40
"""Rows that share a kernel."""

TABLES = {**structure.TABLE, **products.TABLE, **memory.TABLE, **flow.TABLE}

PART_OF = {
    "entry": "every row is part of one",
    "return": "every row's kernel ends with it",
    "module": "every row is in one",
    "global": "the rows of get_global",
    "yield": "the rows of if, reduce and scan",
    "break": "the rows of loop",
    "continue": "the rows of for and loop",
    "make_tensor_view": "the rows of load_view_tko",
    "make_partition_view": "the rows of load_view_tko",
    "make_strided_view": "the rows of load_view_tko",
    "make_gather_scatter_view": "the rows of load_view_tko",
}
"""Ops without rows of their own, and where they are tested."""

NOT_RUN = {
    "preview$call": "the callee is outside of the module",
}

_ATOMIC = frozenset(memory.MODES)
_BYTES = frozenset({"f8E4M3FN", "f8E5M2", "f8E8M0FNU", "fnv8E5M3FNU"})
_NOT_COMBINED = frozenset({"f4E2M1FN", "fnv8E5M3FNU", "ptr"})
NOT_ADMITTED: dict[str, tuple[frozenset[str], str]] = {
    "select": (frozenset({"f4E2M1FN"}), "the verifier refuses sub-byte floats"),
    "itof": (frozenset({"f8E8M0FNU"}), "the verifier refuses it"),
    "pack": (_BYTES, "the verifier refuses types of 8 bits"),
    "unpack": (_BYTES, "the verifier refuses types of 8 bits"),
    "reduce": (_NOT_COMBINED, "f4 has no scalar tiles, pointers and fnv8E5M3FNU no identity"),
    "scan": (_NOT_COMBINED, "f4 has no scalar tiles, pointers and fnv8E5M3FNU no identity"),
    "load_ptr_tko": (frozenset({"i4", "f4E2M1FN"}), "half of a byte has no address"),
    "store_ptr_tko": (frozenset({"i4", "f4E2M1FN"}), "half of a byte has no address"),
    "load_view_tko": (frozenset({"i4", "ptr"}), "not an element of a tensor view"),
    "store_view_tko": (frozenset({"i4", "ptr"}), "not an element of a tensor view"),
    "atomic_rmw_tko": (frozenset(structure.NUMBERS) - _ATOMIC, "no modification of such locations"),
    "atomic_red_view_tko": (frozenset({*structure.NUMBERS, "ptr"}) - _ATOMIC, "no modification of such locations"),
    **{
        op: (frozenset({*structure.NUMBERS, "ptr"}) - _ATOMIC, "no reduction of such elements")
        for op in memory.TABLE
        if op.startswith("multimem")
    },
    "atomic_cas_tko": (frozenset(structure.NUMBERS) - {"i32", "i64", "f32", "f64"}, "32 and 64 bits only"),
    "get_tensor_shape": (frozenset({"i1"}), "no size of the tensor fits"),
    "get_index_space_shape": (frozenset({"i1"}), "no size of the view fits"),
    "print_tko": (frozenset(elementwise.NUMBERS) | {"ptr"}, "what is printed: test/lowering/test_messages.py"),
    "assert": (frozenset({"i1"}), "its operand is a constant here; test/lowering/test_messages.py"),
    "assume": (frozenset(elementwise.NUMBERS) - {"i8", "i16", "i32", "i64"} | {"ptr"}, "predicates are of integers"),
}
"""Element types that an op's declaration admits and its rows lack, and why."""


@cache
def rows(op: str) -> tuple[Row, ...]:
    """All rows of an op, elementwise ones in the order of shapes."""
    if op in elementwise.OPS:
        return tuple(chain(*(elementwise.rows(op, shape) for shape in SHAPES), elementwise.sign_rows(op)))
    return tuple(TABLES[op]())


OPS = (*elementwise.OPS, *TABLES)


def some(op: str, count: int = 16) -> list[Row]:
    """Rows that have all of the op's element types, and others at regular distances, in a changing order of shapes."""
    if op in elementwise.OPS:
        given = elementwise.choices(op)
        every = [elementwise.row(op, c, SHAPES[i % len(SHAPES)]) for i, c in enumerate(given)]
        # A tile of f4E2M1FN has an even number of elements.
        every = [elementwise.row(op, c, (8,)) if "f4E2M1FN" in r.elements else r for c, r in zip(given, every)]
        every += elementwise.sign_rows(op)
    else:
        every = list(rows(op))
    chosen, seen = [], set()
    for row in every:
        if not row.elements <= seen:
            chosen.append(row)
            seen |= row.elements
    step = max(len(every) // max(count - len(chosen), 1), 1) | 1
    return list({id(r): r for r in [*chosen, *every[::step]]}.values())


def kernels(op_rows: list[Row] | tuple[Row, ...]) -> Iterator[list[Row]]:
    for start in range(0, len(op_rows), KERNEL_ROWS):
        yield list(op_rows[start : start + KERNEL_ROWS])


def check(op_rows: list[Row] | tuple[Row, ...], gpu_name: str) -> None:
    able = [row for row in op_rows if not row.feature or target(gpu_name).has(row.feature)]
    for row in op_rows:
        if row not in able:
            with pytest.raises(LoweringError, match=f"do not exist on {gpu_name}"):
                libtile.compile(build([row]).text.encode(), gpu_name, emit="llvm")
    op_rows = able
    found = [p for kernel in kernels(op_rows) for p in problems(kernel, gpu_name)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("op", "gpu_name"), [(op, TARGETS[i % len(TARGETS)]) for i, op in enumerate(OPS)])
def test_an_op_gives_what_the_interpreter_gives(op, gpu_name):
    check(some(op), gpu_name)


@pytest.mark.slow
@pytest.mark.parametrize("gpu_name", TARGETS)
@pytest.mark.parametrize("op", OPS)
def test_an_op_gives_what_the_interpreter_gives_in_every_use(op, gpu_name):
    check(rows(op), gpu_name)


# -- the table is complete ------------------------------------------------------------------------------------------


def test_every_op_has_rows_or_a_reason():
    listed = [*OPS, *PART_OF, *NOT_RUN]
    assert len(listed) == len(set(listed))
    assert set(listed) == {name for name, op in SPEC.ops.items() if not SPEC.is_testing_op(op)}


@pytest.mark.parametrize("op", OPS)
def test_rows_have_every_element_type_that_the_declaration_admits(op):
    spec = SPEC.ops[op]
    admitted = {
        element.split("<")[0]
        for member in (*spec.operands, *spec.results)
        if not SPEC.constraints[member.constraint].types or member.constraint == "tile"
        for element in elementwise.element_types(spec, member.constraint)
    }
    tested = frozenset(chain.from_iterable(row.elements for row in rows(op)))
    lacking, _ = NOT_ADMITTED.get(op, (frozenset(), ""))
    # Masks and indices are operands of every such row.
    assert admitted - tested - lacking <= {"i1", "i32", "i64", "i8", "i16"} & _index_elements(op)
    assert not tested & lacking, "listed as not admitted, but tested"


def _index_elements(op: str) -> frozenset[str]:
    """Element types of operands that are no values: masks, indices and sizes."""
    spec = SPEC.ops[op]
    if spec.group in ("Memory", "Atomics", "Views") or op in ("extract", "insert", "if"):
        return frozenset({"i1", "i8", "i16", "i32", "i64"})
    return frozenset()


@pytest.mark.parametrize("op", ["reduce", "addf", "load_view_tko"])
def test_default_runs_have_the_element_types_of_all_rows(op):
    every = frozenset(chain.from_iterable(row.elements for row in rows(op)))
    assert frozenset(chain.from_iterable(row.elements for row in some(op))) == every


def test_a_wrong_result_is_found_and_described():
    """The comparison itself: a result that claims to be another op's."""

    def body(w: Writer, x: str, y: str) -> list[str]:
        return [w.let(f"addi {x}, {y} : {tile('i32', (8,))}")]

    row = Row("addi", "wrong", (Input("i32", (8,), 2), Input("i32", (8,), 3)), (Result("i32", (8,)),), body)
    program = build([row])
    want = run(program, "interpreter")
    assert differences(program, want, [want[0].copy()]) == []
    wrong = want[0].copy()
    wrong[3] += 1
    (problem,) = differences(program, want, [wrong])
    assert "addi wrong: element 3 of i32[8]" in problem and f"1 of {8 * BLOCKS} differ" in problem
