# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What single rules of the optimizer's passes do, and what they leave alone."""

from __future__ import annotations

import random
import time

import pytest

import libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
from libtile.support import remarks, statistics


def run(body: str, pipeline: str, parameters: str = "%x: tile<i32>, %y: tile<i32>, %c: tile<i1>", before: str = ""):
    """The module behind a pipeline, and what its passes counted."""
    module = libtile.parse(f"cuda_tile.module @m {{ {before} entry @k({parameters}) {{\n{body}\nreturn }} }}")
    libtile.verify(module)
    with statistics.collect() as counted:
        PassManager(parse_pipeline(pipeline)).run(module.op)
    return str(module), counted


RANGES = """%p = assume bounded<0, 100>, %x : tile<i32>
  %q = assume bounded<101, 200>, %y : tile<i32>
  %m = assume bounded<-7, -1>, %y : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %mask = constant <i32: 127> : tile<i32>
  %gap = constant <i32: 95> : tile<i32>
"""
PRINT = '\n%t = print_tko "%d", %r : tile<i32> -> token'
PRINT1 = '\n%t = print_tko "%d", %r : tile<i1> -> token'


@pytest.mark.parametrize(
    ("op", "printed"),
    [
        ("mini %p, %q signed", "%assume"),
        ("maxi %p, %q signed", "%assume_0"),
        ("mini %q, %p unsigned", "%assume"),
        ("mini %p, %m unsigned", "%assume"),  # what looks negative is large
        ("remi %p, %q signed", "%assume"),
        ("divi %p, %q signed", "%cst_0_i32"),
        ("divi %p, %q signed rounding<negative_inf>", "%cst_0_i32"),
        ("divi %x, %one signed", "%arg0"),
        ("andi %p, %mask", "%assume"),
        ("absi %p", "%assume"),
    ],
)
def test_ranges_decide_arithmetic(op, printed):
    text, counted = run(f"{RANGES}%r = {op} : tile<i32>{PRINT}", "simplify-integers")
    assert f'print_tko "%d", {printed} :' in text, text
    assert sum(counted.values()) == 1


@pytest.mark.parametrize(
    "op",
    [
        "maxi %p, %x unsigned",
        "mini %p, %one signed",
        "remi %q, %p signed",
        "remi %p, %m signed",
        "divi %p, %q signed rounding<positive_inf>",
        "divi %m, %q signed",
        "andi %p, %gap",
        "andi %x, %mask",
        "andi %q, %mask",
    ],
)
def test_arithmetic_stays_that_ranges_do_not_decide(op):
    text, counted = run(f"{RANGES}%r = {op} : tile<i32>{PRINT}", "simplify-integers")
    assert op.split()[0] in text and not counted, text


@pytest.mark.parametrize(
    ("comparison", "answer"),
    [
        ("less_than %p, %q, signed", "true"),
        ("less_than_or_equal %q, %p, signed", "false"),
        ("greater_than %p, %m, signed", "true"),
        ("greater_than_or_equal %m, %p, signed", "false"),
        ("equal %p, %q, signed", "false"),
        ("not_equal %p, %m, unsigned", "true"),
        ("less_than %p, %q, unsigned", "true"),
        ("less_than %p, %m, unsigned", "true"),
    ],
)
def test_ranges_decide_comparisons(comparison, answer):
    text, _ = run(f"{RANGES}%r = cmpi {comparison} : tile<i32> -> tile<i1>{PRINT1}", "simplify-integers")
    assert "cmpi" not in text and f"<i1: {answer}>" in text


@pytest.mark.parametrize(
    "comparison", ["less_than %m, %x, unsigned", "less_than %p, %one, signed", "equal %p, %x, signed"]
)
def test_comparisons_stay_that_ranges_do_not_decide(comparison):
    text, _ = run(f"{RANGES}%r = cmpi {comparison} : tile<i32> -> tile<i1>{PRINT1}", "simplify-integers")
    assert "cmpi" in text


def test_conditions_of_one_bit_are_not_taken_for_numbers():
    """As a signed number the one bit that is set is -1."""
    body = "%true = constant <i1: true> : tile<i1>\n%false = constant <i1: false> : tile<i1>\n"
    for op in ("cmpi less_than %false, %true, signed : tile<i1> -> tile<i1>", "mini %false, %true signed : tile<i1>"):
        text, counted = run(f"{body}%r = {op}{PRINT1}", "simplify-integers")
        assert op.split()[0] in text and not counted


