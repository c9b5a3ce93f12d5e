# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Facts hold: random programs are evaluated, and every claim about every value is checked on its elements."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import libtile
from libtile.analysis import Facts
from libtile.dialects.cuda_tile.types import TileType


def entry_of(text):
    module = libtile.parse(text)
    return next(op for op in module.tile_module.walk() if op.name == "cuda_tile.entry")


def check_claims(fact, values, unit=1, bits=32):
    """Every claim of `fact` about the elements `values`, which count up as numbers of so many bits do."""
    values = np.asarray(values, dtype=object)
    if values.ndim == 0:
        values = values.reshape(1)
    for axis in range(values.ndim):
        lines = np.moveaxis(values, axis, -1).reshape(-1, values.shape[axis])
        counts, same, divisor = fact.contiguity[axis], fact.constancy[axis], fact.divisor[axis]
        for line in lines:
            for i in range(len(line)):
                if i % counts == 0:
                    assert line[i] % min(divisor, 1 << 40) == 0, (fact, line)
                else:
                    assert (line[i] - line[i - 1] - unit) % (1 << bits) == 0, (fact, line)
                if i % same:
                    assert line[i] == line[i - 1], (fact, line)
    if fact.lower is not None:
        assert values.min() >= fact.lower
    if fact.upper is not None:
        assert values.max() <= fact.upper


BINARY = ["addi", "subi", "muli", "divi", "divi up", "divi down", "remi", "andi", "mini", "maxi", "shli", "shri"]
SUFFIX = {
    "divi": " signed",
    "divi up": " signed rounding<positive_inf>",
    "divi down": " signed rounding<negative_inf>",
    "remi": " signed",
    "mini": " signed",
    "maxi": " signed",
    "shri": " signed",
}
SHAPE = (8, 16)
CONSTANTS = [0, 1, 2, 3, 4, 8, 12, 16, 64, 100, -4, -1, 2**20, 2**31 - 8, 2**31 - 3, -(2**31)]


