# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`from module import names` of a module that is loaded, without asking it for what it has not got.

Python asks each module that an import statement names whether it is a package, by an attribute. A module that is none
answers by an exception with a message, in which its name and its state are looked up: five times what all the rest of
the statement takes, 4,000 times in a small compilation, most of it in the modules of a tool that is starting. So here
such a module is given out at once. What is not as plain as that (a module that is still being loaded, a name that a
package has not got yet, a relative import) is Python's to do, as ever.
"""

from __future__ import annotations

# This comes before there is a bundle: what is imported here is builtin or frozen.
import builtins
import sys

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

_MODULE = type(sys)


def install() -> None:
    """Have import statements of this process ask here first."""
    builtins.__import__ = quick(builtins.__import__)


def quick(python: Any) -> Any:
    """What stands for `builtins.__import__`, and leaves to that what it does not do."""
    loaded = sys.modules

    def __import__(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if fromlist and not level:
            module = loaded.get(name)
            if type(module) is _MODULE:
                has = module.__dict__
                if not getattr(has.get("__spec__"), "_initializing", False):
                    if "__path__" not in has:
                        return module
                    for each in fromlist:
                        if each not in has:
                            break
                    else:
                        return module
        return python(name, globals, locals, fromlist, level)

    return __import__
