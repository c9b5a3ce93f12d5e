# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimization hints in versions that have none for `default`: written for one target, left out, or refused."""

from __future__ import annotations

import pytest

import libtile
from bytecode.samples import I32, SCALAR, TOKEN, VECTOR, dump, module_of, op
from libtile import bytecode
from libtile.bytecode.model import Bool, Dictionary, Integer, OptimizationHints, Value, make_type

Keys = dict[str, int]


def hints(**architectures: Keys) -> OptimizationHints:
    return OptimizationHints(
        tuple(
            (name, Dictionary(tuple((key, Integer(value, I32)) for key, value in keys.items())))
            for name, keys in architectures.items()
        )
    )


def written(**architectures: Keys) -> bytes:
    return bytecode.write(module_of(hints=hints(**architectures)), "13.3")


def hints_of(data: bytes) -> dict[str, Keys]:
    found = bytecode.read(data).functions[0].hints
    assert found is not None
    return {
        name: {key: value.value for key, value in keys.items}  # type: ignore[attr-defined]
        for name, keys in found.items
    }


@pytest.mark.parametrize("version", ["13.1", "13.2"])
def test_default_hints_are_written_for_the_target(version: str) -> None:
    data = written(default={"occupancy": 4, "num_cta_in_cga": 2})
    older = libtile.migrate(data, to=version, for_target="sm_90")
    assert hints_of(older) == {"sm_90": {"num_cta_in_cga": 2, "occupancy": 4}}


def test_a_key_of_the_target_itself_wins_and_others_are_filled_in() -> None:
    data = written(default={"occupancy": 4, "num_cta_in_cga": 2}, sm_100={"occupancy": 1}, sm_90={"occupancy": 8})
    older = bytecode.migrate(data, "13.1", for_target="sm_90")
    assert hints_of(older) == {"sm_100": {"occupancy": 1}, "sm_90": {"num_cta_in_cga": 2, "occupancy": 8}}


def test_a_default_that_the_target_does_not_take_is_no_fallback() -> None:
    data = written(default={"occupancy": 4, "num_cta_in_cga": 2})
    assert hints_of(bytecode.migrate(data, "13.1", for_target="sm_80")) == {"sm_80": {"occupancy": 4}}
    own = written(default={"occupancy": 4}, sm_80={"num_cta_in_cga": 2})
    kept = {"sm_80": {"num_cta_in_cga": 2, "occupancy": 4}}
    assert hints_of(bytecode.migrate(own, "13.1", for_target="sm_80")) == kept, "what a file says is not corrected"


def test_hints_of_ops_are_written_for_the_target_too() -> None:
    pointer = Value(make_type("tile", make_type("ptr", SCALAR.parameters[0]), (4,)))
    for_default = OptimizationHints((("default", Dictionary((("latency", Integer(3, I32)),))),))
    load = op(
        "load_ptr_tko", pointer, results=(VECTOR, TOKEN), segments=(1, 0, 0, 0),
        memory_ordering_semantics="weak", optimization_hints=for_default,
    )  # fmt: skip
    data = bytecode.write(module_of(load, arguments=(pointer,)), "13.3")
    older = bytecode.read(bytecode.migrate(data, "13.1", for_target="sm_90"))
    assert older.functions[0].body.operations[0].attributes["optimization_hints"].items[0][0] == "sm_90"


def test_a_version_that_has_default_hints_keeps_them() -> None:
    data = written(default={"occupancy": 4}, sm_90={"num_cta_in_cga": 2})
    for version in ("13.3", "13.4", "13.5"):
        newer = bytecode.migrate(data, version, for_target="sm_90", drop_hints=True)
        assert dump(bytecode.read(newer)) == dump(bytecode.read(data))


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(libtile.LibtileError, match=r"cannot be written for 'sm_91' \(expected one of sm_80, "):
        libtile.migrate(written(default={"occupancy": 4}), to="13.1", for_target="sm_91")


def test_dropped_hints_are_left_out_with_a_warning_of_each_kind() -> None:
    data = written(default={"occupancy": 4}, sm_90={"num_worker_warps_per_cta": 8, "occupancy": 2})
    with pytest.warns(libtile.HintsDroppedWarning) as warned:
        older = libtile.migrate(data, to="13.2", drop_hints=True)
    assert [str(w.message) for w in warned] == [
        "left out optimization hints for 'default' of 1 op: bytecode version 13.3+ is needed for them, "
        "but targeting 13.2",
        "left out optimization hint 'num_worker_warps_per_cta' of 1 op: bytecode version 13.3+ is needed for them, "
        "but targeting 13.2",
    ]
    assert warned[0].filename == __file__
    assert hints_of(older) == {"sm_90": {"occupancy": 2}}


@pytest.mark.filterwarnings("error")
def test_nothing_is_said_when_nothing_is_dropped() -> None:
    data = written(default={"occupancy": 4})
    older = libtile.migrate(data, to="13.1", for_target="sm_90", drop_hints=True)
    assert hints_of(older) == {"sm_90": {"occupancy": 4}}
    assert bytecode.read(libtile.migrate(written(), to="13.1", drop_hints=True)).functions[0].hints is not None


def test_a_newer_key_is_refused_for_a_target_too() -> None:
    data = written(default={"num_worker_warps_per_cta": 8})
    with pytest.raises(bytecode.MigrationError, match="hint 'num_worker_warps_per_cta' requires"):
        libtile.migrate(data, to="13.1", for_target="sm_90")
    dropped: list[str] = []
    bytecode.migrate(data, "13.1", for_target="sm_90", drop_hints=True, warnings=dropped)
    assert len(dropped) == 1 and "'num_worker_warps_per_cta' of 1 op" in dropped[0]


def test_a_hint_that_is_no_number_is_a_fallback_as_it_is() -> None:
    keys = Dictionary((("allow_tma", Bool(False)), ("occupancy", Bool(True))))
    data = bytecode.write(module_of(hints=OptimizationHints((("default", keys),))), "13.3")
    older = bytecode.read(bytecode.migrate(data, "13.1", for_target="sm_90"))
    assert older.functions[0].hints == OptimizationHints((("sm_90", keys),))