def wrap(values, bits=32):
    values = np.asarray(values, dtype=object)
    limit = 1 << bits
    return (values + limit // 2) % limit - limit // 2


def evaluate(name, a, b):
    flat = []
    for x, y in zip(np.asarray(a, dtype=object).reshape(-1), np.asarray(b, dtype=object).reshape(-1)):
        x, y = int(x), int(y)
        match name:
            case "addi":
                r = x + y
            case "subi":
                r = x - y
            case "muli":
                r = x * y
            case "andi":
                r = x & y
            case "mini":
                r = min(x, y)
            case "maxi":
                r = max(x, y)
            case "shli":
                r = x << y
            case "shri":
                r = x >> y
            case "divi":
                r = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            case "divi up":
                r = -(-x // y)
            case "divi down":
                r = x // y
            case _:
                r = abs(x) % abs(y) * (1 if x >= 0 else -1)
        flat.append(r)
    return wrap(np.array(flat, dtype=object).reshape(SHAPE))


@st.composite
def programs(draw):
    """A list of lines over tiles of SHAPE, with the value of each name."""
    rows = np.repeat(np.arange(8, dtype=object)[:, None], 16, 1)
    columns = np.repeat(np.arange(16, dtype=object)[None, :], 8, 0)
    lines = [
        "%r1 = iota : tile<8xi32>",
        "%r2 = reshape %r1 : tile<8xi32> -> tile<8x1xi32>",
        "%v0 = broadcast %r2 : tile<8x1xi32> -> tile<8x16xi32>",
        "%c1 = iota : tile<16xi32>",
        "%c2 = reshape %c1 : tile<16xi32> -> tile<1x16xi32>",
        "%v1 = broadcast %c2 : tile<1x16xi32> -> tile<8x16xi32>",
    ]
    values = [rows, columns]

    def assumed(i):
        """A value of which nothing is known but what is assumed of it, on one side or on both."""
        number, least, most = len(values), values[i].min(), values[i].max()
        lower = draw(st.sampled_from(["?", least, *(c for c in CONSTANTS if c < least)]))
        upper = draw(st.sampled_from(["?", most, *(c for c in CONSTANTS if c > most)]))
        lines.append(f"%f{number} = bitcast %v{i} : tile<8x16xi32> -> tile<8x16xf32>")
        lines.append(f"%i{number} = bitcast %f{number} : tile<8x16xf32> -> tile<8x16xi32>")
        lines.append(f"%v{number} = assume bounded<{lower}, {upper}>, %i{number} : tile<8x16xi32>")
        values.append(values[i])

    for _number in range(draw(st.integers(1, 3))):
        constant = draw(st.sampled_from(CONSTANTS))
        lines.append(f"%v{len(values)} = constant <i32: {constant}> : tile<8x16xi32>")
        values.append(np.full(SHAPE, constant, dtype=object))
        if draw(st.booleans()):
            assumed(len(values) - 1)
    for _ in range(draw(st.integers(1, 10))):
        name = draw(st.sampled_from([*BINARY, "negi", "assume"]))
        i, j = (draw(st.integers(0, len(values) - 1)) for _ in range(2))
        a, b = values[i], values[j]
        if name == "assume":
            assumed(i)
            continue
        if name == "negi":
            lines.append(f"%v{len(values)} = negi %v{i} : tile<8x16xi32>")
            values.append(wrap(-a))
            continue
        if name.startswith(("divi", "remi")) and (b == 0).any():
            continue
        if name in ("shli", "shri") and not ((b >= 0) & (b < 31)).all():
            continue
        lines.append(f"%v{len(values)} = {name.split()[0]} %v{i}, %v{j}{SUFFIX.get(name, '')} : tile<8x16xi32>")
        values.append(evaluate(name, a, b))
    i, j = (draw(st.integers(0, len(values) - 1)) for _ in range(2))
    predicate = draw(
        st.sampled_from(["less_than", "less_than_or_equal", "greater_than", "greater_than_or_equal", "equal"])
    )
    signedness = draw(st.sampled_from(["signed", "unsigned"]))
    lines.append(f"%mask = cmpi {predicate} %v{i}, %v{j}, {signedness} : tile<8x16xi32> -> tile<8x16xi1>")
    lines.append(f"%wide = exti %v{i} {signedness} : tile<8x16xi32> -> tile<8x16xi64>")
    compare = {
        "less_than": np.less,
        "less_than_or_equal": np.less_equal,
        "greater_than": np.greater,
        "greater_than_or_equal": np.greater_equal,
        "equal": np.equal,
    }[predicate]
    read = [values[n] % (1 << 32) if signedness == "unsigned" else values[n] for n in (i, j)]
    mask = compare(*read)
    lines.append(f"%chosen = select %mask, %v{i}, %v{j} : tile<8x16xi1>, tile<8x16xi32>")
    return lines, values, mask, np.where(mask, values[i], values[j]), read[0]


@settings(max_examples=300, deadline=None)
@given(programs())
def test_every_claim_about_a_random_program_holds(program):
    lines, values, mask, chosen, wide = program
    entry = entry_of("cuda_tile.module @m { entry @k() {\n" + "\n".join(lines) + "\nreturn } }")
    facts = Facts(entry)
    named = {result.name_hint: result for op in entry.walk() for result in op.results}
    for number, elements in enumerate(values):
        check_claims(facts.of(named[f"v{number}"]), elements)
    check_claims(facts.of(named["mask"]), np.where(mask, 1, 0))
    check_claims(facts.of(named["chosen"]), chosen)
    check_claims(facts.of(named["wide"]), wide, bits=64)


def facts_of(body, parameters="%p: tile<ptr<f32>>, %n: tile<i32>"):
    entry = entry_of(f"cuda_tile.module @m {{ entry @k({parameters}) {{\n{body}\nreturn }} }}")
    facts = Facts(entry)
    return {r.name_hint: facts.of(r) for op in entry.walk() for r in op.results if r.name_hint}


VECTOR = """
%q = assume div_by<16>, %p : tile<ptr<f32>>
%q1 = reshape %q : tile<ptr<f32>> -> tile<1xptr<f32>>
%base = broadcast %q1 : tile<1xptr<f32>> -> tile<1024xptr<f32>>
%x, %y, %z = get_tile_block_id : tile<i32>
%c = constant <i32: 1024> : tile<i32>
%start = muli %x, %c : tile<i32>
%s1 = reshape %start : tile<i32> -> tile<1xi32>
%s = broadcast %s1 : tile<1xi32> -> tile<1024xi32>
%i = iota : tile<1024xi32>
%at = addi %s, %i : tile<1024xi32>
%m = assume div_by<16>, %n : tile<i32>
%m1 = reshape %m : tile<i32> -> tile<1xi32>
%mb = broadcast %m1 : tile<1xi32> -> tile<1024xi32>
%mask = cmpi less_than %at, %mb, signed : tile<1024xi32> -> tile<1024xi1>
%ptrs = offset %base, %at : tile<1024xptr<f32>>, tile<1024xi32> -> tile<1024xptr<f32>>
"""


def test_addresses_of_a_vector_are_one_aligned_run():
    facts = facts_of(VECTOR)
    assert facts["at"].contiguity == (1024,)
    assert facts["at"].divisor == (1024,)
    assert facts["ptrs"].contiguity == (1024,)
    assert facts["ptrs"].divisor == (16,)


def test_a_bounds_mask_is_constant_over_as_many_elements_as_divide_the_bound():
    unbounded = facts_of(VECTOR)["mask"].constancy
    assert unbounded == (16,)  # start + i may wrap around, but only where i is a multiple of 1024
    odd = facts_of(VECTOR.replace("<i32: 1024>", "<i32: 1020>"))["mask"].constancy
    assert odd == (4,)
    assert facts_of(VECTOR.replace("%mb, signed", "%mb, unsigned"))["mask"].constancy == (16,)
    bounded = VECTOR.replace("%c = constant", "%xb = assume bounded<0, 1000>, %x : tile<i32>\n%c = constant").replace(
        "muli %x,", "muli %xb,"
    )
    assert facts_of(bounded)["mask"].constancy == (16,)


@pytest.mark.parametrize(("rounding", "same"), [("", 8), (" rounding<positive_inf>", 1)])
def test_a_run_has_one_quotient_unless_it_is_rounded_up(rounding, same):
    facts = facts_of(f"""%i = iota : tile<64xi32>
    %eight = constant <i32: 8> : tile<64xi32>
    %q = divi %i, %eight unsigned{rounding} : tile<64xi32>""")
    assert facts["q"].constancy == (same,)


def test_a_loop_keeps_the_divisibility_of_what_it_adds():
    facts = facts_of("""
    %zero = constant <i32: 0> : tile<i32>
    %step = constant <i32: 64> : tile<i32>
    %end = assume bounded<0, 4096>, %n : tile<i32>
    %r = for %i in (%zero to %end, step %step) : tile<i32> iter_values(%acc = %zero) -> (tile<i32>) {
      %next = addi %acc, %step : tile<i32>
      %here = addi %i, %step : tile<i32>
      continue %next : tile<i32>
    }
    %out = addi %r, %zero : tile<i32>
    """)
    assert facts["here"].divisor == (64,)
    assert (facts["here"].lower, facts["here"].upper) == (64, 4095 + 64)
    assert facts["next"].divisor == (64,)
    assert facts["out"].divisor == (64,)


def test_a_value_that_two_branches_give_has_what_both_have():
    facts = facts_of("""
    %a = constant <i32: 48> : tile<i32>
    %b = constant <i32: 40> : tile<i32>
    %c = cmpi equal %n, %a, signed : tile<i32> -> tile<i1>
    %r = if %c -> (tile<i32>) { yield %a : tile<i32> } else { yield %b : tile<i32> }
    %s = addi %r, %r : tile<i32>
    """)
    assert facts["s"].divisor == (8,)
    assert (facts["s"].lower, facts["s"].upper) == (80, 96)


def test_what_a_loop_breaks_with_is_joined():
    facts = facts_of("""
    %a = constant <i32: 32> : tile<i32>
    %b = constant <i32: 8> : tile<i32>
    %r = loop iter_values(%x = %a) : tile<i32> -> tile<i32> {
      %c = cmpi equal %x, %n, signed : tile<i32> -> tile<i1>
      if %c { break %x : tile<i32> }
      %y = addi %x, %b : tile<i32>
      continue %y : tile<i32>
    }
    %s = addi %r, %a : tile<i32>
    """)
    assert facts["s"].divisor == (8,)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("div_by<16>", ((16, 16), (1, 1), (1, 1))),
        ("div_by<16, every 4 along 1>", ((1, 16), (1, 4), (1, 1))),
        ("same_elements<[2, 4]>", ((1, 1), (1, 1), (2, 4))),
    ],
)
def test_an_assumption_is_taken_over(predicate, expected):
    entry = entry_of(
        "cuda_tile.module @m { entry @k(%q: tile<i32>) { "
        "%one = reshape %q : tile<i32> -> tile<1x1xi32> %u = broadcast %one : tile<1x1xi32> -> tile<8x16xi32> "
        "%w = muli %u, %u : tile<8x16xi32> %z = bitcast %w : tile<8x16xi32> -> tile<8x16xf32> "
        f"%t = bitcast %z : tile<8x16xf32> -> tile<8x16xi32> %a = assume {predicate}, %t : tile<8x16xi32> return }} }}"
    )
    named = {r.name_hint: r for op in entry.walk() for r in op.results}
    fact = Facts(entry).of(named["a"])
    assert (fact.divisor, fact.contiguity, fact.constancy) == expected


