# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page in a browser: each of its interactions.

`python test/explore/test_page.py` takes the picture of docs/explore.md anew.
"""

import contextlib
import sys
import tempfile
from pathlib import Path

import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from explore.browser import chromium, opened
from explore.conftest import ROOT
from libtile.explore import explore, page


@pytest.fixture(scope="module")
def shown(record, tmp_path_factory):
    chromium()
    folder = tmp_path_factory.mktemp("page")
    path = folder / "gemm.html"
    path.write_text(page(record))
    with opened(path, folder / "browser") as browser:
        yield browser


def current(shown, pane: int) -> list[str]:
    """The texts of the rows of the current op that a pane has on the screen."""
    return shown.value(
        f"[...document.querySelectorAll('section')[{pane}].querySelectorAll('.row.same')].map((r) => r.textContent)"
    )


def test_panes_show_source_and_stages(shown):
    titles = shown.value("[...document.querySelectorAll('section select')].map((s) => s.selectedOptions[0].text)")
    assert titles == ["examples/gemm.py", "sm_90 -O3: nv_tileas", "sm_90 -O3: ptx", "sm_90 -O3: sass"]
    assert shown.value("document.title").endswith("libtile explore")


def test_a_file_of_many_kernels_begins_with_the_one_that_was_compiled(shown):
    shown.value(
        "texts.push({...texts[0], lines: Array(200).fill('').concat(texts[0].lines),"
        " rowOps: Array(200).fill([]).concat(texts[0].rowOps)}); panes[0].show(texts.length - 1)"
    )
    rows = shown.value(
        "[panes[0].rows.scrollTop, panes[0].rows.scrollTop + panes[0].rows.clientHeight].map((y) => y / ROW)"
    )
    first = shown.value("panes[0].text.rowOps.findIndex((ops) => ops.length)")
    shown.value("texts.pop(); panes[0].show(0)")
    assert first > 200 and rows[0] < first < rows[1]


def test_a_click_on_a_line_of_the_source_leads_to_its_instructions(shown):
    shown.value("panes[0].see(34)")
    shown.click("section:nth-of-type(1) .row[data-row='34']")  # total = ct.mma(...)
    assert any("ct.mma(" in text for text in current(shown, 0))
    assert any("nv_tileas.async.dot" in text for text in current(shown, 1))
    of_line = "panes[2].text.rowOps[at].some((op) => panes[0].text.rowOps[34].includes(op))"
    made = shown.value(f"panes[2].text.lines.filter((_, at) => {of_line})")
    assert any("wgmma.mma_async" in text for text in made) and current(shown, 2)
    made = shown.value(f"panes[3].text.lines.filter((_, at) => {of_line.replace('[2]', '[3]')})")
    assert any("HGMMA" in text for text in made) and current(shown, 3)
    assert "examples/gemm.py:35" in shown.value("document.getElementById('status').textContent")


def test_keys_choose_rows_and_go_through_those_of_an_op(shown):
    shown.value("panes[3].rows.focus(); panes[3].choose(300)")
    for key, row in (("ArrowDown", 301), ("ArrowUp", 300), ("Home", 0), ("End", None)):
        shown.key(key)
        at = shown.value("panes[3].row")
        assert at == (row if key != "End" else shown.value("panes[3].text.lines.length - 1"))
    # A row whose op has another row behind it.
    rows = "panes[3].text.rowOps"
    shown.value(f"panes[3].choose({rows}.findIndex(([op], k) => op && {rows}.some(([o], n) => n > k && o === op)))")
    before = shown.value("[panes[3].row, current.op]")
    shown.key("n")
    after = shown.value("[panes[3].row, current.op]")
    assert after[0] > before[0] and after[1] == before[1]


def test_text_is_found(shown):
    shown.value("panes[3].rows.focus(); panes[3].choose(0)")
    shown.key("/")
    assert shown.value("document.activeElement.id") == "find"
    shown.value("document.getElementById('find').value = 'hgmma'")
    shown.key("Enter")
    assert "HGMMA" in shown.value("panes[3].text.lines[panes[3].row]")


def test_a_pane_can_show_another_compilation(shown):
    shown.value("panes[0].see(34)")
    shown.click("section:nth-of-type(1) .row[data-row='34']")  # total = ct.mma(...)
    shown.value("panes[2].select.value = String(textOf('sass', 1)); panes[2].select.onchange()")
    assert shown.value("panes[2].text.title") == "sm_80 -O3: sass"
    assert any("HMMA" in text for text in current(shown, 2))
    shown.value("panes[2].show(textOf('ptx', 0))")


@pytest.mark.parametrize(
    ("tab", "wanted"),
    [
        ("Summary", "registers a thread"),
        ("Remarks", "MMA"),
        ("Layouts", "lane"),
        ("Shared memory", "create_pipeline"),
        ("Agents", "gemm, sm_80"),
        ("Keys", "PageDown"),
    ],
)
def test_what_stands_beside_the_panes(shown, tab, wanted):
    number = shown.value(f"Object.keys(tabs).indexOf({tab!r})") + 1
    shown.click(f"#tabs button:nth-child({number})")
    assert shown.value("document.getElementById('side').hidden") is False
    assert wanted in shown.value("document.getElementById('side').textContent")
    shown.key("Escape")
    assert shown.value("document.getElementById('side').hidden") is True


def test_a_long_path_in_a_remark_does_not_widen_what_stands_beside_the_panes(shown):
    shown.value("data.compilations[0].remarks.push({...data.compilations[0].remarks[0], message: '/far'.repeat(99)})")
    shown.click("#tabs button:nth-child(2)")  # Remarks
    widths = shown.value("[side.scrollWidth, side.clientWidth]")
    shown.value("data.compilations[0].remarks.pop()")
    shown.key("Escape")
    assert widths[0] == widths[1]


def test_a_layout_says_who_holds_an_element(shown):
    shown.value("showLayout('#layout1')")
    assert shown.value("document.querySelectorAll('canvas.layout').length") == 1
    shown.value(
        "(() => { const c = document.querySelector('canvas.layout'), b = c.getBoundingClientRect();"
        "c.onmousemove({clientX: b.left + 1, clientY: b.top + 1}); })()"
    )
    assert "[0, 0]: register 0, lane 0, warp 0" in shown.value("document.getElementById('side').textContent")
    shown.value("openTab('')")


def test_layouts_begin_with_one_that_there_is_something_to_see_of(shown):
    shown.value("openTab('Layouts')")
    assert shown.value("document.querySelectorAll('canvas.layout').length") == 1
    sizes = shown.value("Object.values(data.layouts).map((l) => l.shape.reduce((a, b) => a * b, 1))")
    name = shown.value("document.querySelector('#side select').value")
    assert shown.value(f"data.layouts[{name!r}].shape.reduce((a, b) => a * b, 1)") == max(sizes)
    shown.value("openTab('')")


def test_agents_have_room_beside_the_panes(shown):
    widths = []
    for tab in ("Summary", "Agents"):
        shown.value(f"openTab({tab!r})")
        widths.append(shown.value("document.getElementById('side').getBoundingClientRect().width"))
    shown.value("openTab('')")
    assert widths[1] > 1.5 * widths[0]


def test_in_a_narrow_window_panes_stay_wide_enough_to_be_read(shown):
    shown.send("Emulation.setDeviceMetricsOverride", width=800, height=900, deviceScaleFactor=1, mobile=False)
    shown.value("openTab('Agents')")
    widths = shown.value("[...document.querySelectorAll('section, #side')].map((e) => e.getBoundingClientRect().width)")
    heights = shown.value("['main', '#side'].map((e) => document.querySelector(e).getBoundingClientRect().height)")
    shown.value("openTab('')")
    shown.send("Emulation.clearDeviceMetricsOverride")
    assert min(widths) >= 260 and widths[-1] == 800 and min(heights) > 300


def test_columns_of_numbers_have_their_heads_above_them(shown):
    shown.value("openTab('Summary')")
    aligned = "getComputedStyle(document.querySelectorAll('#side tr:nth-child({}) > :nth-child(2)')[0]).textAlign"
    found = [shown.value(aligned.format(row)) for row in (1, 2)]
    text = shown.value("document.getElementById('side').textContent")
    shown.value("openTab('')")
    assert found == ["right", "right"] and "1 asynchronous wait, 1 branch" in text


def test_panes_are_added_and_closed(shown):
    shown.click("#add")
    assert shown.value("panes.length") == 5
    shown.value("document.querySelectorAll('section .bar button')[4].click()")
    assert shown.value("panes.length") == 4


def test_rows_are_made_as_they_are_scrolled_to(shown):
    """However long a listing is, the page holds the rows on the screen and some around."""
    shown.value(
        "panes[3].text.lines = panes[3].text.lines.concat(Array(20000).fill('  NOP')); panes[3].show(panes[3].number)"
    )
    assert shown.value("panes[3].inner.children.length") < 200
    shown.value("panes[3].rows.scrollTop = 1e6; panes[3].draw()")
    assert shown.value("panes[3].inner.children.length") < 200
    assert shown.value("panes[3].inner.textContent.includes('NOP')")


def test_colours_follow_the_system(shown):
    backs = []
    for on in (False, True):
        shown.dark(on)
        backs.append(shown.value("getComputedStyle(document.body).backgroundColor"))
    shown.dark(False)
    assert backs == ["rgb(255, 255, 255)", "rgb(21, 23, 28)"]


def picture(path: Path) -> None:
    """The page of attention.bc, with the line of the source chosen that loads the keys."""
    with contextlib.chdir(ROOT):  # the page's title is the path as it is given
        record = explore("examples/attention.bc", ["sm_90"])
    source = (ROOT / "examples" / "attention.py").read_text(encoding="utf-8").splitlines()
    row = next(number for number, line in enumerate(source) if line.strip().startswith("keys = ct.load("))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        made = Path(name) / "attention.html"
        made.write_text(page(record))
        with opened(made, Path(name) / "browser", (1500, 760)) as shown:
            shown.value(f"panes[0].see({row}); panes[0].choose({row})")
            shown.screenshot(path)


if __name__ == "__main__":
    picture(ROOT / "docs" / "explore.png")