@pytest.mark.parametrize(
    "op", ["mini %f, %true signed", "maxi %true, %f signed", "addi %true, %true", "muli %true, %true"]
)
def test_facts_say_nothing_of_arithmetic_on_conditions(op):
    """One bit that is 1 is the number -1: what is known of 0 and 1 does not hold for it."""
    body = f"""%f = constant <i1: false> : tile<i1>
  %true = constant <i1: true> : tile<i1>
  %r = {op} : tile<i1>
  %s = select %c, %r, %r : tile<i1>, tile<i1>
  %e = exti %s unsigned : tile<i1> -> tile<i32>
  %t = print_tko "%d", %e : tile<i32> -> token"""
    text, _ = run(body, "simplify-integers")
    assert "exti %" in text and "select %arg2" in text, text


def test_floor_modulo_and_floor_division_of_python_become_plain_ones():
    body = """%zero = constant <i32: 0> : tile<i32>
      %w = assume bounded<1, 64>, %y : tile<i32>
      %b, %b1, %b2 = get_tile_block_id : tile<i32>
      %rem = remi %b, %w signed : tile<i32>
      %n = cmpi less_than %rem, %zero, signed : tile<i32> -> tile<i1>
      %o = cmpi less_than %w, %zero, signed : tile<i32> -> tile<i1>
      %d = xori %n, %o : tile<i1>
      %z = cmpi not_equal %rem, %zero, signed : tile<i32> -> tile<i1>
      %both = andi %d, %z : tile<i1>
      %moved = addi %rem, %w : tile<i32>
      %mod = select %both, %moved, %rem : tile<i1>, tile<i32>
      %quo = divi %b, %w signed rounding<negative_inf> : tile<i32>
      %t = print_tko "%d %d", %mod, %quo : tile<i32>, tile<i32> -> token"""
    text, counted = run(body, "simplify-integers,canonicalize")
    assert [word for word in ("select", "cmpi", "xori", "andi", "addi", "rounding") if word in text] == []
    assert counted["floor divisions made plain"] == 1


def test_what_guards_a_division_that_is_fine_goes():
    body = """%zero = constant <i32: 0> : tile<i32>
      %w = assume bounded<1, 64>, %y : tile<i32>
      %fine = cmpi not_equal %w, %zero, signed : tile<i32> -> tile<i1>
      assert %fine, "a division by zero" : tile<i1>
      %by = select %fine, %w, %x : tile<i1>, tile<i32>
      %quo = divi %x, %by signed : tile<i32>
      %t = print_tko "%d", %quo : tile<i32> -> token"""
    text, _ = run(body, "simplify-integers,canonicalize")
    assert [word for word in ("select", "cmpi", "assert") if word in text] == []
    text, _ = run(body.replace("bounded<1, 64>", "bounded<0, 64>"), "simplify-integers,canonicalize")
    assert [word for word in ("select", "cmpi", "assert") if word in text] == ["select", "cmpi", "assert"]


# -- tokens -----------------------------------------------------------------------------------------------------------

POINTERS = "%p: tile<ptr<i32>>, %q: tile<ptr<i32>>, %x: tile<i32>, %c: tile<i1>"


def load(name: str, token: str = "", pointer: str = "%p", order: str = "weak") -> str:
    after = f" token=%{token}" if token else ""
    return f"%v{name}, %{name} = load_ptr_tko {order} {pointer}{after} : tile<ptr<i32>> -> tile<i32>, token\n"


def store(name: str, token: str = "") -> str:
    after = f" token=%{token}" if token else ""
    return f"%{name} = store_ptr_tko weak %p, %x{after} : tile<ptr<i32>>, tile<i32> -> token\n"


TOKENS = "eliminate-redundant-tokens"


def test_reads_wait_for_no_read_but_for_what_that_waits_for():
    text, counted = run(store("s") + load("a", "s") + load("b", "a") + load("c2", "b"), TOKENS, POINTERS)
    assert text.count("token=%0") == 3 and counted["reads that wait for no read"] == 2