def test_facts_of_every_corpus_value_are_computed():
    corpus = pytest.importorskip(
        "kernels.corpus", reason="the kernels are exported by cuTile Python (pip install cuda-tile)"
    )
    for kernel in corpus.select("real"):
        module = libtile.read(corpus.export(kernel, version="13.3"))
        for entry in (op for op in module.tile_module.walk() if op.name == "cuda_tile.entry"):
            facts = Facts(entry)
            for op in entry.walk():
                for result in op.results:
                    if isinstance(result.type, TileType):
                        assert len(facts.of(result).divisor) == max(len(result.type.shape), 1)


def named_facts(body: str) -> dict:
    """The facts of the named values of an entry with parameters %x and %y."""
    entry = entry_of(f"cuda_tile.module @m {{ entry @k(%x: tile<i32>, %y: tile<i32>) {{\n{body}\nreturn }} }}")
    facts = Facts(entry)
    values = [v for op in entry.walk() for v in op.results]
    values += [v for op in entry.walk() for r in op.regions for b in r.blocks for v in b.args]
    return {value.name_hint: facts.of(value) for value in values}


@pytest.mark.parametrize(
    ("lower", "upper", "bounds"),
    [("-5", "-1", (None, None)), ("5", "-1", (None, None)), ("0", "100", (0, 99)), ("-5", "9", (None, None))],
)
def test_an_unsigned_loop_has_bounds_only_where_no_number_looks_negative(lower, upper, bounds):
    found = named_facts(f"""%a = constant <i32: {lower}> : tile<i32>
      %b = constant <i32: {upper}> : tile<i32>
      %s = constant <i32: 1000> : tile<i32>
      for unsigned %i in (%a to %b, step %s) : tile<i32> {{ continue }}""")
    assert (found["i"].lower, found["i"].upper) == bounds


