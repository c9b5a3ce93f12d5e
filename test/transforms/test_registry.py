# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The list of passes."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Operation, Region
from xdsl.passes import PassPipeline

from libtile.compiler import driver
from libtile.compiler.options import Options
from libtile.dialects import arith, scf
from libtile.dialects.cuda_tile.ops import OPS
from libtile.dialects.interfaces import ControlFlow
from libtile.dialects.nv_tileaa import NvTileAA
from libtile.dialects.nv_tileas import NvTileAS
from libtile.ir.deferred_op import DeferredOp
from libtile.ir.made_ops import listening
from libtile.ir.module_pass import ModulePass
from libtile.ir.operands import DeclaresOperands
from libtile.ir.snapshot import Snapshot
from libtile.passes import registry
from libtile.passes.manager import Instrument, PassManager, PassRun
from libtile.passes.pipeline import make_pass
from libtile.support.errors import LibtileError

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.bc"))


@pytest.mark.parametrize("name", registry.PASSES)
def test_a_pass_is_a_frozen_dataclass_under_its_own_name(name: str) -> None:
    cls = registry.pass_class(name)
    assert issubclass(cls, ModulePass)
    assert cls.name == name
    assert dataclasses.is_dataclass(cls) and cls.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert cls.__doc__


def test_xdsl_reads_prints_and_runs_a_pass() -> None:
    known = {name: lambda name=name: registry.pass_class(name) for name in ("if-to-select", "cse")}
    pipeline = PassPipeline.parse_spec(known, "if-to-select{max-ops=3},cse")
    module = ModuleOp([])
    pipeline.apply(Context(), module)
    assert [str(each) for each in pipeline.passes] == ["if-to-select{max_ops=3}", "cse"]
    assert type(pipeline.passes[0]).required_fields() == set()
    assert module.is_structurally_equivalent(pipeline.passes[0].apply_to_clone(Context(), module)[1])


def test_every_pass_says_whose_functions_it_changes() -> None:
    assert all(entry.works_on for entry in registry.PASSES.values())


@pytest.mark.parametrize("name", registry.PASSES)
def test_a_pass_is_for_a_target_if_it_has_the_option(name: str) -> None:
    fields = {f.name for f in dataclasses.fields(registry.pass_class(name))}  # type: ignore[arg-type]
    assert registry.PASSES[name].for_target == ("gpu_name" in fields)


def test_what_passes_are_about_are_ops() -> None:
    known = {cls.name for cls in _classes()}
    assert {name for entry in registry.PASSES.values() for name in entry.about} <= known


def test_making_an_op_that_passes_are_about_is_noticed() -> None:
    """What a pass manager knows of the sorts of ops holds as long as none is made."""
    classes = [cls for cls in _classes() if any(cls.name in entry.about for entry in registry.PASSES.values())]
    assert classes and all(issubclass(cls, DeferredOp | DeclaresOperands) for cls in classes)
    made = [OPS["if"].create(regions=[Region(), Region()]), arith.ConstantOp(IntegerAttr(1, i32))]
    made += [scf.YieldOp.__new__(scf.YieldOp)]
    for make in (made[0].clone, made[1].clone, scf.YieldOp, lambda: Operation.__init__(made[2])):
        with listening() as heard:
            made_now = make() or made[2]
        assert heard == {type(made_now)}
    with listening() as heard:
        with listening() as within:
            scf.YieldOp()
        made[0].clone()
    assert (within, heard) == ({scf.YieldOp}, {scf.YieldOp, type(made[0])})
    with listening() as heard:
        pass
    assert not heard


def test_loop_invariant_code_is_moved_out_of_every_kind_of_loop() -> None:
    loops = {cls.name for cls in _classes() for trait in cls.traits if isinstance(trait, ControlFlow) and trait.is_loop}
    assert set(registry.PASSES["licm"].about) == loops


def _classes() -> list[type[Operation]]:
    """Of all ops that passes meet."""
    inner = [op for dialect in (NvTileAA, NvTileAS) for op in dialect.operations]
    return [*OPS.values(), *inner, *arith.OPS, scf.ForOp, scf.IfOp, scf.WhileOp, scf.ConditionOp, scf.YieldOp]


class _RunsAll(Instrument):
    """Runs the passes that a manager leaves out, and holds what they make against what was there; and the names that
    it keeps against those of the ops."""

    def __init__(self) -> None:
        self.about = {name for entry in registry.PASSES.values() for name in entry.about}
        self.left_out: set[str] = set()
        self.manager: PassManager | None = None
        self.kept = 0

    def before(self, run: PassRun, op: Operation) -> None:
        assert self.manager is not None
        if self.manager._names is not None:
            known_of, names = self.manager._names
            there = {inner.name for inner in op.walk()} & self.about
            assert known_of is op and names >= there, f"in front of '{run.name}'"
            self.kept += 1

    def after(self, run: PassRun, op: Operation) -> None:
        about = registry.PASSES[run.name].about
        if about and not any(inner.name in about for inner in op.walk()):
            before = Snapshot(op)
            make_pass(run.item).apply(Context(), op)  # type: ignore[arg-type]  # our passes take any op
            assert Snapshot(op).same_as(before), f"'{run.name}' is about more ops than it says"
            self.left_out.add(run.name)


@pytest.mark.parametrize(
    ("kernel", "target"),
    [
        ("vector_add", "sm_90"),
        *(pytest.param(k, t, marks=pytest.mark.slow) for k in EXAMPLES for t in ("sm_80", "sm_90", "sm_100")),
    ],
)
def test_a_pass_that_is_left_out_would_have_done_nothing(
    kernel: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_of_them = _RunsAll()
    initialise = PassManager.__init__

    def noted(self: PassManager, *args: Any, **options: Any) -> None:
        initialise(self, *args, **options)
        all_of_them.manager = self

    monkeypatch.setattr(PassManager, "__init__", noted)
    driver.compile_bytecode(
        (ROOT / "examples" / f"{kernel}.bc").read_bytes(), Options(target, emit="llvm"), instruments=[all_of_them]
    )
    if kernel == "vector_add":
        assert len(all_of_them.left_out) > 15
    assert all_of_them.kept > 15


def test_a_pass_that_is_left_out_is_seen_and_not_loaded() -> None:
    code = """
import sys, libtile
from libtile.passes.manager import PassManager
from libtile.passes.pipeline import parse_pipeline
seen = []
module = libtile.parse("cuda_tile.module @m { entry @a() { return } }")
PassManager(parse_pipeline("loop-split, dce"), after=lambda name, op: seen.append(name)).run(module.op)
print(*seen, "libtile.transforms.loop_split" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["loop-split", "dce", "False"]


def test_an_unknown_pass_is_named() -> None:
    with pytest.raises(LibtileError, match="'frobnicate' does not refer to a registered pass"):
        registry.pass_class("frobnicate")


def test_a_name_is_registered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PASSES", dict(registry.PASSES))
    registry.register("mine", "package.module:Mine")
    registry.register("mine", "package.module:Mine")
    with pytest.raises(LibtileError, match="'mine' is already registered"):
        registry.register("mine", "package.module:Other")


def test_the_list_loads_no_pass() -> None:
    code = "import sys, libtile.passes.registry; print('xdsl' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