@pytest.mark.parametrize(
    "body",
    [
        load("a") + store("s", "a"),  # a write waits for a read
        store("s") + load("a", "s"),  # a read for a write
        load("a", order="acquire device") + load("b", "a"),
        load("a") + load("b", "a", order="relaxed device"),
    ],
)
def test_order_stays_where_a_write_or_a_strong_access_takes_part(body):
    text, counted = run(body, TOKENS, POINTERS)
    assert text.count("token=") == body.count("token=") and not counted


def test_what_waits_for_a_read_waits_for_the_reads_before_it_too():
    body = load("a") + load("b", "a") + load("d", "b", "%q") + store("s", "d")
    text, counted = run(body, f"{TOKENS},dce", POINTERS)
    assert counted["reads that wait for no read"] == 2
    (joined,) = [line for line in text.splitlines() if "join_tokens" in line]
    assert text.count("token=") == 1 and joined.count("%result_token") == 3, text


def stores_in_a_row(count: int, shape: str = "") -> str:
    """A chain of stores, each behind the one before, of numbers or tiles that lie side by side."""
    kind = f"{shape}x" if shape else ""
    lines = [f"%x0 = reshape %x : tile<i32> -> tile<1xi32>\n%v = broadcast %x0 : tile<1xi32> -> tile<{kind}i32>\n"]
    lines = lines if shape else []
    for number in range(count):
        lines.append(f"%d{number} = constant <i32: {number * int(shape or 1)}> : tile<i32>\n")
        lines.append(f"%q{number} = offset %p, %d{number} : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n")
        pointers, value = f"%q{number}", "%x"
        if shape:
            lines.append(f"%r{number} = reshape %q{number} : tile<ptr<i32>> -> tile<1xptr<i32>>\n")
            lines.append(f"%b{number} = broadcast %r{number} : tile<1xptr<i32>> -> tile<{kind}ptr<i32>>\n")
            lines.append(f"%i{number} = iota : tile<{kind}i32>\n")
            offset = f"offset %b{number}, %i{number} : tile<{kind}ptr<i32>>, tile<{kind}i32> -> tile<{kind}ptr<i32>>"
            lines.append(f"%o{number} = {offset}\n")
            pointers, value = f"%o{number}", "%v"
        after = f" token=%s{number - 1}" if number else ""
        types = f"tile<{kind}ptr<i32>>, tile<{kind}i32>"
        lines.append(f"%s{number} = store_ptr_tko weak {pointers}, {value}{after} : {types} -> token\n")
    return "".join(lines)


@pytest.mark.parametrize(
    ("body", "kept", "all_kept"),
    [
        (stores_in_a_row(2), 1, 0),  # a barrier less
        (stores_in_a_row(4), 0, 0),  # three
        (stores_in_a_row(4, "8"), 3, 0),
        (f"loop {{\n{stores_in_a_row(4, '8')}break\n}}\n", 0, 0),  # as many in each iteration
    ],
)
def test_stores_go_on_waiting_where_little_is_saved(body, kept, all_kept):
    with remarks.collect() as reported:
        text, _ = run(body, f"{TOKENS}{{every-store=false}}", POINTERS)
    assert text.count("token=") == kept
    assert sum(remark.kind is remarks.Kind.MISSED for remark in reported) == kept
    assert run(body, TOKENS, POINTERS)[0].count("token=") == all_kept


@pytest.mark.parametrize(("count", "kept"), [(5, 0), (6, 5)])
def test_stores_go_on_waiting_where_many_tiles_would_be_reduced_at_once(count, kept):
    """What the first one stores is reduced first in any case."""
    lines, scalars = [], stores_in_a_row(count)
    for number in range(count):
        tile_ = (
            f"%m{number} = constant <i32: {number + 1}> : tile<8xi32>\n%t{number} = muli %i, %m{number} : tile<8xi32>\n"
        )
        lines.append(tile_ if number else "%i = iota : tile<8xi32>\n" + tile_)
        lines.append(
            f"%r{number} = reduce %t{number} dim=0 identities=[0 : i32] : tile<8xi32> -> tile<i32>\n"
            "(%a: tile<i32>, %b: tile<i32>) { %sum = addi %a, %b : tile<i32>\nyield %sum : tile<i32> }\n"
        )
        scalars = scalars.replace(f"weak %q{number}, %x", f"weak %q{number}, %r{number}")
    text, _ = run("".join(lines) + scalars, f"{TOKENS}{{every-store=false}}", POINTERS)
    assert text.count("token=") == kept


