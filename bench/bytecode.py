# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bytecode in ops per second: read, write and validate, beside the frontend's writer on the same op stream.

    python bench/bytecode.py [--ops 1000 100000] [--repeat 5]

Each number is the best of the repeats. `growth` is the time per op of the largest module over that of the smallest:
1 is linear.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from libtile import bytecode
from libtile.bytecode.model import Block, Dense, Function, Module, Operation, Value, make_type
from libtile.spec import default_spec

SPEC = default_spec()
I32 = make_type("i32")
SCALAR = make_type("tile", I32, ())
VECTOR = make_type("tile", make_type("f32"), (128,))
OPS_PER_STEP = 5
VERSION = "13.3"


def our_module(ops: int) -> Module:
    """A straight line of constants, integer and float arithmetic, and shape ops."""
    block = Block([Value(SCALAR)])
    index = block.arguments[0]

    def add(name: str, operands: list[Value], result: object, **attributes: object) -> Value:
        value = Value(result)  # type: ignore[arg-type]
        block.operations.append(Operation(SPEC.ops[name], operands, [value], attributes))
        return value

    for step in range(ops // OPS_PER_STEP):
        vector = add("constant", [], VECTOR, value=Dense(VECTOR, (step % 64).to_bytes(4, "little")))
        index = add("addi", [index, block.arguments[0]], SCALAR, overflow="none")
        total = add("addf", [vector, vector], VECTOR, rounding_mode="nearest_even")
        add("maxf", [total, vector], VECTOR)
        index = add("muli", [index, index], SCALAR, overflow="no_wrap")
    block.operations.append(Operation(SPEC.ops["return"]))
    return Module(functions=[Function("k", make_type("function", (SCALAR,), ()), block)])


def frontend_bytes(ops: int) -> bytes | None:
    """The same stream by the frontend's writer; None when it is not installed."""
    try:
        from cuda.tile._bytecode import encodings as E
        from cuda.tile._bytecode.debug_info import MISSING_DEBUG_ATTR_ID
        from cuda.tile._bytecode.type import SimpleType
        from cuda.tile._bytecode.version import BytecodeVersion
        from cuda.tile._bytecode.writer import write_bytecode
    except ImportError:
        return None
    buffer = bytearray()
    with write_bytecode(1, buffer, BytecodeVersion.V_13_3) as writer:
        types = writer.type_table
        scalar, vector_type = types.tile(types.I32, []), types.tile(types.simple(SimpleType.F32), [128])
        with writer.function("k", [scalar], [], True, {}, MISSING_DEBUG_ATTR_ID) as (code, (argument,)):
            index = argument
            for step in range(ops // OPS_PER_STEP):
                vector = E.encode_ConstantOp(code, vector_type, (step % 64).to_bytes(4, "little"))
                index = E.encode_AddIOp(code, scalar, index, argument, E.IntegerOverflow.NONE)
                total = E.encode_AddFOp(code, vector_type, vector, vector, E.RoundingMode.NEAREST_EVEN, False)
                E.encode_MaxFOp(code, vector_type, total, vector, False, False)
                index = E.encode_MulIOp(code, scalar, index, index, E.IntegerOverflow.NW)
            E.encode_ReturnOp(code, [])
    return bytes(buffer)


def jobs_of(ops: int) -> dict[str, Callable[[], object]]:
    """The jobs on a module of `ops` ops."""
    module = our_module(ops)
    data = bytecode.write(module, VERSION)
    jobs: dict[str, Callable[[], object]] = {
        "read, lazy": lambda: bytecode.read(data),
        "read, all bodies": lambda: bytecode.read(data, lazy=False),
        "write from memory": lambda: bytecode.write(module, VERSION),
        "validate": lambda: bytecode.validate(data),
        "migrate 13.3 to 13.1": lambda: bytecode.migrate(data, "13.1"),
    }
    if frontend_bytes(OPS_PER_STEP) is not None:
        jobs["frontend's writer, to compare"] = lambda: frontend_bytes(ops)
    return jobs


def seconds(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", type=int, nargs="+", default=[1_000, 100_000], help="sizes of the modules")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    jobs = {ops: jobs_of(ops) for ops in options.ops}
    times: dict[tuple[str, int], float] = {}
    # Sizes and jobs take turns, so that a busy moment of the machine does not fall on one of them alone.
    for _ in range(options.repeat):
        for name in jobs[options.ops[0]]:
            for ops in options.ops:
                key = (name, ops)
                times[key] = min(times.get(key, float("inf")), seconds(jobs[ops][name]) / ops)
    print(f"{'ops per second':<32}" + "".join(f"{ops:>14,}" for ops in options.ops) + f"{'growth':>10}")
    for name in jobs[options.ops[0]]:
        rates = "".join(f"{1 / times[name, ops]:>14,.0f}" for ops in options.ops)
        print(f"{name:<32}{rates}{times[name, options.ops[-1]] / times[name, options.ops[0]]:>10.2f}")


if __name__ == "__main__":
    main()
