# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which element a view's index names: the interpreter and the reference assembler agree.

The index is constant and the tile one element, so the assembled code loads from a fixed offset of the parameter, which
the disassembly shows: `LDG.E R5, desc[UR4][R4.64+0x1c0]`.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import libtile
import oracle

pytestmark = pytest.mark.oracle

TENSOR = "tensor_view<64x16xf32, strides=[16,1]>"
COLUMN_MAJOR = "tensor_view<64x16xf32, strides=[1,64]>"


def kernel(view: str, tensor: str, first: int, second: int) -> str:
    kind = view.partition("<")[0]
    strides = re.search(r"strides=\[(\d+),(\d+)\]", tensor)
    sparse = "gather" in kind
    index_type = "tile<1xi32>" if sparse else "tile<i32>"
    types = f"{index_type}, tile<i32>" if sparse else "tile<i32>"
    return f"""cuda_tile.module @m {{
    entry @k(%x: tile<ptr<f32>>, %y: tile<ptr<f32>>) {{
      %i = constant <i32: {f"[{first}]" if sparse else first}> : {index_type}
      %j = constant <i32: {second}> : tile<i32>
      %tv = make_tensor_view %x, shape = [64, 16], strides = [{strides[1]}, {strides[2]}] : {tensor}
      %v = make_{kind} %tv : {view}
      %l, %t = load_view_tko weak %v[%i, %j] : {view}, {types} -> tile<1x1xf32>, token
      %r = reshape %l : tile<1x1xf32> -> tile<f32>
      store_ptr_tko weak %y, %r : tile<ptr<f32>>, tile<f32> -> token
      return
    }} }}"""


def assembled_offset(text: str, folder) -> int:
    """The byte offset that the assembled kernel loads from."""
    done = oracle.run_tileiras(libtile.write(libtile.parse(text), "13.4"), "sm_90")
    assert done.rc == 0, done.stderr
    path = folder / "k.cubin"
    path.write_bytes(done.cubin)
    sass = oracle.run_tool("nvdisasm", "-c", path).stdout
    loads = re.findall(r"LDG\.E\w* R\d+, desc\[UR\d+\]\[R\d+\.64(?:\+0x([0-9a-f]+))?\]", sass)
    assert len(loads) == 1, sass
    return int(loads[0] or "0", 16)


def interpreted_offset(text: str) -> int:
    """The byte offset of the element that the interpreter loads."""
    out = np.zeros(1, np.float32)
    libtile.run(libtile.parse(text), args=[np.arange(1024, dtype=np.float32), out])
    return int(out[0]) * 4


@pytest.mark.parametrize("first, second", [(1, 0), (0, 1), (2, 1)])
@pytest.mark.parametrize("view, tensor", [
    ("partition_view<tile=(1x1), TENSOR>", TENSOR), ("partition_view<tile=(1x1), TENSOR, dim_map=[1, 0]>", TENSOR),
    ("partition_view<tile=(1x1), TENSOR>", COLUMN_MAJOR),
    ("strided_view<tile=(1x1), traversal_strides=[5,7], TENSOR>", TENSOR),
    ("strided_view<tile=(1x1), traversal_strides=[5,7], TENSOR, dim_map=[1, 0]>", TENSOR),
    ("gather_scatter_view<tile=(1x1), TENSOR, sparse_dim=0>", TENSOR),
])  # fmt: skip
def test_an_index_names_the_same_element(view, tensor, first, second, tmp_path):
    text = kernel(view.replace("TENSOR", tensor), tensor, first, second)
    assert interpreted_offset(text) == assembled_offset(text, tmp_path)
