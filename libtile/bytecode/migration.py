# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes between versions that are not a field of an op or a type: upgrade and downgrade side by side.

What is a field (an op's operand, attribute or result, a type's parameter, an enum's case, a debug field) needs no rule
here: its `since` and its default in the declarations drive both directions (see ops_codec.py and types_codec.py). A
missing field is read as its default; a default is left out for an older version; anything else is refused.
"""

from __future__ import annotations

from libtile.bytecode.errors import InvalidError, MigrationError
from libtile.bytecode.model import Dictionary, Function, Global, Module, OptimizationHints
from libtile.spec import Spec, Version

NO_HINTS = OptimizationHints()

# -- ENTRY_HINTS_MANDATORY: 13.5 dropped the flag that announced a kernel's hints, so that they are always there.


def upgrade_hints(hints: OptimizationHints | None, spec: Spec, version: Version) -> OptimizationHints | None:
    """What a record of `version` holds for hints that may be absent: absent ones mean empty ones.

    An older version has hints, empty ones too, announced by the flag: the reference writer does so.
    """
    return NO_HINTS if hints is None and version >= spec.change("ENTRY_HINTS_MANDATORY") else hints


# -- ARGUMENT_ATTRIBUTES: 13.5 records hold attributes per argument. Older ones mean that every argument has none.


def upgrade_argument_attributes(function: Function) -> tuple[Dictionary, ...]:
    return ()


def downgrade_argument_attributes(function: Function, spec: Spec, version: Version) -> None:
    if any(not isinstance(a, Dictionary) or a.items for a in function.argument_attributes):
        required = spec.change("ARGUMENT_ATTRIBUTES")
        raise MigrationError(
            f"argument attributes of '{function.name}' require bytecode version {required}+, but targeting {version}",
            feature="arg_attrs",
            required=required,
            target=version,
            op="cuda_tile.entry",
        )


# -- GLOBAL_VISIBILITY: 13.3 added the visibility and the constant flag; older globals are public and not constant.


def upgrade_global() -> tuple[str, bool]:
    return "public", False


def downgrade_global(variable: Global, spec: Spec, version: Version) -> None:
    required = spec.change("GLOBAL_VISIBILITY")
    if variable.visibility != "public":
        raise MigrationError(
            f"global `{variable.name}` uses non-public symbol visibility, which cannot be encoded in bytecode version "
            f"{version} (requires bytecode {required}+)",
            feature="symbol_visibility",
            required=required,
            target=version,
            op="cuda_tile.global",
        )
    if variable.constant:
        raise MigrationError(
            f"constant global `{variable.name}` cannot be encoded in bytecode version {version} "
            f"(the `constant` attribute requires bytecode {required}+)",
            feature="constant",
            required=required,
            target=version,
            op="cuda_tile.global",
        )


# -- PRODUCER_SECTION: 13.3 added it. It says nothing about the program, so that a downgrade drops it.


def downgrade_producer(producer: str | None, spec: Spec, version: Version) -> str | None:
    return producer if version >= spec.change("PRODUCER_SECTION") else None


# -- PREVIEW: preview content has no compatibility at all; it exists at the current version only.


def check_preview(module: Module, version: Version) -> None:
    if module.preview and version != module.spec.current:
        raise MigrationError(
            f"a preview module is only valid at bytecode version {module.spec.current}, targeting {version}",
            feature="preview",
            required=module.spec.current,
            target=version,
        )


# -- DEFAULT_ARCHITECTURE: 13.3 added `default` beside the named architectures, and a key for worker warps.


def downgrade_architecture(
    hints: OptimizationHints, architecture: str, spec: Spec, version: Version
) -> OptimizationHints:
    """Hints for `default` as hints for the one named architecture, unless it has its own. For the older versions."""
    if version >= spec.change("DEFAULT_ARCHITECTURE") or hints.get("default") is None:
        return hints
    others = tuple(item for item in hints.items if item[0] != "default")
    if any(name == architecture for name, _ in others):
        return OptimizationHints(others)
    return OptimizationHints(tuple((architecture if n == "default" else n, v) for n, v in hints.items))


def check_hints(spec: Spec, hints: OptimizationHints, version: Version) -> None:
    """Refuse hint architectures and keys that are newer than `version`. Upgrading needs nothing."""
    for architecture, keys in hints.items:
        required = spec.change("DEFAULT_ARCHITECTURE")
        if architecture == "default" and version < required:
            raise MigrationError(
                f"optimization hints for 'default' require bytecode version {required}+, but targeting {version}",
                feature="optimization_hints.default",
                required=required,
                target=version,
            )
        if not isinstance(keys, Dictionary):
            raise InvalidError(f"expected dictionary attribute for optimization_hints entry `{architecture}`")
        for name, _ in keys.items:
            hint = spec.hints.get(name)
            if hint is not None and hint.since > version:
                raise MigrationError(
                    f"optimization hint '{name}' requires bytecode version {hint.since}+, but targeting {version}",
                    feature=f"optimization_hints.{name}",
                    required=hint.since,
                    target=version,
                )