def test_stores_that_wait_for_stores_wait_for_no_load_of_other_memory():
    body = "%d = constant <i32: 9> : tile<i32>\n%r = offset %p, %d : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>\n"
    text, _ = run(body + load("a", pointer="%r") + store("s", "a"), f"{TOKENS}{{every-store=false}}", POINTERS)
    assert "token=" not in text


TILES = "partition_view<tile=(16), tensor_view<?xi32, strides=[1]>>"
VIEWS = f"""%zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %n = assume bounded<0, 4096>, %x : tile<i32>
  %tensor = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
  %view = make_partition_view %tensor : {TILES}
  %start = make_token : token
"""


def tile(name: str, index: str, token: str) -> str:
    loaded = f"%v{name}, %{name} = load_view_tko weak %view[{index}] token=%{token}"
    return f"{loaded} : {TILES}, tile<i32> -> tile<16xi32>, token\n"


def put(name: str, index: str, token: str, value: str) -> str:
    stored = f"%{name} = store_view_tko weak %{value}, %view[{index}] token=%{token}"
    return f"{stored} : tile<16xi32>, {TILES}, tile<i32> -> token\n"


def over_tiles(body: str, last: str) -> str:
    loop = "%end = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%t = %start) -> (token) {\n"
    loop += f"%next = addi %i, %one : tile<i32>\n{body}continue %{last} : token\n}}\n"
    return VIEWS + loop + tile("z", "%zero", "end") + '%u = print_tko "%d", %vz : tile<16xi32> -> token'


@pytest.mark.parametrize(
    "body",
    [
        tile("a", "%i", "t") + put("e", "%i", "a", "va"),  # in place
        tile("a", "%i", "t") + tile("b", "%i", "a") + put("e", "%i", "b", "vb"),
        tile("a", "%zero", "t") + tile("e", "%next", "a"),  # all read
    ],
)
def test_iterations_that_touch_other_memory_wait_for_none_before(body):
    text, counted = run(over_tiles(body, "e"), f"{TOKENS},dce", POINTERS)
    loop = text[text.index(" for ") : text.index("continue")]
    assert counted["accesses that wait for no other iteration"] == 1
    assert loop.count("%iterArg0") == 2 and "join_tokens %iterArg0" in loop, loop


@pytest.mark.parametrize(
    "body",
    [
        tile("a", "%next", "t") + put("e", "%i", "a", "va"),  # what the next iteration writes
        tile("a", "%i", "t") + put("e", "%zero", "a", "va"),
        put("b", "%i", "t", "some") + tile("d", "%next", "b") + put("e", "%i", "b", "some"),
    ],
)
def test_iterations_that_may_touch_the_same_memory_keep_their_order(body):
    text, counted = run(over_tiles("%some = iota : tile<16xi32>\n" + body, "e"), TOKENS, POINTERS)
    loop = text[text.index(" for ") : text.index("continue")]
    assert "accesses that wait for no other iteration" not in counted
    assert "token = %iterArg0" in loop and "join_tokens %iterArg0" not in loop


def test_joins_keep_what_nothing_else_implies():
    body = load("a") + store("s", "a") + load("b", pointer="%q") + "%f = make_token : token\n"
    body += "%j = join_tokens %a, %s, %b, %b, %f : token\n%one = join_tokens %j, %j : token\n" + store("e", "one")
    text, counted = run(body, TOKENS, POINTERS)
    assert "join_tokens %0, %result_token_1 : token" in text and text.count("join_tokens") == 1, text
    assert counted["operands of joins dropped"] == 4


def test_a_token_that_a_loop_hands_on_is_the_one_that_it_starts_with():
    body = store("s") + "%r = for %i in (%x to %x, step %x) : tile<i32> iter_values(%t = %s) -> (token) {\n"
    body += load("a", "t") + "continue %t : token\n}\n" + store("e", "r")
    text, counted = run(body, TOKENS, POINTERS)
    assert text.count("token=%0") == 2 and counted["carried tokens that never change"] == 1