@pytest.mark.parametrize(("sign", "bounds"), [("signed", (-1, 0)), ("unsigned", (0, 1))])
def test_an_extended_condition_is_0_or_1_or_its_negative(sign, bounds):
    condition = "cmpi less_than %x, %y, signed : tile<i32> -> tile<i1>"
    found = named_facts(f"%c = {condition}\n%e = exti %c {sign} : tile<i1> -> tile<i32>")
    assert (found["e"].lower, found["e"].upper) == bounds
    found = named_facts(f"%c = constant <i1: true> : tile<i1>\n%e = exti %c {sign} : tile<i1> -> tile<i32>")
    assert found["e"].value == sum(bounds)


@pytest.mark.parametrize(
    ("op", "bounds"),
    [
        ("addi %a, %one : tile<i32>", (None, None)),
        ("addi %a, %one overflow<no_signed_wrap> : tile<i32>", (6, None)),
        ("addi %a, %one overflow<no_unsigned_wrap> : tile<i32>", (None, None)),
        ("subi %a, %one : tile<i32>", (4, 2**31 - 2)),
        ("subi %b, %one : tile<i32>", (None, None)),
        ("muli %a, %two : tile<i32>", (None, None)),
        ("muli %a, %two overflow<no_wrap> : tile<i32>", (10, None)),
        ("shli %a, %one : tile<i32>", (None, None)),
        ("negi %a : tile<i32>", (-(2**31) + 1, -5)),
        ("negi %b : tile<i32>", (None, None)),
        ("trunci %a : tile<i32> -> tile<i8>", (None, None)),
        ("trunci %a overflow<no_signed_wrap> : tile<i32> -> tile<i8>", (5, None)),
    ],
)
def test_what_is_bounded_on_one_side_may_wrap_around_on_the_other(op, bounds):
    found = named_facts(f"""%a = assume bounded<5, ?>, %x : tile<i32>
      %b = assume bounded<?, -5>, %y : tile<i32>
      %one = constant <i32: 1> : tile<i32>
      %two = constant <i32: 2> : tile<i32>
      %r = {op}""")
    assert (found["r"].lower, found["r"].upper) == bounds


