# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generated conversions, run in the simulator, agree with the interpreter bit for bit."""

import numpy as np
import pytest

from libtile.codegen import conversions, narrow_floats
from libtile.codegen.builder import KernelBuilder, Value, integer
from libtile.codegen.llvm_types import FLOAT, HALF, I1, I32, VectorType
from libtile.codegen.stored_bits import join
from libtile.interpreter.formats import ELEMENTS
from libtile.targets import target
from lowering.elementwise import (
    TARGETS,
    Case,
    assert_same,
    evaluate,
    evaluate_constants,
    expected,
    patterns,
    some,
    values,
)

SIZE = 2048
IEEE = ("nearest_even", "zero", "negative_inf", "positive_inf")
FLOATS = ("f16", "bf16", "f32", "tf32", "f64", "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN", "fnv8E5M3FNU")
LOW = ("f8E4M3FN", "f8E5M2", "f4E2M1FN", "fnv8E5M3FNU")
INTEGERS = ("i1", "i8", "i16", "i32", "i64")


def modes_of(source, result):
    """The rounding modes that the dialect has for a conversion, and the others that lowering needs for f16 and bf16."""
    if result == "f8E8M0FNU":
        return ("zero", "positive_inf")
    if result in LOW or (source, result) == ("f64", "f64"):
        return ("nearest_even",)
    if result == "tf32":
        return (*IEEE, "nearest_away") if source == "f32" else IEEE
    return IEEE


def near_ties(source, result, rng):
    """Patterns of f32 or f64 numbers in the range of a narrow type: half way between two of them, and just beside."""
    form = ELEMENTS[result].float
    codes = rng.integers(0, 1 << min(ELEMENTS[result].width, 16), SIZE).astype(f"u{ELEMENTS[result].storage_bytes}")
    if result == "tf32":
        codes = rng.integers(0, 1 << 19, SIZE).astype(np.uint32) << np.uint32(13)
    with np.errstate(all="ignore"):
        numbers = values(result, codes).astype(np.float64)
        _, exponent = np.frexp(numbers)
        last = np.ldexp(1.0, np.maximum(exponent - 1, form.emin) - (form.precision - 1))
        middle = numbers + last * rng.choice([0.5, -0.5, 0.25], SIZE)
        middle = np.where(np.isfinite(middle), middle, 1.0).astype(ELEMENTS[source].dtype)
        beside = np.nextafter(middle, rng.choice([-np.inf, np.inf], SIZE).astype(middle.dtype))
    chosen = np.where(rng.integers(0, 2, SIZE) == 1, middle, beside).astype(ELEMENTS[source].dtype)
    return chosen.view(f"u{chosen.dtype.itemsize}")


