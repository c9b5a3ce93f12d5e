# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nothing that the reference documents name is lost: ops, types, attributes, passes; each diagnostic has a lit test.

The facts are in inner_roster.toml. A diagnostic counts as tested where an `expected-error` comment of a lit test is the
whole message behind the op's name; `-verify-diagnostics` fails when the tool does not give it.
"""

from __future__ import annotations

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from dialects.inner import messages, round_trip
from dialects.inner_diagnostics import LIT, PAGE, expected, files, page
from libtile.dialects.nv_tileaa import NvTileAA
from libtile.dialects.nv_tileaa.attributes import KeywordAttr
from libtile.dialects.nv_tileas import NvTileAS
from libtile.dialects.nv_tileas import attributes as atoms
from libtile.dialects.nv_tileas.tma import REPLACEABLE
from libtile.ir.tile_form import OP_CLASSES
from libtile.lowering.tileas.copies import common
from libtile.passes.pipeline import pass_options
from libtile.passes.registry import PASSES
from libtile_tools import cli

ROSTER = tomllib.loads(Path(__file__).with_name("inner_roster.toml").read_text())
FILES = files()
EXPECTED = [text for path in FILES for text in expected(path)]
NAMES = {"nv_tileaa": NvTileAA, "nv_tileas": NvTileAS}
SYMBOLS = {cls.name: cls for dialect in NAMES.values() for cls in dialect.attributes}
DIAGNOSTICS = [text for group in ROSTER["diagnostics"].values() for text in group]


def full_names(section: str) -> list[str]:
    return [f"{dialect}.{name}" for dialect, names in ROSTER[section].items() for name in names.split()]


@pytest.mark.parametrize("name", full_names("ops"))
def test_an_op_of_the_documents_exists(name: str) -> None:
    assert name in OP_CLASSES


@pytest.mark.parametrize("name", [*full_names("types"), *full_names("attributes")])
def test_a_type_or_attribute_of_the_documents_exists(name: str) -> None:
    assert name in SYMBOLS


@pytest.mark.parametrize("name", ROSTER["enums"])
def test_an_enum_has_the_cases_of_the_documents(name: str) -> None:
    assert issubclass(SYMBOLS[name], KeywordAttr)
    for case in ROSTER["enums"][name].split():
        text = f"module attributes {{test.value = #{name}<{case}>}} {{\n}}\n"
        printed = round_trip(text)
        assert f"#{name}<{'tl_blk' if case == 'cta' else case}>" in printed  # cta is another name of the tile block


@pytest.mark.parametrize("name", ROSTER["properties"])
def test_an_op_has_the_attributes_of_the_documents(name: str) -> None:
    cls = OP_CLASSES[name]
    known = set(cls.get_irdl_definition().properties) | ({"operandSegmentSizes"} if cls.has_segments() else set())
    assert set(ROSTER["properties"][name].split()) <= known


def test_attributes_that_passes_leave_have_the_documents_names() -> None:
    assert {common.HOST_CODE, common.NUM_DEVICE, common.NUM_HOST, common.GRID_CONSTANT} == set(
        ROSTER["discardable"]["names"]
    )


def test_atoms_have_the_documents_kinds_and_modes() -> None:
    listed = ROSTER["atoms"]
    assert set(listed["kinds"].split()) <= set(atoms.CopyAtomAttr.kinds)
    assert tuple(listed["load_modes"].split()) == atoms.LOAD_MODES
    assert tuple(listed["store_modes"].split()) == atoms.STORE_MODES
    assert tuple(listed["replaceable"].split()) == REPLACEABLE


@pytest.mark.parametrize("known_as", ROSTER["passes"])
def test_a_pass_of_the_documents_is_registered_with_its_options(known_as: str) -> None:
    entry = ROSTER["passes"][known_as]
    assert entry["name"] in PASSES
    assert set(entry.get("options", [])) <= set(pass_options(entry["name"]))


@pytest.mark.parametrize("switch", ROSTER["switches"])
def test_a_switch_of_the_environment_is_read_and_tested(switch: str) -> None:
    module, name = ROSTER["switches"][switch].split(":")
    assert getattr(import_module(module), name).name == switch
    assert any(f"{switch}=1" in path.read_text() for path in FILES)


@pytest.mark.parametrize("diagnostic", DIAGNOSTICS)
def test_a_diagnostic_of_the_documents_has_a_lit_test(diagnostic: str) -> None:
    pattern = re.compile(r"'nv_tilea[as]\.[\w.]+' op " + re.escape(diagnostic).replace(re.escape("{}"), ".+"))
    found = [text for text in EXPECTED if pattern.fullmatch(text)]
    assert found, f"no expected-error comment below {LIT} has the whole message {diagnostic!r}"


def test_the_page_of_diagnostics_is_fresh() -> None:
    assert PAGE.read_text() == page(), "it is stale: run PYTHONPATH=test python -m dialects.inner_diagnostics"


def test_no_diagnostic_stands_in_the_roster_twice() -> None:
    assert len(DIAGNOSTICS) == len(set(DIAGNOSTICS))


@pytest.mark.parametrize("name", [name for name in PASSES if "tilea" in name or "tma" in name])
def test_a_lit_test_runs_each_pass_of_the_inner_dialects_alone(name: str) -> None:
    alone = re.compile(rf"RUN:.*cuda-tile-opt --{name}(=\S+)? %s")
    from_tile_ir = re.compile(rf"RUN:.*cuda-tile-opt .*--{name}\b")
    texts = [path.read_text() for path in FILES]
    assert any(alone.search(text) for text in texts) or any(from_tile_ir.search(text) for text in texts)


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name != "lowering"], ids=lambda p: p.stem)
def test_what_lit_tests_say_reads_as_it_is_printed(path: Path) -> None:
    """Right or wrong, an op loses nothing on the way through its text, in either form."""
    for part in cli.split_input(path.read_text()):
        unread = ("is unknown", "but had", "dominate", "is there twice")
        if not any(words in m for m in messages(part) for words in unread):
            round_trip(part)