def test_a_run_that_may_wrap_in_few_bits_is_none_in_more():
    found = named_facts("""%c = trunci %x : tile<i32> -> tile<i8>
      %d = reshape %c : tile<i8> -> tile<1xi8>
      %e = broadcast %d : tile<1xi8> -> tile<8xi8>
      %i = iota : tile<8xi8>
      %s = addi %e, %i : tile<8xi8>
      %a = assume bounded<-128, 127>, %s : tile<8xi8>
      %w = exti %a signed : tile<8xi8> -> tile<8xi32>""")
    assert found["a"].contiguity == (8,)
    assert found["w"].contiguity == (1,)


@pytest.mark.parametrize(
    ("op", "bounds"),
    [
        ("remi %a, %b signed", (0, 63)),
        ("remi %a, %x signed", (0, 100)),
        ("remi %x, %b signed", (-63, 63)),
        ("remi %a, %x unsigned", (0, 100)),
        ("remi %a, %m unsigned", (0, 100)),
        ("divi %a, %b signed", (0, 100)),
        ("divi %a, %c signed", (0, 25)),
        ("divi %a, %x signed", (None, None)),
        ("divi %x, %b signed", (None, None)),
    ],
)
def test_quotients_and_remainders_are_bounded_by_what_is_known_of_either_side(op, bounds):
    found = named_facts(f"""%a = assume bounded<0, 100>, %x : tile<i32>
      %b = assume bounded<1, 64>, %y : tile<i32>
      %c = assume bounded<4, 64>, %y : tile<i32>
      %m = assume bounded<-4, -2>, %y : tile<i32>
      %r = {op} : tile<i32>""")
    assert (found["r"].lower, found["r"].upper) == bounds


def floored(condition: str, added: str = "%r, %d", divisor: str = "%b"):
    """What is known of a remainder to which its divisor is added under a condition."""
    return named_facts(f"""%none = constant <i32: 0> : tile<i32>
      %b = assume bounded<1, 64>, %y : tile<i32>
      %u = assume bounded<-64, 64>, %y : tile<i32>
      %d = addi {divisor}, %none : tile<i32>
      %r = remi %x, %d signed : tile<i32>
      %less = cmpi less_than %r, %none, signed : tile<i32> -> tile<i1>
      %more = cmpi greater_than %r, %none, signed : tile<i32> -> tile<i1>
      %sign = cmpi less_than %d, %none, signed : tile<i32> -> tile<i1>
      %other = xori %less, %sign : tile<i1>
      %some = cmpi not_equal %r, %none, signed : tile<i32> -> tile<i1>
      %both = andi %some, %other : tile<i1>
      %s = addi {added} : tile<i32>
      %f = select %{condition}, %s, %r : tile<i1>, tile<i32>""")["f"]


@pytest.mark.parametrize("condition", ["less", "other", "both"])
def test_a_remainder_that_is_rounded_down_is_between_nothing_and_its_divisor(condition):
    found = floored(condition)
    assert (found.lower, found.upper) == (0, 63)


@pytest.mark.parametrize(
    ("condition", "added", "divisor"),
    [("more", "%r, %d", "%b"), ("some", "%r, %d", "%b"), ("both", "%r, %none", "%b"), ("both", "%r, %d", "%u")],
)
def test_other_choices_of_a_remainder_may_be_negative(condition, added, divisor):
    assert floored(condition, added, divisor).lower < 0
