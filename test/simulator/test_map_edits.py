# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensor maps that a kernel makes: every field by tensormap.replace, and the fences that the copies need."""

from __future__ import annotations

import numpy as np
import pytest

from libtile.simulator import PtxError, SimulationFault, run_ptx
from libtile.targets.tensor_map import ELEMENTS, FIELDS, TiledMap, encode

from .ptx import REGISTERS
from .tensor_programs import TMA

HEADER = (
    ".version 9.0\n.target {target}\n.address_size 64\n.shared .align 1024 .b8 s[4096]; .shared .align 128 .b8 m[128]; "
    ".shared .align 8 .b64 bar;\n.visible .entry k(.param .u64 out, .param .u64 a, .param .u64 map)\n{{"
)
MADE = """
    mov.u32 %r0, %tid.x; mov.u32 %r20, bar; mov.u32 %r21, s; setp.eq.u32 %p1, %r0, 0; ld.param.u64 %rd0, [out];
    ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [map];
    shl.b32 %r1, %r0, 2; mov.u32 %r2, m; add.u32 %r1, %r1, %r2; mov.u32 %r3, 0; st.shared.u32 [%r1], %r3;
    bar.warp.sync -1;
"""
COPIED = (
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3], [%r2], 128;"
    "fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;"
)
LOADED = f"""
    @%p1 mbarrier.init.shared::cta.b64 [%r20], 1; @%p1 fence.mbarrier_init.release.cluster; bar.warp.sync -1;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r20], 128;
    mov.u32 %r5, 4; mov.u32 %r6, 2; @%p1 {TMA} [%r21], [%rd3, {{%r5, %r6}}], [%r20];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r20], 0; @!%p2 bra W;
    shl.b32 %r1, %r0, 2; add.u32 %r4, %r21, %r1; ld.shared.u32 %r4, [%r4]; cvt.u64.u32 %rd1, %r1;
    add.u64 %rd1, %rd0, %rd1; st.global.u32 [%rd1], %r4;
"""


def replaced(**fields: object) -> str:
    """tensormap.replace of each field of the map in shared memory; by dimension where values are a tuple."""
    text = ""
    for name, value in fields.items():
        kind = "b64" if name in ("global_address", "global_stride") else "b32"
        start = f"@%p1 tensormap.replace.tile.{name}.shared::cta.b1024.{kind} [%r2],"
        text += (
            "".join(f"{start} {i}, {v};" for i, v in enumerate(value))
            if isinstance(value, tuple)
            else f"{start} {value};"
        )
    return text + "bar.warp.sync -1;"


TENSOR = {
    "global_address": "%rd2", "rank": 1, "global_dim": (16, 8), "global_stride": (64,), "box_dim": (8, 4),
    "element_stride": (1, 1), "elemtype": 7, "interleave_layout": 0, "swizzle_mode": 0, "fill_mode": 0,
}  # fmt: skip


def run(body: str, target: str = "sm_90a") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(what was copied, the tensor, the map that the kernel made)."""
    a, out = np.arange(128, dtype=np.float32).reshape(8, 16), np.zeros((4, 8), np.float32)
    made = np.zeros(16, np.uint64)
    text = HEADER.format(target=target) + REGISTERS + MADE + body + "ret;\n}"
    run_ptx(text, "k", grid=1, block=32, args=[out, a, made])
    return out, a, made


def test_a_map_is_made_of_zeros_field_by_field() -> None:
    out, a, _ = run(replaced(**TENSOR) + COPIED + LOADED)
    assert np.array_equal(out, a[2:6, 4:12])


@pytest.mark.parametrize("element", ELEMENTS)
def test_replaced_fields_are_those_of_an_encoded_map(element: str) -> None:
    number = list(ELEMENTS).index(element)
    packed = number > 13
    sizes, strides, box = (4096, 77, 12), ((1 << 37) + 4096, 1 << 39), (128 if packed else 64, 5, 3)
    swizzled = not packed and ELEMENTS[element].bits * box[0] <= 1024
    floats = 6 <= number <= 12
    fields = {
        "global_address": 1 << 40, "rank": 2, "global_dim": sizes, "global_stride": strides, "box_dim": box,
        "element_stride": (1, 3, 8), "elemtype": number, "interleave_layout": 0, "swizzle_mode": 3 * swizzled,
        "fill_mode": int(floats),
    }  # fmt: skip
    _, _, made = run(replaced(**fields) + COPIED, "sm_100a")
    wanted = TiledMap(
        1 << 40, element, sizes, strides, box, (1, 3, 8), "128B" if swizzled else "none", fill_nan=floats,
        l2_promotion="none",
    )  # fmt: skip
    known = int.from_bytes(encode(wanted), "little") & ~(15 << 64 | 1 << 85)  # the kind, and the mark of large ones
    assert int.from_bytes(made.tobytes(), "little") == known


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"swizzle_mode": 4}, "swizzle_96B"), ({"swizzle_mode": 3, "swizzle_atomicity": 3}, "atomicity"),
        ({"interleave_layout": 2, "swizzle_mode": 1}, "interleave"),
    ],
)  # fmt: skip
def test_rare_fields_are_replaced(fields: dict[str, int], word: str) -> None:
    _, _, made = run(replaced(**fields) + COPIED, "sm_103a")
    wanted = {"swizzle_96B": 1, "atomicity": 3, "interleave": 2}[word]
    assert FIELDS[word].get(int.from_bytes(made.tobytes()[:64], "little")) == wanted


def test_a_copied_map_is_acquired_before_it_is_used() -> None:
    without = COPIED.partition("fence.proxy")[0]
    with pytest.raises(SimulationFault, match=r"no fence\.proxy\.tensormap::generic\.acquire") as fault:
        run(replaced(**TENSOR) + without + LOADED)
    assert fault.value.kind == "proxy-fence"


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("elemtype", 16, "a constant from 0 to 15"), ("fill_mode", "%r3", "a constant from 0 to 1"),
        ("rank", (1, 2), "where the field has dimensions"), ("box_dim", 4, "where the field has dimensions"),
    ],
)  # fmt: skip
def test_values_that_no_field_has_are_refused(field: str, value: object, text: str) -> None:
    with pytest.raises(PtxError, match=text):
        run(replaced(**{field: value}))
