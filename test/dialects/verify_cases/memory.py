# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

from typing import Any

from dialects.building import TOKEN, Body, tile
from dialects.verify_cases.case import Cases, Fill

CASES = Cases()
F32, I32 = tile("f32"), tile("i32")
POINTER = tile("ptr<f32>")


def load(**attributes: Any) -> Fill:
    return lambda b: b.op("load_ptr_tko", {"source": b.args[0]}, [F32, TOKEN], attributes=attributes)


def store(**attributes: Any) -> Fill:
    return lambda b: b.op(
        "store_ptr_tko", {"destination": b.args[0], "value": b.constant(F32)}, [TOKEN], attributes=attributes
    )


# Orderings, and the scope that each needs.
for name, op, make, synchronizing in (
    ("load", "load_ptr_tko", load, "acquire"),
    ("store", "store_ptr_tko", store, "release"),
):
    CASES.good(f"{name}-weak", make(memory_ordering_semantics="weak"), POINTER)
    for ordering in ("relaxed", synchronizing):
        CASES.good(f"{name}-{ordering}", make(memory_ordering_semantics=ordering, memory_scope="device"), POINTER)
        CASES.bad(
            f"{name}-{ordering}-no-scope",
            f"{op}: memory scope is required for {ordering} {name}",
            make(memory_ordering_semantics=ordering),
            POINTER,
        )
    CASES.bad(
        f"{name}-weak-scope",
        f"{op}: weak {name} must not have memory scope",
        make(memory_ordering_semantics="weak", memory_scope="sys"),
        POINTER,
    )
    for ordering in sorted({"acquire", "release", "acq_rel"} - {synchronizing}):
        CASES.bad(
            f"{name}-{ordering}",
            f"{op}: expect one of: weak, relaxed, or {synchronizing}, but got: {ordering}",
            make(memory_ordering_semantics=ordering, memory_scope="sys"),
            POINTER,
        )
    CASES.bad(
        f"{name}-multicast",
        f"{op}: multicast pointer is not allowed",
        make(memory_ordering_semantics="weak"),
        tile("ptr<f32,multicast>"),
    )
    CASES.good(f"{name}-unicast", make(memory_ordering_semantics="weak"), tile("ptr<f32,unicast>"))

WEAK = {"memory_ordering_semantics": "weak"}


def masked_load(result: Any, mask: Any = None, padding: Any = None) -> Fill:
    def fill(b: Body) -> None:
        source = b.value(
            "broadcast", {"source": b.value("reshape", {"source": b.args[0]}, tile("ptr<f32>", 1))}, tile("ptr<f32>", 4)
        )
        operands = {
            "source": source,
            "mask": mask and b.constant(mask),
            "paddingValue": padding and b.constant(padding),
        }
        b.op("load_ptr_tko", operands, [result, TOKEN], attributes=WEAK)

    return fill


F4 = tile("f32", 4)
CASES.good("load-masked", masked_load(F4, tile("i1", 4), F4), POINTER)
CASES.bad(
    "load-result",
    "load_ptr_tko: failed to verify that `source` type is expected a pointer type of `result` type",
    masked_load(tile("f64", 4)),
    POINTER,
)
CASES.bad(
    "load-mask",
    "load_ptr_tko: failed to verify that shape of 'mask' must match the shape of 'source'",
    masked_load(F4, tile("i1", 2)),
    POINTER,
)
CASES.bad(
    "load-padding",
    "load_ptr_tko: failed to verify that type of 'paddingValue' must match the type of 'result'",
    masked_load(F4, tile("i1", 4), F32),
    POINTER,
)
CASES.bad(
    "load-mask-type",
    "load_ptr_tko: operand #1 must be tile of i1 values, but got '!cuda_tile.tile<4xi8>'",
    masked_load(F4, tile("i8", 4)),
    POINTER,
)


def masked_store(value: Any, mask: Any) -> Fill:
    return lambda b: b.op(
        "store_ptr_tko",
        {"destination": b.args[0], "value": b.constant(value), "mask": b.constant(mask)},
        [TOKEN],
        attributes=WEAK,
    )


CASES.good("store-masked", masked_store(F32, tile("i1")), POINTER)
CASES.bad(
    "store-value",
    "store_ptr_tko: failed to verify that `destination` type is expected a pointer type of `value` type",
    masked_store(I32, tile("i1")),
    POINTER,
)
CASES.bad(
    "store-mask",
    "store_ptr_tko: failed to verify that shape of 'destination' must match the shape of 'mask'",
    masked_store(F32, tile("i1", 2)),
    POINTER,
)


