# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Declarations, addresses, constants, sizes and launches beyond every limit: an error of ours, with its line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from libtile.simulator import LaunchError, PtxError, SimulationFault, run_ptx
from libtile.simulator.launch import Batches, _Dims
from libtile.simulator.parser import parse_ptx
from libtile.simulator.types import TYPES

from .ptx import module, run

FULL = 2**63 - 1


def zeros() -> np.ndarray:
    return np.zeros(64, dtype=np.uint32)


def refused(body: str, prelude: str = "") -> PtxError:
    with pytest.raises(PtxError) as caught:
        run(body, zeros(), prelude=prelude)
    assert caught.value.line > 1
    return caught.value


@pytest.mark.parametrize("size", [10**9, FULL, 2**64, 10**30, -1])
@pytest.mark.parametrize("space", ["shared", "local", "const", "global"])
def test_a_variable_that_no_memory_holds_is_refused_at_its_line(space: str, size: int) -> None:
    declaration = f".{space} .align 4 .b8 v[{size}];"
    error = refused(declaration) if space == "local" else refused("", declaration)
    assert "v has -1 elements" in str(error) if size < 0 else "v is too large" in str(error)


def test_variables_that_are_too_large_together_are_refused() -> None:
    assert "variables take more than" in str(refused(".local .b8 a[400000]; .local .b8 b[400000];"))
    assert "variables take more than" in str(refused("", "\n".join(f".const .b8 c{i}[60000];" for i in range(3))))


@pytest.mark.parametrize("align", [0, 3, -4, 2**40])
def test_an_alignment_that_is_none_is_refused(align: int) -> None:
    assert "an alignment is a power of two" in str(refused("", f".global .align {align} .b8 v[4];"))


ADDRESSES = [
    0,
    2**24,
    2**32 - 1,
    2**40 - 4,
    2**62,
    FULL,
    FULL - 3,
    FULL - 7,
    2**63,
    2**64 - 8,
    2**64 - (1 << 24),
    2**64 - 1,
]


@pytest.mark.parametrize("checks", ["off", "full"])
@pytest.mark.parametrize("space", ["local", "shared", "global", "const", "shared::cluster", ""])
def test_an_access_at_any_address_is_a_fault_and_nothing_else(space: str, checks: str) -> None:
    name = f".{space}" if space else ""
    for address in ADDRESSES:
        if address in (0, 2**24) and space in ("local", "shared", "const", "shared::cluster"):
            continue  # where their variables are, of the first CTA of a cluster
        for access in (f"ld{name}.u8 %r1, [%rd1];", f"ld{name}.v4.u32 {{%r1, %r2, %r3, %r4}}, [%rd1];"):
            with pytest.raises(SimulationFault) as caught:
                run(f".local .b8 l[16]; mov.u64 %rd1, {address}; {access}", zeros(), checks=checks)
            assert caught.value.line


CONSTANTS = {
    "9" * 5000: "a number of 5000 digits",
    "0x" + "f" * 5000: "a number of 5002 digits",
    "(" * 5000 + "1" + ")" * 5000: "nested more than",
    "-" * 5000 + "1": "nested more than",
    "1 << 10000000000": "a shift by",
    "1 >> -1": "a shift by",
    "1 / 0": "division by zero",
    "*".join(["0xffffffffffffffff"] * 9): "a constant of more than",
}


@pytest.mark.parametrize("number", range(len(CONSTANTS)))
def test_a_constant_beyond_every_limit_is_refused(number: int) -> None:
    constant, message = list(CONSTANTS.items())[number]
    assert message in str(refused("", f".global .u32 g = {constant};"))
    assert message in str(refused(f".local .b8 l[{constant}];"))


def test_initialisers_and_blocks_nest_to_a_limit() -> None:
    assert "braces" in str(refused("", ".global .u32 g[1] = " + "{" * 5000 + "1" + "}" * 5000 + ";"))
    assert "nested more than" in str(refused("{" * 3000 + "}" * 3000))
    run("{" * 30 + "}" * 30, zeros())


@pytest.mark.parametrize("text", ["\\x", "\\u1234"])
def test_a_text_that_has_no_bytes_is_refused(text: str) -> None:
    assert "an escape that is none" in str(refused("", f'.global .b8 g[] = "{text}";'))


