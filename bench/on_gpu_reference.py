# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The reference assembler's code as an ordinary kernel, for drivers that load no Tile IR cubins.

The PTX that it hands to ptxas is assembled without what makes it Tile IR's: the tensor maps are parameters like others,
and what its host object writes into them is worked out where the cubins are made.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from on_gpu_launches import REFERENCE_PLAIN, Code, Launch, marshal

from libtile.backend.ptxas import Assembler
from libtile.targets import target as target_of
from libtile.targets.tensor_map import decode, with_address
from oracle.host_objects import HostObject, reference_compilation

OPTIONS = ("--enable-extended-smem=true", "-uumn")
"""What the reference hands to ptxas beside the target and the level."""
FAR = 36
"""Arrays are taken to lie so many bits apart, so that an address in a tensor map names its array."""


class PlainReference:
    """A kernel of the reference's as an ordinary one. LibtileError where it makes none."""

    def __init__(self, data: bytes, target: str, kernel: str, sizes: Sequence[int]):
        self.target, self.kernel = target, kernel
        with tempfile.TemporaryDirectory() as folder:
            made = reference_compilation(data, target, Path(folder))
        self.host_object = made.host_object
        self.ptx = re.sub(r"^\.language .*\n", "", made.ptx.replace(".hidden", ""), flags=re.M)
        header = re.search(r"\.entry\s+" + re.escape(kernel) + r"\((.*?)\)", made.ptx, re.S)
        threads = re.search(r"\.reqntid (\d+)", made.ptx)
        cluster = re.search(r"\.reqnctapercluster (\d+)", made.ptx)
        assert header is not None and threads is not None
        self.hidden = header[1].count(".hidden")
        with Assembler(target_of(target).ptx_target, options=OPTIONS) as assembler:
            self.cubin = assembler.assemble(self.ptx).cubin
        self.code = Code(
            f"{kernel}.{REFERENCE_PLAIN}.cubin", (int(threads[1]), 1, 1), tuple(sizes),
            cluster=int(cluster[1]) if cluster else 1,
        )  # fmt: skip

    def code_for(self, launch: Launch) -> Code:
        """Its code, with the tensor maps of a launch."""
        addresses = [(number + 1) << FAR for number in range(len(launch.arrays))]
        block = b""
        for raw in marshal(launch, self.code, addresses):
            block = block.ljust(-(-len(block) // len(raw)) * len(raw), b"\0") + raw
        found = HostObject(self.host_object).maps(self.kernel, block, self.target, self.hidden) if self.hidden else []
        assert len(found) == self.hidden
        maps = []
        for raw in found:
            number, offset = (decode(raw).address >> FAR) - 1, decode(raw).address & ((1 << FAR) - 1)
            maps.append((number, with_address(raw, offset).hex()))
        return replace(self.code, maps=tuple(maps))