def offset(pointer: Any, amount: Any, result: Any) -> Fill:
    return lambda b: b.op("offset", {"ptr": b.args[0], "offset": b.constant(amount)}, [result])


CASES.good("offset", offset(POINTER, I32, POINTER), POINTER)
CASES.bad(
    "offset-result",
    "offset: failed to verify that all of {result, ptr} have same type",
    offset(POINTER, I32, tile("ptr<f64>")),
    POINTER,
)
CASES.bad(
    "offset-shape",
    "offset: requires the same shape for all operands and results",
    offset(POINTER, tile("i32", 2), POINTER),
    POINTER,
)

CASES.good("join", lambda b: b.op("join_tokens", {"tokens": [b.token(), b.token()]}, [TOKEN]))
for count in (0, 1):
    CASES.bad(
        f"join-{count}",
        "join_tokens: expect two or more tokens",
        lambda b, n=count: b.op("join_tokens", {"tokens": [b.token() for _ in range(n)]}, [TOKEN]),
    )


def dependent_launch(b: Body) -> None:
    token = b.value("gdc_wait_tko", {}, TOKEN)
    token = b.value("gdc_launch_dependents_tko", {"token": token}, TOKEN)
    b.op("memory_fence_alias_tko", {"token": token}, [TOKEN])


CASES.good("dependent-launch", dependent_launch)
for name in ("gdc_wait_tko", "gdc_launch_dependents_tko", "memory_fence_alias_tko"):
    CASES.bad(
        f"{name}-tile",
        f"{name}: operand #0 must be cuda tile token type, but got '!cuda_tile.tile<i32>'",
        lambda b, n=name: b.op(n, {"token": b.constant(I32)}, [TOKEN]),
    )


def alloca(pointee: str, alignment: int, count: int = 4) -> Fill:
    return lambda b: b.op(
        "alloca", None, [tile(f"ptr<{pointee}>")], attributes={"num_elem": count, "alignment": alignment}
    )


CASES.good("alloca", alloca("f64", 8))
CASES.good("alloca-i1", alloca("i1", 1))
CASES.good("alloca-none", alloca("f32", 4, 0))
for alignment in (0, 3):
    CASES.bad(f"alloca-{alignment}", "alloca: 'alignment' must be power of two", alloca("i32", alignment))
for pointee, alignment, size in (("f64", 4, 8), ("tf32", 2, 3)):
    CASES.bad(
        f"alloca-{pointee}",
        f"alloca: 'alignment' ({alignment}) must be at least the natural size ({size} bytes) "
        f"for element type '{pointee}'",
        alloca(pointee, alignment),
    )
CASES.bad(
    "alloca-negative",
    "alloca: attribute 'num_elem' failed to satisfy constraint: "
    "64-bit signless integer attribute whose minimum value is 0",
    alloca("f32", 4, -1),
    oracle="absent",
)

# -- atomics --------------------------------------------------------------------------------------------------------

RELAXED = {"memory_ordering_semantics": "relaxed", "memory_scope": "sys"}


def rmw(type_name: str, mode: str, mask: Any = None, **attributes: Any) -> Fill:
    def fill(b: Body) -> None:
        type_ = tile(type_name)
        operands = {"pointers": b.args[0], "arg": b.constant(type_), "mask": mask and b.constant(mask)}
        b.op("atomic_rmw_tko", operands, [type_, TOKEN], attributes=RELAXED | {"mode": mode} | attributes)

    return fill


INTEGER_MODES = ("and", "or", "xor", "add", "max", "min", "umax", "umin")
for mode in INTEGER_MODES:
    for type_name in ("i32", "i64"):
        CASES.good(f"rmw-{mode}-{type_name}", rmw(type_name, mode), tile(f"ptr<{type_name}>"))
    for type_name in ("i16", "f32"):
        CASES.bad(
            f"rmw-{mode}-{type_name}",
            f"atomic_rmw_tko: '{mode}' works only with integers i32 and i64",
            rmw(type_name, mode),
            tile(f"ptr<{type_name}>"),
        )
for type_name in ("f16", "bf16", "f32", "f64"):
    CASES.good(f"rmw-addf-{type_name}", rmw(type_name, "addf"), tile(f"ptr<{type_name}>"))
