# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attributes of functions, of memory of the module, and of what runs other code: each that a program gives changes the
code, or is refused where it stands, or has a remark. Those of ops in a body are varied in test_every_attribute.py."""

from __future__ import annotations

from functools import cache

import pytest

import libtile
from libtile.support.errors import LibtileError

F = "tile<f32>"
POINTER = "!nv_tileaa.ptr<f32, 1>"
SPEC = "#nv_tileaa.kernel_spec<entry, num_warps=4, num_ctas=1>"
STORE = f"nv_tileaa.store %o, %f : tile<{POINTER}>, {F}"
CALLED = f"""
nv_tileaa.func @a(%x: {F}) -> {F} {{
  nv_tileaa.return %x : {F}
}}
nv_tileaa.func @b(%x: {F}) -> {F} {{
  %y = nv_tileaa.addf %x, %x : {F}, {F} -> {F}
  nv_tileaa.return %y : {F}
}}
nv_tileaa.func @other_kernel(%x: index) attributes {{kernel_spec = {SPEC}}} {{
  nv_tileaa.return
}}"""
READ = f"""
%g = nv_tileaa.get_global {{name = @NAME}} : {POINTER}
%p = nv_tileaa.splat %g : {POINTER} -> tile<{POINTER}>
%x = nv_tileaa.load %p : tile<{POINTER}> -> {F}
nv_tileaa.store %o, %x : tile<{POINTER}>, {F}
"""
PRINT = f'nv_tileaa.print %f {{format = "%f"}} : {F}'
QUEUE = f"!nv_tileaa.queue<({F})>"
HANDED = f"""
%q = nv_tileaa.create_queue {{depth = 2 : i64QUEUE}} : {QUEUE}
nv_tileaa.execute {{agent_warps = [4 : i64, 4 : i64]}} ({{
  nv_tileaa.queue.put %q ({{
    nv_tileaa.queue.yield %f : {F}
  }}) : {QUEUE}
  nv_tileaa.yield
}}, {{
  %r = nv_tileaa.queue.get %q GET({{
  ^bb0(%x: tensor<f32>):
    nv_tileaa.queue.yield %x : {F}
  }}) : {QUEUE} -> {F}
  nv_tileaa.store %o, %r : tile<{POINTER}>, {F}
  nv_tileaa.yield
}})
"""


def kernel(body: str, more: str = "", spec: str = SPEC, of_f: str = "", outside: str = "") -> str:
    attributes = f"attributes {{kernel_spec = {spec}{more}}}"
    head = f"{outside}\nnv_tileaa.func @k(%o: tile<{POINTER}>, %f: {F} {of_f}) {attributes}"
    return f"{head} {{\n{body}\nnv_tileaa.return\n}}"


def spec(words: str) -> str:
    return kernel(STORE, spec=f"#nv_tileaa.kernel_spec<{words}>")


def memory(more: str = "", value: str = "1.0", name: str = "g") -> str:
    given = f'nv_tileaa.global {{sym_name = "{name}", value = dense<{value}> : !cuda_tile.tile<4xf32>{more}}}'
    return kernel(READ.replace("NAME", name), outside=given)


def two(named: str) -> str:
    """Reads one of two globals."""
    given = 'nv_tileaa.global {{sym_name = "{}", value = dense<{}> : !cuda_tile.tile<4xf32>}}'
    return kernel(READ.replace("NAME", named), outside=given.format("g", "1.0") + "\n" + given.format("h", "2.0"))


def call(named: str, op: str = "call", by: str = "callee", more: str = "") -> str:
    called = f"%r = nv_tileaa.{op} %f {{{by} = @{named}{more}}} : {F} -> {F}"
    return kernel(f"{called}\nnv_tileaa.store %o, %r : tile<{POINTER}>, {F}", outside=CALLED)


def launch(named: str) -> str:
    """A function of the host that launches a kernel."""
    host = f"\nnv_tileaa.func @host(%n: index) {{\nnv_tileaa.launch_func %n, %n, %n, %n {{kernel = @{named}}} : "
    return CALLED + host + "index, index, index, index\nnv_tileaa.return\n}"


def agents(more: str) -> str:
    regions = "({\n" + STORE + "\nnv_tileaa.yield\n}, {\n" + PRINT + "\nnv_tileaa.yield\n})"
    return kernel(f"nv_tileaa.execute {{{more}}} {regions}")


def queue(of_queue: str = "", of_get: str = "", depth: int = 2) -> str:
    text = HANDED.replace("QUEUE}", f"{of_queue}}}").replace("GET(", f"{of_get} (")
    return kernel(text.replace("depth = 2", f"depth = {depth}"))


def fragment(more: str) -> str:
    return call("a", "plugin", "plugin", more)


CAPABILITY = ", compute_capability = #nv_tileaa.compute_capability<sm_80>"
GIVES_NOBODY = "which nobody gives a"
BASES = {
    "func": kernel(STORE),
    "global": memory(),
    "get_global": two("g"),
    "call": call("a"),
    "plugin": fragment(""),
    "launch_func": launch("other_kernel"),
    "execute": agents("agent_warps = [4 : i64, 4 : i64]"),
    "create_queue": queue(),
    "queue.get": queue(),
}
VARIED: list[tuple[str, str, str, str]] = [
    ("func", "sym_name", kernel(STORE).replace("@k", "@other"), "code"),
    ("func", "function_type", kernel(STORE).replace("%f: tile<f32> )", "%f: tile<f32>, %g: tile<i8>)"), "code"),
    ("func", "sym_visibility", kernel(STORE, ', sym_visibility = "private"'), "op is \"private\", and a kernel that"),
    ("func", "sym_visibility", kernel(STORE, ', sym_visibility = "nested"'), "the host, which sees public ones alone"),
    ("func", "compute_capability", kernel(STORE, CAPABILITY), "is for sm_80"),
    ("func", "arg_attrs", kernel(STORE, of_f="{divisibility = 16 : i64}"), "remark: made of the type of parameter 1"),
    ("func", "kernel_spec", spec("entry, num_warps=8, num_ctas=1"), "code"),
    ("func", "kernel_spec", spec("entry, num_warps=4, num_ctas=1, occupancy=2"), "code"),
    ("func", "kernel_spec", spec("entry, num_warps=4, num_ctas=2"), "remark: would be done by each CTA"),
    ("func", "kernel_spec", spec("entry, num_warps=4, num_ctas=1, target=sm_80"), "is for sm_80, and code is"),
    ("func", "kernel_spec", spec("num_warps=4, num_ctas=1"), "is no kernel (an entry by its kernel_spec)"),
    ("global", "sym_name", memory(name="h"), "code"),
    ("global", "value", memory(value="2.0"), "code"),
    ("global", "alignment", memory(", alignment = 64 : i64"), "code"),
    ("global", "alignment", memory(", alignment = 3 : i64"), "expects alignment to be a power of two, but got 3"),
    ("global", "constant", memory(", constant"), "code"),
    ("global", "sym_visibility", memory(', sym_visibility = "private"'), "code"),
    ("global", "sym_visibility", memory(', sym_visibility = "nested"'), "code"),
    ("global", "sym_visibility", memory(', sym_visibility = "zot"'), "expects a sym_visibility of public"),
    ("get_global", "name", two("h"), "code"),
    ("call", "callee", call("b"), "code"),
    ("call", "callee", call("none"), "'none' does not reference a valid nv_tileaa.func"),
    ("plugin", "plugin", call("b", "plugin", "plugin"), "code"),
    ("plugin", "layouts", fragment(", layouts = []"), GIVES_NOBODY),
    *(("plugin", name, fragment(f", {name} = 1 : i64"), GIVES_NOBODY)
      for name in ("registers", "shared_memory", "tensor_memory", "named_barriers")),
    ("launch_func", "kernel", launch("a"), "'a' is no kernel: only kernels are launched"),
    ("execute", "agent_warps", agents("agent_warps = [4 : i64, 1 : i64]"), "code"),
    ("execute", "agent_warps", agents("agent_warps = [64 : i64, 4 : i64]"), "agents of 32 warps at most"),
    ("execute", "agent_registers",
     agents("agent_warps = [4 : i64, 4 : i64], agent_registers = [40 : i64, 232 : i64]"), "code"),
    ("execute", "agent_registers",
     agents("agent_warps = [4 : i64, 4 : i64], agent_registers = [41 : i64, 232 : i64]"), "a multiple of 8"),
    *(("execute", name, agents(f"agent_warps = [4 : i64, 4 : i64], {name} = 1 : i64"), "which nobody gives agents")
      for name in ("registers", "shared_memory", "tensor_memory", "named_barriers")),
    ("create_queue", "depth", queue(depth=3), "code"),
    ("create_queue", "num_consumers", queue(", num_consumers = 2 : i64"), "consumer"),
    ("queue.get", "consumer_idx", queue(of_get="{consumer_idx = 1 : i64}"), "consumer"),
]  # fmt: skip
"""Of an op, an attribute and a module that has another value of it: what comes of it, `code` or what is said."""


@cache
def outcome(text: str) -> tuple[str, str, str]:
    """The PTX of a module and its remarks; or why there is none."""
    try:
        module = libtile.parse(text)
        libtile.verify(module)
        made = libtile.compile(module, gpu_name="sm_90", emit="ptx")
    except LibtileError as error:
        return "", "", str(error)
    return made.ptx, "\n".join(f"{r.message} {r.arguments}" for r in made.remarks), ""


@pytest.mark.parametrize(("op", "attribute", "text", "comes"), VARIED, ids=lambda v: v if "\n" not in str(v) else "")
def test_another_value_has_its_effect_or_is_said(op: str, attribute: str, text: str, comes: str) -> None:
    before, said_before, problem = outcome(BASES[op])
    assert not problem or op == "launch_func"
    after, said, refused = outcome(text)
    if comes == "code":
        assert not refused and after != before
    elif comes.startswith("remark: "):
        assert not refused and after == before and comes[8:] in said and comes[8:] not in said_before
    else:
        assert comes in refused and refused.startswith("-:"), refused


def test_a_parameter_of_cuda_tile_says_more_than_its_type_to_no_effect() -> None:
    text = "cuda_tile.module @m { entry @k(%a: tile<f32> {cuda_tile.zot = 1 : i64, other.zot}) { return } }"
    said = [str(r.arguments) for r in libtile.compile(libtile.parse(text), gpu_name="sm_90", emit="ptx").remarks]
    assert sum("code is made of the type of parameter 0 alone" in one for one in said) == 1, said