# -- branches, bounds, symbols ----------------------------------------------------------------------------------------


def branch(then: str, otherwise: str = "yield %y : tile<i32>") -> str:
    return f"%r = if %c -> (tile<i32>) {{\n{then}\n}} else {{\n{otherwise}\n}}{PRINT}"


def test_small_branches_become_selects():
    text, _ = run(branch("%d = addi %x, %y : tile<i32>\nyield %d : tile<i32>"), "if-to-select")
    assert "if" not in text and "select %arg2, %0, %arg1" in text


@pytest.mark.parametrize(
    "then",
    [
        "%d = divi %x, %y signed : tile<i32>\nyield %d : tile<i32>",  # undefined for a zero
        '%u = print_tko "x" -> token\nyield %x : tile<i32>',
        "return",
        "\n".join(f"%d{i} = addi %x, %y : tile<i32>" for i in range(9)) + "\nyield %d0 : tile<i32>",
    ],
)
def test_branches_stay_that_do_more_or_may_not_run(then):
    text, _ = run(branch(then), "if-to-select")
    assert "if %arg2" in text
    assert "if %arg2" not in run(branch(then), "if-to-select{max-ops=9}")[0] or "addi" not in then


TENSOR = "tensor_view<{size}xi32, strides=[1]>"
PARTITION = "partition_view<tile=(16), {padding}" + TENSOR + ">"
VIEW = f"""%v = make_tensor_view %p, shape = [{{shape}}], strides = [1] : {{dynamic}}{TENSOR}
%w = make_partition_view %v : {PARTITION}
%a, %t = load_view_tko weak %w[%i] : {PARTITION}, tile<i32> -> tile<16xi32>, token
%s = store_view_tko weak %a, %w[%i] token=%t : tile<16xi32>, {PARTITION}, tile<i32> -> token"""


@pytest.mark.parametrize(
    ("index", "size", "padding", "inside"),
    [
        ("bounded<0, 3>", 64, "", 2),
        ("bounded<0, 3>", 64, "padding_value = zero, ", 2),
        ("bounded<0, 4>", 64, "padding_value = zero, ", 1),  # the store may not lie outside of the space
        ("bounded<0, 3>", 60, "", 0),
        ("bounded<0, 2>", 60, "", 2),
        ("bounded<-1, 2>", 60, "", 0),
        ("div_by<1>", 64, "", 1),
        ("div_by<1>", 60, "", 0),
        ("bounded<0, 3>", "bounded<64, ?>", "", 2),
        ("bounded<0, 3>", "bounded<63, ?>", "", 0),
        ("div_by<1>", "div_by<16>", "", 0),  # a launch may have more tile blocks than there are tiles
    ],
)
def test_ranges_and_sizes_say_what_is_in_bounds(index, size, padding, inside):
    dynamic = isinstance(size, str)
    body = f"%i = assume {index}, %x : tile<i32>\n"
    if dynamic:
        body += f"%n = assume {size}, %y : tile<i32>\n"
    body += VIEW.format(
        shape="%n" if dynamic else size, size="?" if dynamic else size, padding=padding,
        dynamic="tile<i32> -> " if dynamic else "",
    )  # fmt: skip
    text, _ = run(body, "infer-in-bounds", "%p: tile<ptr<i32>>, %x: tile<i32>, %y: tile<i32>")
    assert text.count("inbounds") == inside, text


def test_private_globals_go_when_nothing_uses_them():
    value = "<i32: 1> : tile<1xi32>"
    before = f"global private @a {value}\nglobal private @b {value}\nglobal @c {value}\n"
    text, counted = run("%g = get_global @b : tile<ptr<i32>>", "symbol-dce", before=before)
    assert "@a" not in text and "@b" in text and "@c" in text and counted == {"globals erased": 1}


def test_no_location_is_left():
    text = 'cuda_tile.module @m { entry @k() { return loc("a.py":1:2) } loc("a.py":1:1) }'
    module = libtile.parse(text)
    PassManager(parse_pipeline("strip-debug-info")).run(module.op)
    assert "a.py" not in libtile.print_module(module, debuginfo=True)


