# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Code of which an instruction is left out: the simulator finds what goes wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

import libtile
from libtile.runtime.tensor_maps import tensor_map
from libtile.simulator import EncodedTensorMap, SimulationFault, run_ptx


class OneBlock:
    """A kernel of a module, compiled for a target, and a launch of one block with arguments, which ends well."""

    def __init__(self, data: bytes, name: str, args: Sequence[Any], gpu_name: str) -> None:
        code = libtile.compile(data, gpu_name=gpu_name, launch_abi="simt", emit="ptx", keep_text=True)
        assert code.ptx is not None
        kernel = code.kernels[name]
        self.ptx, self.name, self.block = code.ptx, name, kernel.block_dim
        self.args = [*args, *(EncodedTensorMap(args[r.base], tensor_map(r, args, 0), 0) for r in kernel.descriptors)]
        run_ptx(self.ptx, name, block=self.block, args=self.args)

    def fault_without(self, found: re.Match[str] | None) -> str:
        """The kind of fault that there is without a part of the code."""
        return self.fault_with(found, "")

    def fault_with(self, found: re.Match[str] | None, instead: str) -> str:
        """The kind of fault that there is with something else in place of a part of the code."""
        assert found is not None
        broken = self.ptx[: found.start()] + instead + self.ptx[found.end() :]
        with pytest.raises(SimulationFault) as caught:
            run_ptx(broken, self.name, block=self.block, args=self.args)
        return str(caught.value.kind)

    def check_what_threads_write(self, left_out: str) -> None:
        """Products read what threads write: behind a `fence` of proxies, and when all have arrived (`arrival`)."""
        fence = max(re.finditer(r"fence\.proxy\.async[^\n]*;", self.ptx), key=lambda found: found.start())
        arrival = re.compile(r"mbarrier\.arrive[^\n]*;").search(self.ptx, fence.end())
        kinds = {"fence": {"proxy-fence"}, "arrival": {"deadlock", "divergent-barrier"}}
        assert self.fault_without(fence if left_out == "fence" else arrival) in kinds[left_out]
