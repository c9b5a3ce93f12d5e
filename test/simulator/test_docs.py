# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples of docs/simulator.md do what the page says."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "simulator.md"

ADD = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<8>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [n]; setp.ge.u32 %p1, %r4, %r5; @%p1 ret;
    mul.wide.u32 %rd1, %r4, 4; ld.param.u64 %rd2, [a]; ld.param.u64 %rd3, [b]; ld.param.u64 %rd4, [c];
    add.u64 %rd2, %rd2, %rd1; add.u64 %rd3, %rd3, %rd1; add.u64 %rd4, %rd4, %rd1;
    ld.global.f32 %f1, [%rd2]; ld.global.f32 %f2, [%rd3]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd4], %f3;
    ret;
}
"""


def test_example_of_the_page_prints_what_the_page_shows() -> None:
    text = PAGE.read_text()
    program = re.search(r"```python\n(import numpy.*?)```", text, re.DOTALL)
    shown = re.search(r"prints\n\n```text\n(.*?)```", text, re.DOTALL)
    assert program is not None and shown is not None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program[1], str(PAGE), "exec"), {})
    assert printed.getvalue() == shown[1]


def test_tensor_map_of_the_page_can_be_encoded() -> None:
    snippet = re.search(r"```python\n(from libtile.simulator import TensorMap.*?)```", PAGE.read_text(), re.DOTALL)
    assert snippet is not None
    imports, expression = snippet[1].strip().split("\n\n")
    names: dict[str, object] = {"array": np.zeros((256, 256), dtype=np.float16)}
    exec(imports, names)
    assert len(eval(expression, names).encode(0x7000)) == 128


def test_command_line_of_the_page_runs(tmp_path: Path) -> None:
    console = re.search(r"```console\n\$ python (-m .*?)```", PAGE.read_text(), re.DOTALL)
    assert console is not None
    arguments = console[1].replace("\\\n", " ").split()
    (tmp_path / "add.ptx").write_text(ADD)
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", np.arange(1000, dtype=np.float32))
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tmp_path,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "c.npy"), 2 * np.arange(1000, dtype=np.float32))