@pytest.mark.parametrize("seed", range(6))
def test_branches_of_random_arithmetic_do_the_same_as_selects(seed):
    rng = random.Random(seed)
    names, lines = ["x", "y"], []

    def arithmetic(depth: str) -> str:
        known, text = list(names), ""
        for number in range(rng.randint(1, 5)):
            op = rng.choice(["addi", "subi", "muli", "andi", "xori", "maxi"])
            sign = " signed" if op == "maxi" else ""
            name = f"{depth}{number}"
            text += f"%{name} = {op} %{rng.choice(known)}, %{rng.choice(known)}{sign} : tile<i32>\n"
            known.append(name)
        return text + f"yield %{known[-1]}, %{rng.choice(known)} : tile<i32>, tile<i32>\n"

    for number in range(4):
        a, b = rng.choice(names), rng.choice(names)
        lines.append(f"%c{number} = cmpi less_than %{a}, %{b}, signed : tile<i32> -> tile<i1>")
        head = f"%a{number}, %b{number} = if %c{number} -> (tile<i32>, tile<i32>)"
        lines.append(f"{head} {{\n{arithmetic(f't{number}_')}}} else {{\n{arithmetic(f'e{number}_')}}}")
        names += [f"a{number}", f"b{number}"]
    lines.append(f"%s = store_ptr_tko weak %p, %{names[-1]} : tile<ptr<i32>>, tile<i32> -> token")
    lines.append(f'%t = print_tko "%d %d", %{names[-2]}, %{names[-3]} : tile<i32>, tile<i32> -> token')
    body, parameters = "\n".join(lines), "%p: tile<ptr<i32>>, %x: tile<i32>, %y: tile<i32>"
    text, counted = run(body, "if-to-select{max-ops=10}", parameters)
    assert counted == {"branches made selects": 4}
    original = f"cuda_tile.module @m {{ entry @k({parameters}) {{\n{body}\nreturn }} }}"
    assert libtile.compare_runs(original.encode(), text.encode(), runs=4).difference is None


def test_long_chains_of_accesses_and_joins_take_time_in_proportion():
    def seconds(count: int) -> float:
        body = load("a0")
        for i in range(1, count):
            body += load(f"a{i}", f"a{i - 1}")
            if i % 3 == 0:
                body += f"%j{i} = join_tokens %a{i}, %a{i - 1} : token\n" + store(f"s{i}", f"j{i}")
        module = libtile.parse(f"cuda_tile.module @m {{ entry @k({POINTERS}) {{\n{body}\nreturn }} }}")
        start = time.process_time()
        PassManager(parse_pipeline(TOKENS), verify_each=False).run(module.op)
        return time.process_time() - start

    short, long = seconds(150), seconds(1200)
    assert long < 8 * 3 * short + 0.5


# -- remarks ----------------------------------------------------------------------------------------------------------


def said(body: str, pipeline: str, parameters: str = "%x: tile<i32>, %y: tile<i32>, %c: tile<i1>") -> list[str]:
    """Kind and reason of each remark; of canonicalize's only where the pipeline is that."""
    with remarks.collect() as reported:
        run(body, pipeline, parameters)
    reported = [r for r in reported if r.name != "Canonicalize" or pipeline.startswith("canonicalize")]
    assert all(r.category is remarks.Category.PASSES and r.function == "k" for r in reported)
    return [f"{r.kind.value} {dict(r.arguments).get('Reason', '')}".strip() for r in reported]


