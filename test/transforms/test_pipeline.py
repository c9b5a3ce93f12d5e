# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pipelines: their text, options of passes, and what is checked between passes."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Literal

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr

from generators.growing import FAMILIES
from libtile.asm import parse
from libtile.ir.module_pass import ModulePass
from libtile.passes import registry
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import (
    Nest,
    PassItem,
    PipelineError,
    for_target,
    make_pass,
    parse_pipeline,
    pipeline_text,
)
from libtile.passes.pipelines import PIPELINES
from libtile.support.diagnostics import DiagnosticError

SEEN: list[tuple[str, object]] = []


@dataclass(frozen=True)
class Recording(ModulePass):
    """Notes what it ran on."""

    name = "test-recording"

    count: int = 1
    factor: float | None = None
    mode: Literal["a", "b"] = "a"
    sizes: tuple[int, ...] = ()
    fast: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        SEEN.append((op.name, self))


@dataclass(frozen=True)
class Breaking(ModulePass):
    """Leaves a function without its terminator."""

    name = "test-breaking"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if inner.name == "cuda_tile.return":
                inner.detach()


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    SEEN.clear()
    monkeypatch.setitem(registry.PASSES, "test-recording", registry.Entry(f"{__name__}:Recording"))
    monkeypatch.setitem(registry.PASSES, "test-breaking", registry.Entry(f"{__name__}:Breaking"))


MODULE = "cuda_tile.module @m { entry @a() {} entry @b() {} global @g <i32: 1> : tile<1xi32> }"


def test_text_nests_by_op() -> None:
    assert parse_pipeline("builtin.module(cuda_tile.module( test-recording{count=2 fast}, cuda_tile.entry(cse) ))") == (
        Nest(
            "builtin.module",
            (
                Nest(
                    "cuda_tile.module",
                    (
                        PassItem("test-recording", (("count", "2"), ("fast", "true"))),
                        Nest("cuda_tile.entry", (PassItem("cse"),)),
                    ),
                ),
            ),
        ),
    )
    assert parse_pipeline("cse,dce") == (PassItem("cse"), PassItem("dce"))
    assert parse_pipeline("") == ()


@pytest.mark.parametrize(
    "text, problem",
    [
        ("builtin.module(", "1:16: error: expected a closing parenthesis"),
        ("nothing", "1:1: error: 'nothing' does not refer to a registered pass"),
        ("cse)", "1:4: error: unexpected ')'"),
        ("cse,,dce", "1:5: error: expected the name of a pass or of an op"),
        ("test-recording{count=1", "missing closing '}'"),
        ("a(" * 1000, "nesting is deeper"),
    ],
)
def test_malformed_text_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(PipelineError) as refused:
        parse_pipeline(text)
    assert problem in str(refused.value)


def test_options_become_values_of_the_fields() -> None:
    (item,) = parse_pipeline("test-recording{count=0x10 factor=2.5 mode=b sizes={1,2,3} fast=true}")
    assert isinstance(item, PassItem)
    assert make_pass(item) == Recording(16, 2.5, "b", (1, 2, 3), True)


@pytest.mark.parametrize("option", ["count=x", "mode=c", "fast=maybe", "sizes={1,x}", "nothing=1"])
def test_wrong_options_are_refused(option: str) -> None:
    (item,) = parse_pipeline(f"test-recording{{{option}}}")
    assert isinstance(item, PassItem)
    with pytest.raises(PipelineError, match="test-recording"):
        make_pass(item)


@pytest.mark.parametrize(
    "text",
    [
        "cse,dce",
        "builtin.module(cse,cuda_tile.module(cuda_tile.entry(test-recording{count=2 mode=b}),any(dce)))",
        "test-recording{sizes=1,2}",
        'test-debuginfo-update-symbol-name{symbol-to-rename="a b" new-name=c}',
    ],
)
def test_a_pipeline_is_printed_as_it_is_read(text: str) -> None:
    assert pipeline_text(parse_pipeline(text)) == text


def test_a_level_in_a_text_stands_for_its_passes() -> None:
    assert pipeline_text(parse_pipeline("cse,O1,dce")) == f"cse,{pipeline_text(parse_pipeline(PIPELINES['O1']))},dce"


def test_the_target_is_an_option_of_the_passes_that_take_one() -> None:
    bound = for_target(parse_pipeline("any(strip-mine{max-words=8}),cse"), "sm_120")
    assert pipeline_text(bound) == "any(strip-mine{gpu-name=sm_120 max-words=8}),cse"
    assert for_target(bound, "sm_120") == bound
    with pytest.raises(PipelineError, match="pass 'strip-mine' is for sm_120, and the compilation for sm_80"):
        for_target(bound, "sm_80")


def test_passes_run_on_the_ops_that_they_are_nested_in() -> None:
    manager = PassManager(
        parse_pipeline("builtin.module(cuda_tile.module(cuda_tile.entry(test-recording),test-recording),any(cse))")
    )
    manager.run(parse(MODULE))
    assert [name for name, _ in SEEN] == ["cuda_tile.entry", "cuda_tile.entry", "cuda_tile.module"]


def test_what_a_pass_breaks_is_found_behind_it() -> None:
    with pytest.raises(DiagnosticError):
        PassManager(parse_pipeline("test-breaking,test-recording")).run(parse(MODULE))
    assert not SEEN
    PassManager(parse_pipeline("test-breaking,test-recording"), verify_each=False).run(parse(MODULE))
    assert SEEN


def test_what_no_pass_has_changed_is_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from libtile.asm import diagnosis as checks

    verified: list[object] = []
    diagnose = checks.diagnose
    monkeypatch.setattr(checks, "diagnose", lambda op: verified.append(op) or diagnose(op))
    root = parse(MODULE)
    manager = PassManager(parse_pipeline("test-recording,test-recording,test-recording"))
    manager.run(root)
    assert len(SEEN) == 3 and verified == [root]
    root.attributes["note"] = StringAttr("changed")
    manager.run(root)
    assert len(SEEN) == 6 and verified == [root, root]
    with pytest.raises(DiagnosticError):
        PassManager(parse_pipeline("test-recording,test-breaking,test-recording")).run(root)
    assert len(SEEN) == 7


def test_each_pass_is_followed_by_its_hook() -> None:
    seen: list[tuple[str, str]] = []
    hook = lambda name, op: seen.append((name, op.name))  # noqa: E731
    PassManager(parse_pipeline("builtin.module(cse,cuda_tile.module(dce))"), after=hook).run(parse(MODULE))
    assert seen == [("cse", "builtin.module"), ("dce", "cuda_tile.module")]


def test_no_collection_walks_the_module_while_a_pass_runs() -> None:
    module = parse(FAMILIES["scalar_chain"].make(2000))
    manager = PassManager(parse_pipeline("cse"), verify_each=False)
    manager.run(module)  # what it loads is collected
    begun: list[str] = []
    callback = lambda phase, _: begun.append(phase)  # noqa: E731
    usual = gc.get_threshold()
    gc.collect()
    gc.callbacks.append(callback)
    try:
        gc.set_threshold(700, 10, 10)
        manager.run(module)
    finally:
        gc.set_threshold(*usual)
        gc.callbacks.remove(callback)
    assert gc.isenabled()
    assert begun.count("start") <= 1, "the collector ran inside of a pass"
