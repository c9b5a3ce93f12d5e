# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files of the frontend's writer, in every version: read and written again, they are the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bytecode.samples import dump
from libtile import bytecode
from libtile.bytecode.model import Dictionary, Module, OptimizationHints

pytest.importorskip("cuda.tile", reason="the frontend is not installed (pip install cuda-tile)")

from kernels import corpus

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.bc"))
VERSIONS = ("13.1", "13.2", "13.3", "13.4", "13.5")


SOME = [k for i, k in enumerate(corpus.KERNELS.values()) if i % 3 == 0 or len(k.versions) < 4]
"""Kernels for what is done in many versions: some of each kind, and those of new features, which migrations refuse."""

SOME_AND_OTHERS = [
    pytest.param(k, id=k.name, marks=() if k in SOME else pytest.mark.slow) for k in corpus.KERNELS.values()
]


def exports(kernel: Any) -> list[tuple[str, bytes]]:
    """The kernel's file in each version that the frontend offers for it."""
    first = tuple(map(int, kernel.min_version.split(".")))
    return [(v, corpus.export(kernel, v)) for v in VERSIONS if tuple(map(int, v.split("."))) >= first]


def fresh(data: bytes) -> Module:
    """The module without its file's table order and layout."""
    module = bytecode.read(data, lazy=False)
    module.tables = module.layout = None
    return module


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_is_written_as_it_was_read(path: Path) -> None:
    data = path.read_bytes()
    assert bytecode.write(bytecode.read(data, lazy=False)) == data


@pytest.mark.parametrize("kernel", corpus.KERNELS.values(), ids=lambda k: k.name)
def test_kernel_is_written_as_it_was_read(kernel: Any) -> None:
    for version, data in exports(kernel):
        assert bytecode.write(bytecode.read(data)) == data, f"{version}, bodies copied"
        assert bytecode.write(bytecode.read(data, lazy=False)) == data, f"{version}, bodies decoded"


@pytest.mark.parametrize("kernel", SOME_AND_OTHERS)
def test_kernel_upgrades_to_every_later_version(kernel: Any) -> None:
    version, data = exports(kernel)[0]
    program = dump(bytecode.read(data))
    for later in VERSIONS[VERSIONS.index(version) :]:
        upgraded = bytecode.migrate(data, later)
        assert dump(bytecode.read(upgraded)) == program
        assert bytecode.migrate(upgraded, version) == data, f"{version} -> {later} -> {version}"


@pytest.mark.parametrize("kernel", SOME_AND_OTHERS)
def test_kernel_downgrades_to_the_same_program_or_names_what_is_missing(kernel: Any) -> None:
    version, data = exports(kernel)[-1]
    for older in VERSIONS:
        dropped: list[str] = []
        try:
            downgraded = bytecode.migrate(data, older, for_target=kernel.gpu_code, drop_hints=True, warnings=dropped)
        except bytecode.MigrationError as error:
            assert error.feature and str(error.required or error.target) in str(error)
            assert not error.feature.startswith("optimization_hints"), "hints stop no downgrade"
            continue
        expected = dump(with_hints_for(bytecode.read(data), kernel.gpu_code, older))
        assert dump(bytecode.read(downgraded)) == expected, older
        assert dump(bytecode.read(bytecode.migrate(downgraded, version))) == expected, f"{older} -> {version}"
        assert not any("'default'" in message for message in dropped), dropped


def with_hints_for(module: Module, architecture: str, version: str) -> Module:
    """The module with its hints as a version before 13.3 has them for one architecture."""

    def renamed(hints: OptimizationHints) -> OptimizationHints:
        if version not in ("13.1", "13.2"):
            return hints
        given = {name: dict(keys.items) for name, keys in hints.items}  # type: ignore[attr-defined]
        if "default" in given:
            given[architecture] = given.pop("default") | given.get(architecture, {})
        return OptimizationHints(
            tuple(
                (name, Dictionary(tuple(sorted((k, v) for k, v in keys.items() if k != "num_worker_warps_per_cta"))))
                for name, keys in sorted(given.items())
            )
        )

    for function in module.functions:
        function.hints = renamed(function.hints or OptimizationHints())
    for operation in module.operations():
        if "optimization_hints" in operation.attributes:
            operation.attributes["optimization_hints"] = renamed(operation.attributes["optimization_hints"])
    return module


@pytest.mark.parametrize("kernel", SOME_AND_OTHERS)
def test_kernel_written_in_the_reference_order_is_the_same_program(kernel: Any) -> None:
    for version, data in exports(kernel):
        module = fresh(data)
        again = bytecode.write(module, version)
        assert dump(bytecode.read(again)) == dump(module)
        assert bytecode.write(bytecode.read(again, lazy=False)) == again
