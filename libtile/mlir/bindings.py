# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What differs between the packages that MLIR's Python bindings come in: how the dialects get into a context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from libtile.support.errors import LibtileError


def _jax(ir: ModuleType, context: Any) -> None:
    """jaxlib registers nothing by itself (what `jax` does when it starts)."""
    registry = ir.DialectRegistry()
    import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
    context.append_dialect_registry(registry)


_ADAPTERS: Mapping[str, Callable[[ModuleType, Any], None]] = {"jaxlib": _jax}
"""By the package's first name. IREE and mlir-python-bindings register all of theirs when a context is made."""


def require_bindings(ir: object) -> None:
    """LibtileError for what is not the module `ir` of MLIR's Python bindings."""
    if not isinstance(ir, ModuleType) or not hasattr(ir, "Context"):
        raise LibtileError(
            "expected the module `ir` of MLIR's Python bindings, such as jaxlib.mlir.ir: pip install 'libtile[mlir]'"
        )


def new_context(ir: ModuleType) -> Any:
    """A context of MLIR with every dialect loaded that the bindings bring, in which ops of ours are allowed."""
    require_bindings(ir)
    context = ir.Context()
    adapter = _ADAPTERS.get(ir.__name__.partition(".")[0])
    if adapter is not None:
        adapter(ir, context)
    context.load_all_available_dialects()
    context.allow_unregistered_dialects = True
    return context


def current_context(ir: ModuleType) -> Any:
    """The context that is entered, or a new one; LibtileError where ops of ours are not allowed."""
    require_bindings(ir)
    try:
        context = ir.Context.current
    except ValueError:  # none is
        context = None
    if context is None:
        return new_context(ir)
    if not context.allow_unregistered_dialects:
        raise LibtileError("the MLIR context has to allow unregistered dialects: set allow_unregistered_dialects")
    return context


def errors_of(ir: Any) -> tuple[type[Exception], ...]:
    """What the bindings raise for what MLIR refuses: newer ones have a class for it."""
    own = getattr(ir, "MLIRError", None)
    return (ValueError, RuntimeError) if own is None else (ValueError, RuntimeError, own)


def message_of(error: Exception) -> str:
    """What MLIR says, on one line."""
    return " ".join(str(error).split())