def test_passes_say_what_they_did_and_why_they_did_not() -> None:
    loop = "for %i in (%x to %y, step %y) : tile<i32> {{\n{}\ncontinue\n}}"
    quotient = '%q = divi %x, %y signed : tile<i32>\n%u = print_tko "%d", %q : tile<i32> -> token'
    (missed,) = said(loop.format(quotient), "licm")
    assert missed.startswith("missed it may be undefined where the loop does not run it")
    assert said(loop.format(quotient.replace("divi", "addi").replace(" signed", "")), "licm") == ["passed"]
    (reason,) = said(branch("%d = divi %x, %y signed : tile<i32>\nyield %d : tile<i32>"), "if-to-select")
    assert reason == "missed an op of a branch has effects, or may be undefined where the branch is not taken"
    many = "\n".join(f"%d{i} = addi %x, %y : tile<i32>" for i in range(9)) + "\nyield %d0 : tile<i32>"
    assert said(branch(many), "if-to-select") == ["missed the branches have more than 8 ops"]
    assert said(branch("yield %x : tile<i32>"), "if-to-select") == ["passed"]
    product = "%p = mulf %x, %y : tile<f32>\n%s = addf %p, %y : tile<f32>\n"
    floats = "%x: tile<f32>, %y: tile<f32>"
    assert said(product + '%t = print_tko "%f", %s : tile<f32> -> token', "fuse-fma", floats) == ["passed"]
    both = said(product + '%t = print_tko "%f %f", %s, %p : tile<f32>, tile<f32> -> token', "fuse-fma", floats)
    assert both == ["missed something else uses the product as well"]
    negated = "%true = constant <i1: true> : tile<i1>\n%n = xori %c, %true : tile<i1>\n"
    chosen = negated + '%s = select %n, %x, %y : tile<i1>, tile<i32>\n%t = print_tko "%d", %s : tile<i32> -> token'
    assert said(chosen, "canonicalize") == ["passed"]
    (gave_up,) = set(said(chosen, "canonicalize{max-iterations=1}")) - {"passed"}
    assert gave_up.startswith("missed the bound of 1 sweeps is reached")
    chosen = '%k = cmpi less_than %i, %x, signed : tile<i32> -> tile<i1>\nif %k {\n%u = print_tko "x" -> token\n}'
    assert said(loop.format(chosen), "loop-split") == ["passed"]
    assert said(loop.format(chosen.replace("%i,", "%y,")), "loop-split")[0].startswith("missed its condition")
    floor = '%q = divi %x, %c4 signed rounding<negative_inf> : tile<i32>\n%t = print_tko "%d", %q : tile<i32> -> token'
    four = "%c4 = constant <i32: 4> : tile<i32>\n"
    assert said(four + floor, "simplify-integers") == ["missed its dividend may be negative"]
    known = "%k = assume bounded<0, ?>, %x : tile<i32>\n"
    assert said(four + known + floor.replace("%x", "%k"), "simplify-integers") == ["passed"]
    assert said(load("a") + load("b", "a"), TOKENS, POINTERS) == ["passed"]


def test_no_constant_is_made_of_a_type_that_has_none() -> None:
    text, _ = run(
        """%three = constant <i32: 3> : tile<4xi32>
        %narrow = trunci %three : tile<4xi32> -> tile<4xi4>
        %square = reshape %narrow : tile<4xi4> -> tile<2x2xi4>
        %t = print_tko "%d", %square : tile<2x2xi4> -> token""",
        "simplify-integers",
    )
    assert "reshape %" in text


def stored(name: str, pointer: str, token: str) -> str:
    return f"%{name} = store_ptr_tko weak {pointer}, %x token=%{token} : tile<ptr<i32>>, tile<i32> -> token\n"


def test_joins_of_joins_join_once():
    body = load("a") + load("b", pointer="%q") + stored("s", "%p", "a") + stored("r", "%q", "b")
    body += "%j = join_tokens %s, %b : token\n%k = join_tokens %r, %a : token\n%l = join_tokens %j, %k : token\n"
    text, counted = run(body + stored("e", "%q", "l"), TOKENS, POINTERS)
    assert counted["joins of joins"] == 2 and text.count("join_tokens") == 1, text
    assert "join_tokens %0, %1 : token" in text, text


def test_reads_wait_for_no_reads_that_are_joined():
    body = load("a") + load("b", pointer="%q") + stored("s", "%p", "a")
    body += "%j = join_tokens %s, %b : token\n%k = join_tokens %a, %b : token\n%l = join_tokens %j, %k : token\n"
    again = "%vd, %d = load_ptr_tko weak %q token=%l : tile<ptr<i32>> -> tile<i32>, token\n"
    text, counted = run(body + again + stored("e", "%q", "d"), TOKENS, POINTERS)
    assert counted["reads that wait for no read"] == 1, text
    last = [line for line in text.splitlines() if "load_ptr_tko" in line][-1]
    assert "token=%0" in last, text  # the store alone
    (joined,) = [line for line in text.splitlines() if "join_tokens" in line]  # who waited for it waits for all of them
    assert joined.count("%") == 3, text  # the second load is behind the store