@pytest.mark.parametrize(
    "options",
    [
        {"grid": "a"}, {"grid": None}, {"grid": 1.5}, {"grid": (1, 65536)}, {"grid": 2**31}, {"block": (2**40, 2**40)},
        {"block": 10**400}, {"cluster": 17}, {"cluster": "x"}, {"dynamic_shared": 1.5}, {"dynamic_shared": None},
        {"max_instructions": "x"}, {"max_instructions": -1}, {"order": -1}, {"order": 1.5}, {"order": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_a_launch_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(LaunchError):
        run_ptx(module(""), "k", **{"args": [zeros()], **options})


def test_clusters_of_no_cta_are_refused() -> None:
    with pytest.raises(LaunchError, match="asks for clusters"):
        run("", zeros(), directives=".reqnctapercluster 0")


def test_the_largest_grid_takes_no_list_of_its_ctas() -> None:
    function = parse_ptx(module("")).functions["k"]
    batches = Batches(_Dims(function, (2**31 - 1, 65535, 65535), (1024, 1, 1), (1, 1, 1)), 16)
    assert batches[len(batches) - 1][-1] == (2**31 - 2, 65534, 65534)
    with pytest.raises(SimulationFault, match="trap"):
        run("trap;", zeros(), grid=(2**31 - 1, 65535, 65535))


def test_batches_hold_every_cta_once_x_fastest() -> None:
    function = parse_ptx(module("")).functions["k"]
    batches = Batches(_Dims(function, (4, 3, 2), (1024, 1, 1), (2, 1, 1)), 16)
    ctas = [cta for batch in batches for cta in batch]
    assert len(ctas) == len(set(ctas)) == 24
    assert ctas[:6] == [(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0), (0, 1, 0), (1, 1, 0)]


PRINTF = ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);"
PRINT = """.local .align 8 .b8 l[16]; mov.u64 %rd5, l; st.local.u64 [%rd5], -1; cvta.local.u64 %rd5, %rd5;
mov.u64 %rd3, f; cvta.global.u64 %rd3, %rd3;
{ .param .b64 p0; .param .b64 p1; .param .b32 r; st.param.b64 [p0], %rd3; st.param.b64 [p1], %rd5;
call.uni (r), vprintf, (p0, p1); ld.param.b32 %r1, [r]; }"""


@pytest.mark.parametrize("text", ["%999999999d", "%.999999999f", "%99999999999999999999d"])
def test_a_width_of_printf_has_a_limit(text: str) -> None:
    prelude = f'{PRINTF} .global .align 1 .b8 f[64] = "{text}";'
    with pytest.raises(SimulationFault, match="printf with a width or precision above 65536"):
        run(PRINT, zeros(), prelude=prelude, block=1)


def test_a_negative_precision_of_printf_is_as_none() -> None:
    done = run(PRINT, zeros(), prelude=f'{PRINTF} .global .align 1 .b8 f[64] = "%.*d";', block=1)
    assert done.output == "-1"


ALIGNED = """.extern .func (.param .b64 r) __cuda_syscall_aligned_malloc (.param .b64 size, .param .b64 align);
.extern .func free (.param .b64 p);"""
ALLOCATE = """{{ .param .b64 a; .param .b64 b; .param .b64 r; st.param.b64 [a], {size}; st.param.b64 [b], {align};
call.uni (r), __cuda_syscall_aligned_malloc, (a, b); ld.param.b64 %rd2, [r]; }}"""
RELEASE = "{ .param .b64 a; st.param.b64 [a], %rd2; call.uni free, (a); }"
KEEP = """ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 8; add.u64 %rd1, %rd0, %rd1;
st.global.u64 [%rd1], %rd2;"""


@pytest.mark.parametrize("align", [1, 16, 256, 4096])
def test_aligned_malloc_gives_each_thread_memory_at_its_alignment(align: int) -> None:
    out = np.zeros(8, dtype=np.uint64)
    body = ALLOCATE.format(size=40, align=align) + KEEP + "st.u64 [%rd2+32], %rd2; ld.u64 %rd3, [%rd2+32];" + RELEASE
    run(body, out, prelude=ALIGNED, block=8)
    assert not (out % np.uint64(align)).any()
    assert (np.diff(np.sort(out)) >= 40).all()


@pytest.mark.parametrize(("size", "align"), [(2**40, 16), (2**64 - 1, 16), (16, 0), (16, 24), (16, 2**63)])
def test_aligned_malloc_gives_null_where_there_is_no_such_memory(size: int, align: int) -> None:
    out = np.ones(1, dtype=np.uint64)
    run(ALLOCATE.format(size=size, align=align) + KEEP + RELEASE, out, prelude=ALIGNED, block=1)
    assert out[0] == 0


@pytest.mark.parametrize("processes", [1, None])
def test_threads_of_all_ctas_get_memory_of_their_own(processes: int | None) -> None:
    body = ALLOCATE.format(size=40, align=16) + KEEP.replace("%tid.x", "%ctaid.x") + "st.u64 [%rd2+32], %rd2;"
    out = np.zeros(256, dtype=np.uint64)
    run(body, out, prelude=ALIGNED, block=1, grid=256, processes=processes)
    assert (np.diff(np.sort(out)) >= 40).all()


def test_the_heap_of_a_device_is_not_parted_among_processes() -> None:
    out = np.zeros(4096, dtype=np.uint64)
    body = ALLOCATE.format(size=40, align=16) + KEEP
    with pytest.raises(LaunchError, match="memory of the device's heap, which processes do not share: give one"):
        run(body, out, prelude=ALIGNED, block=1024, grid=16, processes=2)


def test_memory_of_aligned_malloc_is_checked() -> None:
    got = ALLOCATE.format(size=40, align=64)
    for body, kind in (
        (got + "ld.u64 %rd3, [%rd2];", "uninitialized"),
        (got + "st.u64 [%rd2+40], %rd3;", "out-of-bounds"),
        (got + RELEASE + "st.u64 [%rd2], %rd3;", "freed-access"),
        (got + RELEASE + RELEASE, "freed-access"),
    ):
        with pytest.raises(SimulationFault) as caught:
            run(body, zeros(), prelude=ALIGNED, block=1)
        assert caught.value.kind == kind


@pytest.mark.parametrize("size", [2**20, 2**31, 2**32 - 16])
@pytest.mark.parametrize("direction", ["global to shared", "shared to global"])
def test_a_bulk_copy_of_any_size_is_a_fault_at_once(size: int, direction: str) -> None:
    start = f".shared .align 128 .b8 s[1024]; mov.u32 %r1, s; ld.param.u64 %rd0, [out]; mov.u32 %r2, {size};"
    start += "mbarrier.init.shared.b64 [%r1], 1; add.u32 %r3, %r1, 128;"
    arriving = "mbarrier::complete_tx::bytes"
    copy = {
        "global to shared": f"cp.async.bulk.shared::cluster.global.{arriving} [%r3], [%rd0], %r2, [%r1];",
        "shared to global": "cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r3], %r2;",
    }
    with pytest.raises(SimulationFault, match=f"a bulk copy of {size} bytes") as caught:
        run(start + copy[direction], zeros(), block=1)
    assert caught.value.kind == "out-of-bounds"


@pytest.mark.parametrize("wait", ["cp.async.wait_group", "cp.async.bulk.wait_group", "wgmma.wait_group.sync.aligned"])
def test_a_wait_leaves_groups_that_there_may_be(wait: str) -> None:
    run(f"{wait} {FULL};", zeros(), block=128)
    for count in (-1, 2**63):
        assert f"cannot leave {count} groups in flight" in str(refused(f"{wait} {count};"))


@pytest.mark.parametrize("access", ["ld.u64 %rd0, [{}];", "st.u64 [{}], %rd0;", "red.add.u64 [{}], %rd0;"])
def test_a_generic_access_to_a_symbol_is_to_memory(access: str) -> None:
    assert "out is a parameter of the entry" in str(refused(access.format("out")))
    assert "nothing is not declared" in str(refused(access.format("nothing")))


REGISTER = {1: "%p", 16: "%h", 32: "%r", 64: "%rd"}
BY_OPERANDS = {
    2: "not cnot abs neg popc clz bfind brev sqrt.rn rcp.rn ex2.approx tanh.approx",
    3: "and or xor shl shr add sub mul.lo mul.hi mul.wide div rem min max addc subc mul24.lo add.cc copysign",
    4: "mad.lo mad.hi mad.wide madc.lo mad24.lo sad fma.rn bfi slct dp4a",
}


@pytest.mark.parametrize("kind", TYPES)
def test_an_instruction_of_any_type_runs_or_is_refused(kind: str) -> None:
    register = REGISTER.get(TYPES[kind].bits, "%h")
    if TYPES[kind].kind == "f":
        register = {32: "%f", 64: "%fd"}.get(TYPES[kind].bits, "%h")
    outcomes = set()
    for count, names in BY_OPERANDS.items():
        for name in names.split():
            operands = ", ".join(f"{register}{n}" for n in range(2, count + 2))
            try:
                run(f"{name}.{kind} {operands};", zeros())
                outcomes.add("ran")
            except PtxError as refusal:
                assert refusal.line > 1
                outcomes.add("refused")
    assert "refused" in outcomes


def test_what_was_freed_is_given_again_when_the_heap_is_full() -> None:
    """A loop that allocates in each turn what lives for the turn takes as many turns as it likes, as on a device."""
    some = ALLOCATE.format(size=3 << 20, align=256) + KEEP
    out = np.zeros(1, dtype=np.uint64)
    run((some + "st.u64 [%rd2+32], %rd2;" + RELEASE) * 7, out, prelude=ALIGNED, block=1)
    assert out[0] and not out[0] % 256
    run(some * 3, out, prelude=ALIGNED, block=1)
    assert not out[0]
    with pytest.raises(SimulationFault) as caught:
        run((some + RELEASE) * 3 + "ld.u64 %rd3, [%rd2];", out, prelude=ALIGNED, block=1)
    assert caught.value.kind == "freed-access"


@pytest.mark.parametrize("space", ["shared", "local", "global"])
@pytest.mark.parametrize("distance", [-4, 16, -(2**63), 2**63 - 4, 2**64 - 4, 2**31 - 4, 2**32])
def test_an_access_at_a_distance_from_a_variable_that_it_does_not_have_is_a_fault(space: str, distance: int) -> None:
    declaration = f".{space} .align 4 .b8 v[16];"
    access = f"st.{space}.u32 [v+{distance}], 7;"
    with pytest.raises(SimulationFault) as caught:
        if space == "local":
            run(declaration + access, zeros())
        else:
            run(access, zeros(), prelude=declaration)
    assert caught.value.kind == "out-of-bounds"
