# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Properties of the algebra on random layouts: what the operations promise, checked element by element."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libtile.layouts import f2
from libtile.layouts.linear import LinearLayout

SETTINGS = settings(max_examples=80, deadline=None)


@st.composite
def layouts(draw, in_dims=("register", "lane"), out_dims=("x", "y"), invertible=False, surjective=False):
    out_bits = [draw(st.integers(0, 3)) for _ in out_dims]
    total = sum(out_bits)
    if invertible or surjective:
        columns = draw(st.permutations([1 << i for i in range(total)]))
        for _ in range(draw(st.integers(0, 6))):  # random elementary column operations keep it invertible
            if total > 1:
                i, j = draw(st.integers(0, total - 1)), draw(st.integers(0, total - 1))
                if i != j:
                    columns = [c ^ columns[j] if k == i else c for k, c in enumerate(columns)]
        if surjective:
            extra = draw(st.lists(st.integers(0, (1 << total) - 1), max_size=2))
            columns = draw(st.permutations([*columns, *extra]))
    else:
        columns = draw(st.lists(st.integers(0, (1 << total) - 1), max_size=6))
    cut = draw(st.integers(0, len(columns)))
    frame = LinearLayout.of({}, {n: 1 << b for n, b in zip(out_dims, out_bits)})
    parts = {in_dims[0]: columns[:cut], in_dims[1]: columns[cut:]}
    return LinearLayout.of(
        {n: [frame._unpack(c) for c in cs] for n, cs in parts.items()}, dict(zip(out_dims, frame.shape))
    )


def every_place(layout):
    for values in itertools.product(*(range(layout.in_size(n)) for n in layout.in_dims)):
        yield dict(zip(layout.in_dims, values))


@SETTINGS
@given(layouts())
def test_a_layout_is_linear(layout):
    for p in every_place(layout):
        for q in every_place(layout):
            both = layout(**{n: p[n] ^ q[n] for n in p})
            assert both == {n: layout(**p)[n] ^ layout(**q)[n] for n in both}


@SETTINGS
@given(layouts(invertible=True))
def test_the_inverse_undoes(layout):
    assert layout.is_invertible
    inverse = layout.inverse()
    for place in every_place(layout):
        assert inverse(**layout(**place)) == place


@SETTINGS
@given(layouts(surjective=True))
def test_the_right_inverse_finds_a_place_of_every_element(layout):
    inverse = layout.inverse()
    for index in every_place(inverse):
        assert layout(**inverse(**index)) == index


@SETTINGS
@given(layouts(), layouts(in_dims=("x", "y"), out_dims=("u", "v")))
def test_composition_is_application_in_turn(inner, outer):
    pad = LinearLayout.of(
        {n: [*outer.basis(n), *[(0, 0)] * 3][: max(len(outer.basis(n)), dict(inner.outs)[n])] for n in ("x", "y")},
        {n: 1 << b for n, b in outer.outs},
    )
    composed = inner.compose(pad)
    for place in every_place(inner):
        assert composed(**place) == pad(**inner(**place))


@SETTINGS
@given(layouts(), layouts())
def test_a_product_is_the_second_layout_above_the_first(a, b):
    product = a * b
    bits = dict(a.outs)
    for p, q in itertools.product(list(every_place(a))[:16], list(every_place(b))[:16]):
        place = {n: p[n] | q[n] << len(a.basis(n)) for n in product.in_dims}
        low, high = a(**p), b(**q)
        assert product(**place) == {n: low[n] | high[n] << bits[n] for n in product.out_dims}


@SETTINGS
@given(layouts(), layouts())
def test_the_quotient_of_a_product_is_its_other_factor(a, b):
    assert (a * b).quotient(a) == b


@SETTINGS
@given(layouts(surjective=True), st.data())
def test_a_conversion_names_a_place_that_holds_the_same_element(target, data):
    source = data.draw(layouts())
    outs = dict(target.outs)
    source = LinearLayout.of(
        {
            n: [tuple(c & ((1 << outs[o]) - 1) for c, o in zip(v, ("x", "y"))) for v in source.basis(n)]
            for n in source.in_dims
        },
        {n: 1 << b for n, b in outs.items()},
    )
    relation = source.convert_to(target)
    for place in every_place(source):
        assert target(**relation(**place)) == source(**place)


@SETTINGS
@given(layouts(surjective=True))
def test_converting_a_layout_to_itself_moves_nothing(layout):
    relation = layout.convert_to(layout)
    for place in every_place(layout):
        assert relation(**place) == place


def test_free_bits_are_those_that_repeat_an_element():
    layout = LinearLayout.of({"register": [1, 1], "lane": [2, 3]}, {"x": 4})
    assert layout.free_bits() == {"register": 0b10, "lane": 0b10}


def test_reshape_keeps_the_flat_index():
    layout = LinearLayout.identity(16, "lane", "x").reshape_outs({"a": 4, "b": 4})
    assert layout(lane=6) == {"a": 2, "b": 1}


@SETTINGS
@given(st.lists(st.integers(0, 63), max_size=7), st.lists(st.integers(0, 63), max_size=7))
def test_the_intersection_is_in_both_spans_and_has_the_right_dimension(a, b):
    common = f2.intersection(a, b)
    assert all(v in f2.Basis(a) and v in f2.Basis(b) for v in common)
    assert len(f2.independent(common)) == f2.rank(a) + f2.rank(b) - f2.rank([*a, *b])


@SETTINGS
@given(st.lists(st.integers(0, 63), max_size=7), st.integers(0, 63))
def test_a_solution_solves(columns, target):
    solution = f2.solve(columns, target)
    if solution is None:
        assert target not in f2.Basis(columns)
    else:
        assert f2.apply(columns, solution) == target


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinearLayout.of({"a": [(1, 2)]}, {"x": 4}),
        lambda: LinearLayout.zeros(4, "lane", "x").with_in_dim("warp", 3),
        lambda: LinearLayout.identity(4, "lane", "x").transpose_outs(["y"]),
        lambda: LinearLayout.identity(4, "lane", "x").convert_to(LinearLayout.identity(8, "lane", "x")),
        lambda: LinearLayout.of({"lane": [1]}, {"x": 4}).inverse(),
        lambda: LinearLayout.identity(4, "lane", "x")(lane=4),
    ],
)
def test_a_misuse_is_a_value_error(make):
    with pytest.raises(ValueError, match=r"."):
        make()
