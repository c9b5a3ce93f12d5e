# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables whose entries end with a scope."""

from libtile.support.scopes import ScopedTable


def test_what_a_scope_adds_is_gone_behind_it_and_what_is_around_it_is_seen() -> None:
    table = ScopedTable[str, int]()
    assert table.first("a", 1) == 1
    with table.scope():
        assert table.first("b", 2) == 2
        with table.scope():
            assert table.first("c", 3) == 3
            assert (table.first("a", 9), table.first("b", 9), table.first("c", 9)) == (1, 2, 3)
        assert table.first("c", 4) == 4
    assert (table.first("a", 5), table.first("b", 6), table.first("c", 7)) == (1, 6, 7)


def test_nothing_is_left_behind_the_outermost_scope() -> None:
    table = ScopedTable[str, int]()
    for number in range(2):
        with table.scope():
            assert table.first("a", number) == number
            with table.scope():
                assert table.first("a", 9) == number
