# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The names of what a compiled module defines, in LLVM IR, PTX and the cubin alike.

- A kernel keeps its name: a launcher looks it up. `kernel_problem` says why there can be no kernel of a name.
- A global keeps a name that nobody else can mean; any other becomes `__libtile_global_` and a form that tells
  all names apart.
- What the compiler makes itself begins with `__libtile_`, which no kernel and no kept name of a global does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from libtile.codegen.ptx_text import is_identifier

OWN = "__libtile_"
LAUNCH_META_DATA = "___NV_TILE_LAUNCH_META_DATA___"

MAX_LENGTH = 16384
"""Characters of the longest name: it stands in PTX once for each parameter, and more often still in a cubin."""

_TAKEN = re.compile(rf"WARP_SZ|{LAUNCH_META_DATA}|(?:{OWN}|__nv_|__nvvm_|__cuda_|\$L?__).*", re.DOTALL)
"""Names that ptxas, libdevice, LLVM's labels and the compiler use."""

_SCOPED = re.compile(r"__.*|\$.*|.*_param_\d+|(?:func_)?(?:retval|param)\d+|vprintf|malloc|free", re.DOTALL)
"""Names that LLVM gives to parameters and locals, which would hide a global inside a kernel, and functions of the
device's runtime."""

_LOCAL = re.compile(r"(?P<owner>.+)_param_\d+|(?P<result>func_retval\d+)|(?P<call>(?:retval|param)\d+)", re.DOTALL)
"""Names that LLVM's PTX has for parameters of functions, for their results, and around calls."""

_HEAD = 64
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")


def kernel_problem(name: str) -> str:
    """Why there cannot be a kernel of this name, in words that follow "the kernel's name"; empty if there can."""
    if len(name) > MAX_LENGTH:
        return f"has {len(name)} characters, and the limit is {MAX_LENGTH}"
    if not is_identifier(name):
        return "is no PTX identifier: letters, digits, '_' and '$', no digit first, and not '_' or '$' alone"
    return "is taken: PTX, libdevice or the compiler uses it" if _TAKEN.fullmatch(name) else ""


def clash(name: str, calls: Mapping[str, Collection[str]]) -> str:
    """What has a kernel's name already, of what a module's kernels call (by kernel), and of the names that LLVM gives
    to parameters and results of other functions, inside of which it would hide the kernel: ptxas crashes on most of
    these. In words that follow "the kernel has the name of"; empty if there is nothing."""
    called = {function for of_one in calls.values() for function in of_one}
    if name in called:
        return "a device function that the module calls"
    if (local := _LOCAL.fullmatch(name)) is None:
        return ""
    if owner := local["owner"]:
        return f"a parameter of {owner!r} in PTX" if owner in {*calls, *called} - {name} else ""
    if local["result"]:
        return "what device functions that the module calls give, in PTX" if called else ""
    elsewhere = any(functions for kernel, functions in calls.items() if kernel != name)
    return "what a call is given or gives in PTX, and another kernel calls" if elsewhere else ""


def global_name(name: str) -> str:
    """The symbol of a global; different names have different symbols."""
    if len(name) <= MAX_LENGTH and is_identifier(name) and not _TAKEN.fullmatch(name) and not _SCOPED.fullmatch(name):
        return name
    raw = name.encode("utf-8", errors="surrogatepass")
    mangled = "".join(chr(b) if b in _PLAIN else f"${b:02x}" for b in raw)
    if len(mangled) > MAX_LENGTH:
        from hashlib import sha256  # which loads OpenSSL, for a name in a thousand

        mangled = f"{mangled[:_HEAD]}$_{sha256(raw).hexdigest()}"
    return f"{OWN}global_{mangled}"


def own_name(purpose: str, *parts: object) -> str:
    """The symbol of something of the compiler's own, such as `own_name("scratch", kernel)`."""
    return OWN + "_".join([purpose, *map(str, parts)])
