# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What `estimate` counts, what it makes of that, and that docs/estimate.md shows it.

`python test/explore/test_estimate.py` puts what is printed now, and the picture, into the page.
"""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import libtile
from libtile.explore import Estimate, estimate
from libtile.targets import UnknownTargetError, machine, machines, targets
from oracle import require_tool
from tools.process import run

ROOT = Path(__file__).resolve().parents[2]
GEMM, ADD = ROOT / "examples" / "gemm.bc", ROOT / "examples" / "vector_add.bc"
PAGE, PICTURE = ROOT / "docs" / "estimate.md", ROOT / "docs" / "estimate.svg"
SHOWN = re.compile(r"(\$ libtile estimate .*\n)([^`]*)```")
STALE = "is stale: run `python test/explore/test_estimate.py`"


@cache
def of_gemm(size: int, gpu_name: str) -> Estimate:
    a, b = (np.zeros((size, size), np.float16) for _ in range(2))
    c = np.zeros((size, size), np.float32)
    blocks = (size // 64) ** 2
    return estimate(GEMM, grid=blocks, args=[a, b, c], gpu_name=gpu_name, blocks=1, source_folders=[ROOT])


@pytest.fixture(scope="module")
def gemm() -> Estimate:
    require_tool("nvdisasm")
    return of_gemm(1024, "sm_90")


def test_the_page_shows_what_is_printed(gemm: Estimate) -> None:
    found = SHOWN.search(PAGE.read_text(encoding="utf-8"))
    assert found is not None and found[2] == str(gemm), f"docs/estimate.md {STALE}"
    assert gemm.picture() == PICTURE.read_text(encoding="utf-8"), f"docs/estimate.svg {STALE}"


def test_counts_of_a_product_are_those_of_its_shape(gemm: Estimate) -> None:
    assert gemm.operations["tensor f16"] == 2 * 1024**3
    assert gemm.memory == 2 * 1024**2 * 2 + 1024**2 * 4
    assert gemm.traffic == 256 * (2 * 64 * 1024 * 2) + 1024**2 * 4
    tensor = next(r for r in gemm.resources if r.name == "tensor cores")
    assert [(share.op, share.part) for share in tensor.shares] == [("mmaf", 1.0)]
    on_one_sm = 2 * 64 * 64 * 1024 * -(-256 // 132) / (machine("sm_90").tensor["f16"] / 132)
    assert tensor.seconds == pytest.approx(on_one_sm)
    assert gemm.seconds == max(r.seconds for r in gemm.resources) <= gemm.rank[0] == gemm.likely_seconds


@pytest.mark.parametrize("gpu_name", ["sm_80", "sm_100"])
def test_products_of_every_family_are_counted(gpu_name: str) -> None:
    assert of_gemm(128, gpu_name).operations["tensor f16"] == 2 * 128**3


def test_a_sample_of_like_blocks_stands_for_all_of_them() -> None:
    def counted(blocks: int) -> Estimate:
        x, y, z = (np.zeros(4096, np.float32) for _ in range(3))
        return libtile.estimate(ADD, grid=4, args=[x, y, z], blocks=blocks)

    part, whole = counted(2), counted(4)
    assert (part.simulated, whole.simulated) == (2, 4)
    assert part.resources == whole.resources and part.traffic == whole.traffic
    assert part.memory == whole.memory == 3 * 4 * 256 * 4
    assert any("2 of 4 tile blocks" in note for note in part.notes) and not any("of 4" in n for n in whole.notes)


DIVISION = """
cuda_tile.module @kernels {
  entry @divide(%x: tile<ptr<f32>>) {
    %lane = iota : tile<128xi32>
    %x1 = reshape %x : tile<ptr<f32>> -> tile<1xptr<f32>>
    %xs = broadcast %x1 : tile<1xptr<f32>> -> tile<128xptr<f32>>
    %at = offset %xs, %lane : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
    %value, %loaded = load_ptr_tko weak %at : tile<128xptr<f32>> -> tile<128xf32>, token
    %half = divf %value, %value rounding<nearest_even> : tile<128xf32>
    %stored = store_ptr_tko weak %at, %half token=%loaded : tile<128xptr<f32>>, tile<128xf32> -> token
    return
  }
}
"""


def test_what_a_division_does_for_unusual_operands_is_counted_for_no_op() -> None:
    require_tool("nvdisasm")
    told = libtile.estimate(libtile.parse(DIVISION), args=[np.ones(128, np.float32)])
    assert any("unusual operands" in note for note in told.notes)
    shares = {share.op for resource in told.resources for share in resource.shares}
    assert "divf" in shares and "return" not in shares
    special = next(resource for resource in told.resources if resource.name == "special functions")
    assert special.amount == 128, "one reciprocal for each element, and none of the code behind the kernel's end"


def test_the_picture_is_xml(gemm: Estimate) -> None:
    root = ElementTree.fromstring(gemm.picture())
    texts = " ".join("".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text"))
    assert "An estimate" in texts and "tensor f16: 989 Top/s" in texts and "H100 SXM5" in texts


def test_the_tool_prints_json(tmp_path: Path) -> None:
    picture = tmp_path / "add.svg"
    arrays = [part for _ in range(3) for part in ("--arg", "zeros:f32:1024")]
    done = run("libtile_cli", "estimate", ADD, "--json", "--picture", picture, *arrays)
    data = json.loads(done.text)
    assert (data["kernel"], data["ctas"], data["memory_bytes"]) == ("vector_add", 1, 3 * 256 * 4)
    ElementTree.parse(picture)


def test_the_tool_takes_a_kernel_of_a_script_with_its_own_arguments(tmp_path: Path) -> None:
    pytest.importorskip("cuda.tile", reason="the kernels are cuTile's (pip install cuda-tile)")
    script = tmp_path / "halve.py"
    script.write_text(
        "import cuda.tile as ct\n\n\n@ct.kernel\ndef halve(x, TILE: ct.Constant[int]):\n"
        "    tile = ct.load(x, index=(ct.bid(0),), shape=(TILE,))\n"
        "    ct.store(x, index=(ct.bid(0),), tile=tile / 2)\n"
    )
    arguments = ("--grid", "4", "--arg", "zeros:f32:1024", "--arg", "256", "--json")
    data = json.loads(run("libtile_cli", "estimate", f"{script}:halve", *arguments).text)
    assert (data["ctas"], data["memory_bytes"]) == (4, 2 * 1024 * 4)
    assert data["kernel"].startswith("halve_"), "the name in code"
    told = run("libtile_cli", "estimate", f"{script}:halve", *arguments[:-1]).text
    assert told.startswith("halve on H100 SXM5 (sm_90), estimated: "), "the name in Python"


def test_a_target_without_known_peaks_is_refused_by_name() -> None:
    with pytest.raises(UnknownTargetError, match="no GPU's peaks are known for 'sm_87'; they are for sm_80, "):
        libtile.estimate(ADD, gpu_name="sm_87")


def test_machines_are_of_targets_and_wider_elements_are_slower() -> None:
    assert machines().keys() <= targets().keys()
    for gpu in machines().values():
        rates = [gpu.tensor[kind] for kind in ("f4", "f8", "f16", "tf32") if kind in gpu.tensor]
        assert rates == sorted(rates, reverse=True) and gpu.tensor["tf32"] > gpu.fp32 * gpu.sms * gpu.clock / 2


def refresh() -> None:
    told = of_gemm(1024, "sm_90")
    PICTURE.write_text(told.picture(), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(SHOWN.sub(lambda found: f"{found[1]}{told}```", text), encoding="utf-8")


if __name__ == "__main__":
    refresh()
