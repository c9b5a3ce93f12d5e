# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pictures name what holds each element."""

import pytest
from click.testing import CliRunner

from libtile.layouts import builders as b
from libtile.layouts import show
from libtile.layouts.row_swizzles import RowSwizzle
from libtile_tools.layouts import command


def test_a_terminal_picture_has_a_cell_for_each_element():
    lines = show.terminal(b.mma_accumulator()).splitlines()
    assert len(lines) == 16
    assert lines[0].split() == ["t0:0", "t0:1", "t1:0", "t1:1", "t2:0", "t2:1", "t3:0", "t3:1"]


def test_copies_are_marked_and_warps_named_when_there_are_several():
    assert "w0 t0:0*" in show.terminal(b.blocked((4, 4), (1, 1), (4, 8), (1, 2), (1, 0)))


def test_an_svg_shows_offsets_of_a_swizzled_tile():
    picture = show.svg(b.nvmma_shared((8, 64), 16, RowSwizzle(128)), "swizzle")
    assert picture.startswith("<svg") and ">swizzle</text>" in picture
    assert picture.count("<rect") == 1 + 8 * 64


def test_a_tile_too_large_to_draw_is_refused():
    with pytest.raises(ValueError, match="too large"):
        show.svg(b.row_major((1024, 1024)))


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "shared", "8x16", "--swizzle", "128"],
        ["show", "mma-c", "16"],
        ["show", "blocked", "axb"],
        ["show", "wgmma-c", "32x8"],
    ],
)
def test_a_wrong_option_is_a_usage_error(arguments):
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert "Error" in result.output and "Traceback" not in result.output


def test_the_command_writes_an_svg_file(tmp_path):
    path = tmp_path / "layout.svg"
    assert CliRunner().invoke(command, ["show", "mma-a", "16x16", "-o", str(path)]).exit_code == 0
    assert path.read_text().startswith("<svg")