def float_cases(source):
    rng = np.random.default_rng(11)
    plain = patterns(source, SIZE, 2)
    if source == "tf32":
        plain = np.concatenate([patterns("f32", SIZE // 2, 2), rng.integers(0, 2**32, SIZE // 2).astype(np.uint32)])
    for result in FLOATS:
        if result == source:
            continue
        inputs = [plain]
        if source in ("f32", "f64") and result not in ("f8E8M0FNU", "f64", "f32"):
            inputs.append(near_ties(source, result, rng))
        for bits in inputs:
            for mode in modes_of(source, result):
                emit = lambda b, x, r=result, m=mode: conversions.ftof(b, x, source, r, m)  # noqa: E731
                yield Case(f"ftof {mode} to {result}", emit, [(source, bits)], result), {"rounding_mode": mode}


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("gpu", TARGETS)
def test_floats_become_other_floats_rounded_once(gpu, source):
    rows = list(float_cases(source))
    for (case, attributes), got in zip(rows, evaluate(gpu, [row[0] for row in rows])):
        if case.result == "f4E2M1FN":
            got = got & 15  # the high half of the byte has no meaning
        assert_same(case, got, expected("ftof", case.inputs, case.result, **attributes))


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("gpu", ["sm_80", "sm_100"])
def test_constant_floats_are_converted_alike(gpu, source):
    rows = [(some(case), attributes) for case, attributes in float_cases(source)]
    for (case, attributes), got in zip(rows, evaluate_constants(gpu, [row[0] for row in rows])):
        got = got & 15 if case.result == "f4E2M1FN" else got
        assert_same(case, got, expected("ftof", case.inputs, case.result, **attributes))


def test_every_code_of_a_narrow_format_is_read_and_written_by_hardware_and_software_alike():
    codes = np.arange(256, dtype=np.uint8)
    for element in (*LOW, "f8E8M0FNU"):
        to_f32 = Case(element, lambda b, x, e=element: conversions.widen(b, x, e), [(element, codes)], "f32")
        old, new = (evaluate(gpu, [to_f32])[0] for gpu in ("sm_80", "sm_100"))
        assert_same(to_f32, old, new)
        mode = "zero" if element == "f8E8M0FNU" else "nearest_even"
        back = Case(
            element, lambda b, x, e=element, m=mode: conversions.ftof(b, x, "f32", e, m), [("f32", old)], element
        )
        mask = 15 if element == "f4E2M1FN" else 255
        finite = ~np.isinf(values("f32", old))  # which saturate
        for gpu in ("sm_80", "sm_100"):
            assert_same(back, evaluate(gpu, [back])[0] & mask, codes & mask, finite)


@pytest.mark.parametrize("element", LOW[:3])
def test_every_code_becomes_the_same_f16_beside_any_other(element):
    codes = np.arange(256, dtype=np.uint8)
    beside = np.random.default_rng(3).permutation(codes)

    def emit(place):
        return lambda b, x, y: conversions.ftof_all(b, [(x, y)[place], (y, x)[place]], element, "f16")[place]

    def emit_from_word(place):
        def emit(b, x, y):
            word = join(b, [y, x, y, y] if place else [y, y, x, y], 8)  # at its second byte, or its third
            halves = narrow_floats.halves_of_bytes(b, element, word, 0 if place else 2)
            if halves is None:
                return conversions.ftof(b, x, element, "f16")
            return b.extract(b.cast("bitcast", halves, VectorType(2, HALF)), place, HALF)

        return emit

    emitters = [make(place) for make in (emit, emit_from_word) for place in (0, 1)]
    cases = [Case(element, emitter, [(element, codes), (element, beside)], "f16") for emitter in emitters]
    for gpu in ("sm_80", "sm_100"):
        for case, got in zip(cases, evaluate(gpu, cases)):
            known = codes & 15 if element == "f4E2M1FN" else codes
            assert_same(case, got, expected("ftof", [(element, known)], "f16", rounding_mode="nearest_even"))


def test_pairs_and_odd_ones_out_are_converted_like_single_values():
    rows = []
    bits = [("f32", patterns("f32", 256, seed)) for seed in (2, 3, 4)]
    for result in ("f16", "bf16", "f8E4M3FN", "f8E5M2", "f4E2M1FN"):
        for i in range(3):
            emit = lambda b, x, y, z, r=result, i=i: conversions.ftof_all(b, [x, y, z], "f32", r)[i]  # noqa: E731
            rows.append((Case(f"{result} {i}", emit, bits, result), bits[i]))
    for gpu in ("sm_80", "sm_100"):
        for (case, source), got in zip(rows, evaluate(gpu, [row[0] for row in rows])):
            want = expected("ftof", [source], case.result, rounding_mode="nearest_even")
            assert_same(case, got & 15 if case.result == "f4E2M1FN" else got, want)


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("gpu", TARGETS)
def test_integers_become_floats_rounded_once(gpu, source):
    rows = []
    dense = patterns(source, SIZE, 2)
    if source in ("i32", "i64"):
        # One bit far below the middle between two results: lost by a first rounding that is not careful.
        rng = np.random.default_rng(5)
        top = rng.integers(0, 512, SIZE).astype(np.uint64)
        shift = rng.integers(1, ELEMENTS[source].width - 10, SIZE).astype(np.uint64)
        sticky = ((top << shift) + rng.integers(0, 2, SIZE).astype(np.uint64)).astype(dense.dtype)
        dense = np.concatenate([dense[SIZE // 2 :], sticky[: SIZE // 2]])
    for result in FLOATS:
        if result == "f8E8M0FNU":
            continue
        for sign in ("signed", "unsigned"):
            emit = lambda b, x, r=result, s=sign: conversions.itof(b, x, r, s)  # noqa: E731
            attributes = {"signedness": sign, "rounding_mode": "nearest_even"}
            rows.append((Case(f"itof {sign}", emit, [(source, dense)], result), attributes))
    for (case, attributes), got in zip(rows, evaluate(gpu, [row[0] for row in rows])):
        mask = 15 if case.result == "f4E2M1FN" else ~np.array(0, got.dtype)
        assert_same(case, got & mask, expected("itof", case.inputs, case.result, **attributes))


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_bytes_become_halves_several_at_a_time(count):
    codes = np.arange(256, dtype=np.uint8)
    inputs = [("i8", np.roll(codes, shift)) for shift in range(count)]
    rows = []
    for sign in ("signed", "unsigned"):
        for i in range(count):
            emit = lambda b, *xs, s=sign, i=i: conversions.itof_all(b, xs, "f16", s)[i]  # noqa: E731
            rows.append((Case(f"{sign} {i}", emit, inputs, "f16"), inputs[i], sign))
    for (case, source, sign), got in zip(rows, evaluate("sm_80", [row[0] for row in rows])):
        assert_same(case, got, expected("itof", [source], "f16", signedness=sign, rounding_mode="nearest_even"))


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("gpu", TARGETS)
def test_floats_become_integers_saturated_or_in_range(gpu, source):
    bits = patterns(source, SIZE, 2)
    if source in ("f32", "f64", "bf16"):
        # Numbers of all magnitudes around the ranges of the integer types.
        rng = np.random.default_rng(3)
        numbers = rng.choice([-1.0, 1.0], SIZE // 4) * np.exp2(rng.uniform(0, 66, SIZE // 4))
        with np.errstate(over="ignore"):
            bits[: SIZE // 4] = numbers.astype(ELEMENTS[source].dtype).view(bits.dtype)
    rows = []
    for result in INTEGERS:
        for sign in ("signed", "unsigned"):
            for saturating in (True, False):
                emit = lambda b, x, r=result, s=sign, t=saturating: conversions.ftoi(b, x, source, r, s, t)  # noqa: E731
                attributes = {"signedness": sign, "saturating": saturating}
                rows.append((Case(f"ftoi {attributes}", emit, [(source, bits)], result), attributes))
    with np.errstate(all="ignore"):
        whole = np.trunc(values(source, bits).astype(np.float64))
    for (case, attributes), got in zip(rows, evaluate(gpu, [row[0] for row in rows])):
        elem, where = ELEMENTS[case.result], None
        if not attributes["saturating"] and case.result != "i1":
            signed = attributes["signedness"] == "signed"
            low, high = (elem.smallest, elem.largest) if signed else (0, (1 << elem.width) - 1)
            where = (whole >= low) & (whole < float(high + 1))
        assert_same(case, got, expected("ftoi", case.inputs, case.result, **attributes), where)


@pytest.mark.parametrize("gpu", TARGETS)
def test_integers_change_width_by_sign_zeros_or_truncation(gpu):
    widths = {"i1": 1, "i4": 4, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
    rows = []
    for source, n in widths.items():
        bits = patterns(source, 256, 2)
        for result, m in widths.items():
            if m > n:
                for sign in ("signed", "unsigned"):
                    emit = lambda b, x, u=source, v=result, s=sign: conversions.exti(b, x, u, v, s)  # noqa: E731
                    rows.append((Case(f"exti {sign}", emit, [(source, bits)], result), "exti", {"signedness": sign}))
            elif m < n:
                emit = lambda b, x, u=source, v=result: conversions.trunci(b, x, u, v)  # noqa: E731
                rows.append((Case("trunci", emit, [(source, bits)], result), "trunci", {"overflow": "none"}))
    for (case, op, attributes), got in zip(rows, evaluate(gpu, [row[0] for row in rows])):
        mask = 15 if case.result == "i4" else ~np.array(0, got.dtype)
        assert_same(case, got & mask, expected(op, case.inputs, case.result, **attributes))


def test_bitcasts_keep_bits():
    rows = []
    for group in (("i8", *(f for f in FLOATS if f.startswith(("f8", "fnv")))), ("i16", "f16", "bf16"),
                  ("i32", "f32"), ("i64", "f64")):  # fmt: skip
        for source in group:
            bits = patterns(group[0], 256, 2)
            for result in group:
                emit = lambda b, x, u=source, v=result: conversions.bitcast(b, x, u, v)  # noqa: E731
                rows.append(Case(f"{source} {result}", emit, [(source, bits)], result))
    for case, got in zip(rows, evaluate("sm_90", rows)):
        assert (got == case.inputs[0][1]).all(), case.name


@pytest.mark.parametrize("result", ["f16", "bf16"])
@pytest.mark.parametrize("source", ["f8E4M3FN", "f8E5M2", "f4E2M1FN"])
def test_ties_go_away_where_nothing_can_be_lost(source, result):
    bits = np.arange(256, dtype=np.uint8) & np.uint8(15 if source == "f4E2M1FN" else 255)
    emit = lambda b, x: conversions.ftof(b, x, source, result, "nearest_away")  # noqa: E731
    case = Case(f"{source} to {result}", emit, [(source, bits)], result)
    (got,) = evaluate("sm_90", [case])
    assert_same(case, got, expected("ftof", case.inputs, result, rounding_mode="nearest_away"))


def test_pointers_and_addresses_are_the_same_bits():
    bits = patterns("i64", 256, 2)
    emit = lambda b, x: conversions.ptr_to_int(b, conversions.int_to_ptr(b, x))  # noqa: E731
    (got,) = evaluate("sm_80", [Case("address", emit, [("i64", bits)], "i64")])
    assert (got == bits).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda b, x: conversions.ftof(b, x, "f32", "f8E4M3FN", "zero"),
        lambda b, x: conversions.ftof(b, x, "f32", "f8E8M0FNU", "nearest_even"),
        lambda b, x: conversions.ftof(b, x, "f32", "f16", "nearest_away"),
        lambda b, x: conversions.ftof(b, x, "f32", "tf32", "sideways"),
        lambda b, x: conversions.ftof(b, x, "f32", "i32"),
        lambda b, x: conversions.itof(b, Value(I32, "%i"), "f8E8M0FNU", "signed"),
        lambda b, x: conversions.itof(b, Value(I32, "%i"), "f32", "signed", "zero"),
        lambda b, x: conversions.ftoi(b, x, "i8", "i32", "signed"),
    ],
)
def test_conversions_that_do_not_exist_are_refused(call):
    with pytest.raises(ValueError):
        call(KernelBuilder("k", target("sm_80"), 32), Value(FLOAT, "%f"))


@pytest.mark.parametrize("signedness, true", [("signed", -1), ("unsigned", 1)])
def test_constant_conditions_are_extended_like_others(signedness, true):
    """LLVM's `true` is the constant 1 in one bit, which is the sign."""
    b = KernelBuilder("k", target("sm_80"), 32)
    for width in (4, 8, 16, 32, 64):
        for bit in (0, 1):
            made = conversions.exti(b, integer(I1, bit), "i1", f"i{width}", signedness)
            assert made.constant == bit * true
