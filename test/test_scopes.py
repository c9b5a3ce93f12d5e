# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables whose entries end with a scope."""

from libtile.support.scopes import ScopedTable


def test_what_a_scope_adds_is_gone_behind_it_and_what_is_around_it_is_seen() -> None:
    table = ScopedTable[str, int]()
    table.add("a", 1)
    with table.scope():
        table.add("b", 2)
        with table.scope():
            table.add("c", 3)
            assert (table.get("a"), table.get("b"), table.get("c")) == (1, 2, 3)
        assert table.get("c") is None
        table.add("c", 4)
    assert (table.get("a"), table.get("b"), table.get("c")) == (1, None, None)
