# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Real kernels in the versions before their own: they migrate, the reference reads them, they compute the same."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cuda.tile", reason="the frontend is not installed (pip install cuda-tile)")

import libtile
import oracle
from kernels import corpus
from libtile import bytecode

EXAMPLES = [kernel.name for kernel in corpus.select("example")]
OLD = ("13.1", "13.2")
NEEDS_NEWER = {
    # The frontend writes the power as a chain of products where the version has no op for it.
    **{(f"power_{kind}", version): "fpowi" for kind in ("f16", "bf16", "f32", "f64") for version in OLD},
    # The kernel sets the hint, and the frontend leaves it out of an old version with a warning.
    **{("hints_by_target", version): "optimization_hints.num_worker_warps_per_cta" for version in OLD},
    # From 13.2 on the frontend orders prints by their tokens.
    ("prints", "13.1"): "token",
}
"""Kernels that the frontend writes in an old version in another way than in 13.4, and what the latter needs."""
VALUES_ONLY = {
    # The format can say these, and the verifier of the old versions refuses them (docs/migration.md).
    *{(f"cast_f64_to_f32_{mode}", version) for mode in ("RZ", "RM", "RP") for version in OLD},
    *{(f"cast_f32_to_{kind}_RZ", version) for kind in ("f16", "bf16") for version in OLD},
    *{(f"cast_f32_to_f8e8m0fnu_{mode}", "13.2") for mode in ("RZ", "RP")},
    *{("atomic_add_bf16", version) for version in OLD},
}
"""Kernels that the frontend refuses to write in an old version, and a migration does not."""


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("version", OLD)
def test_an_example_migrates_is_read_by_the_reference_and_computes_the_same(name: str, version: str) -> None:
    newer = corpus.export(corpus.KERNELS[name], "13.4")
    older = libtile.migrate(newer, to=version, for_target="sm_90")
    assert str(bytecode.read(older).version) == version
    results = []
    for data in (newer, older):
        case = corpus.case(corpus.KERNELS[name], seed=1)
        before = corpus.snapshot(case.args)
        libtile.run(data, name, grid=case.grid, args=case.args)
        corpus.check_case(case, before, case.args)
        results.append(case.args)
    for value, other in zip(*results, strict=True):
        np.testing.assert_array_equal(value, other)
    if oracle.find_tool("tileirdisasm") is not None:
        assert f"entry @{name}(" in oracle.run_tileirdisasm(older)


def refusal(kernel: corpus.Kernel, version: str) -> str | None:
    """What stops the migration of a kernel's 13.4 file; None when nothing does."""
    try:
        bytecode.migrate(corpus.export(kernel, "13.4"), version, for_target=kernel.gpu_code)
    except bytecode.MigrationError as error:
        return error.feature
    return None


@pytest.mark.parametrize("step", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_kernels_of_an_old_version_are_what_their_newer_files_become(step: int) -> None:
    """Each kernel, or every sixth of them and those that the lists name: an export takes a tenth of a second."""
    needed, written = {}, set()
    named = {name for name, _ in {*NEEDS_NEWER, *VALUES_ONLY}}
    for place, kernel in enumerate(corpus.KERNELS.values()):
        if place % step and kernel.name not in named:
            continue
        for version in OLD:
            feature = refusal(kernel, version)
            if version in kernel.versions and feature is not None:
                needed[kernel.name, version] = feature
            elif version not in kernel.versions and feature is None:
                written.add((kernel.name, version))
    assert needed == NEEDS_NEWER
    assert written == VALUES_ONLY


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["gemm", "histogram"])
def test_the_reference_assembles_a_migrated_example(name: str) -> None:
    older = libtile.migrate(corpus.export(corpus.KERNELS[name], "13.4"), to="13.1", for_target="sm_90")
    done = oracle.run_tileiras(older, "sm_90")
    assert done.rc == 0, done.stderr