for type_name in ("i32", "f8E5M2"):
    CASES.bad(
        f"rmw-addf-{type_name}",
        "atomic_rmw_tko: 'addf' works only with floats f16, bf16, f32, and f64",
        rmw(type_name, "addf"),
        tile(f"ptr<{type_name}>"),
    )
for type_name in ("i32", "i64", "f32", "f64"):
    CASES.good(f"rmw-xchg-{type_name}", rmw(type_name, "xchg"), tile(f"ptr<{type_name}>"))
for type_name in ("i16", "f16", "i1"):
    CASES.bad(
        f"rmw-xchg-{type_name}",
        "atomic_rmw_tko: 'xchg' works only with integers or float of 32 or 64 bitwidth",
        rmw(type_name, "xchg"),
        tile(f"ptr<{type_name}>"),
    )
CASES.bad(
    "rmw-pointee",
    "atomic_rmw_tko: expected pointee type ('f32') to match element type of 'arg' ('i32')",
    rmw("i32", "add"),
    POINTER,
)
CASES.bad(
    "rmw-mask",
    "atomic_rmw_tko: failed to verify that all of {pointers, arg, mask} have same shape",
    rmw("i32", "add", tile("i1", 2)),
    tile("ptr<i32>"),
)
ORDERINGS = "memory ordering semantics must be one of: relaxed, acquire, release, acq_rel"
CASES.bad("rmw-weak", f"atomic_rmw_tko: {ORDERINGS}", rmw("i32", "add", **WEAK), tile("ptr<i32>"))
CASES.bad(
    "rmw-multicast",
    "atomic_rmw_tko: multicast pointer is not supported for atomic_rmw",
    rmw("i32", "add"),
    tile("ptr<i32,multicast>"),
)


def cas(type_name: str, mask: Any = None, **attributes: Any) -> Fill:
    def fill(b: Body) -> None:
        value = b.constant(tile(type_name))
        operands = {"pointers": b.args[0], "cmp": value, "val": value, "mask": mask and b.constant(mask)}
        b.op("atomic_cas_tko", operands, [value.type, TOKEN], attributes=RELAXED | attributes)

    return fill


for type_name in ("i32", "i64", "f32", "f64"):
    CASES.good(f"cas-{type_name}", cas(type_name), tile(f"ptr<{type_name}>"))
for type_name in ("i16", "f16", "i1"):
    CASES.bad(
        f"cas-{type_name}",
        "atomic_cas_tko: expect only float or integer types with 32 or 64 bit",
        cas(type_name),
        tile(f"ptr<{type_name}>"),
    )
CASES.bad(
    "cas-pointee",
    "atomic_cas_tko: expected pointee type ('f32') to match element type of 'val' ('i32')",
    cas("i32"),
    POINTER,
)
CASES.bad(
    "cas-mask",
    "atomic_cas_tko: failed to verify that all of {pointers, val, cmp and mask} have same shape",
    cas("i32", tile("i1", 2)),
    tile("ptr<i32>"),
)
CASES.bad("cas-weak", f"atomic_cas_tko: {ORDERINGS}", cas("i32", **WEAK), tile("ptr<i32>"))
CASES.bad(
    "cas-multicast",
    "atomic_cas_tko: multicast pointer is not supported for atomic_cas",
    cas("i32"),
    tile("ptr<i32,multicast>"),
)

# -- print ----------------------------------------------------------------------------------------------------------


def print_(text: str, count: int) -> Fill:
    return lambda b: b.op(
        "print_tko", {"args": [b.constant(I32) for _ in range(count)]}, [TOKEN], attributes={"str": text}
    )


for text, count in (("none", 0), ("%i", 1), ("%5.2f and %lld", 2), ("%%", 0), ("100%% of %d", 1), ("%S", 1)):
    CASES.good(f"print-{text}", print_(text, count))
    CASES.bad(
        f"print-{text}-more",
        f"print_tko: incorrect number of operands: expected {count}, found {count + 1}",
        print_(text, count + 1),
    )
for text in ("%", "%q", "100%", "%d %"):
    CASES.bad(f"print-unterminated-{text}", "print_tko: found unterminated format expression", print_(text, 1))
# The percent sign of an unfinished expression ends it and is read again as the start of the next one.
CASES.bad("print-percent-ends", "print_tko: found unterminated format expression", print_("%5%", 1))
