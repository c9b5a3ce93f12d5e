# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ptxas accepts the instructions of every function of single values on every target."""

import pytest

from libtile.backend import ptxas
from libtile.codegen import floats, math_functions
from libtile.codegen.builder import KernelBuilder, integer
from libtile.codegen.llvm_types import ELEMENT_TYPES, I32, I64, IntType
from libtile.targets import target, targets
from lowering.elementwise import POINTER, THREADS, finished_ptx, load, store
from lowering.test_conversions import FLOATS, float_cases
from lowering.test_floats import TYPES, plain_cases, rounded_cases
from lowering.test_integers import cases as integer_cases
from lowering.test_math_functions import UNARY
from oracle import require_tool


def float_rows(name):
    return [row[0] for row in (*rounded_cases(name, 256), *plain_cases(name))]


FAMILIES = {
    "integers": lambda: [row[0] for name in ("i1", "i8", "i16", "i32", "i64") for row in integer_cases(name)],
    "narrow arithmetic": lambda: [row for name in ("f16", "bf16") for row in float_rows(name)],
    "wide arithmetic": lambda: [row for name in ("f32", "f64") for row in float_rows(name)],
    "conversions": lambda: [row[0] for name in FLOATS for row in float_cases(name)],
}


def widest(b, value, element):
    """A result of any type in 64 bits."""
    bits = 1 if element == "i1" else 8 * ELEMENT_TYPES[element].storage_bytes
    return b.cast("zext", b.cast("bitcast", value, IntType(bits)), I64)


def assemble(b, gpu):
    require_tool("ptxas")
    return ptxas.assemble(finished_ptx(b, gpu), target(gpu).ptx_target, opt_level=1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("gpu", list(targets()))
def test_ptxas_accepts_every_function(gpu, family):
    b = KernelBuilder("k", target(gpu), THREADS)
    data, out = b.add_parameter(POINTER, "noalias"), b.add_parameter(POINTER, "noalias")
    cases = FAMILIES[family]()
    for number, case in enumerate(cases):
        # A place of its own for each operand and result: nothing is computed in vain.
        places = [b.add(b.thread_id(), integer(I32, n * THREADS)) for n in range(len(case.inputs))]
        values = [load(b, data, element, p) for p, (element, _) in zip(places, case.inputs)]
        where = b.add(b.mul(b.thread_id(), integer(I32, len(cases))), integer(I32, number))
        store(b, out, "i64", where, widest(b, case.emit(b, *values), case.result))
    assert assemble(b, gpu).kernels["k"].registers > 0


@pytest.mark.parametrize("gpu", ["sm_80", "sm_120"])
def test_ptxas_accepts_the_library_functions(gpu):
    b = KernelBuilder("k", target(gpu), THREADS)
    data = b.add_parameter(POINTER, "noalias")
    for number, name in enumerate(TYPES):
        value = load(b, data, name, b.thread_id())
        for function, _, _ in UNARY.values():
            value = function(b, value)
        for function in (floats.rem, math_functions.pow_, math_functions.atan2):
            value = function(b, value, value)
        where = b.add(b.thread_id(), integer(I32, number * THREADS))
        store(b, data, "i64", where, widest(b, value, name))
    assert assemble(b, gpu).kernels["k"].registers > 0
