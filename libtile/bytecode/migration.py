# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes between versions that are not a field of an op or a type: upgrade and downgrade side by side.

What is a field (an op's operand, attribute or result, a type's parameter, an enum's case, a debug field) needs no rule
here: its `since` and its default in the declarations drive both directions (see ops_codec.py and types_codec.py). A
missing field is read as its default; a default is left out for an older version; anything else is refused.
"""

from __future__ import annotations

from libtile.bytecode.errors import InvalidError, MigrationError
from libtile.bytecode.model import Attribute, Dictionary, Function, Global, Integer, Module, OptimizationHints
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


class HintMigration:
    """What becomes of the optimization hints that the version written cannot hold.

    `for_target` (`"sm_90"`) is the architecture that hints for `default` are written for. With `drop`, hints that the
    version cannot hold even so are left out, and `warnings` says which; without it, they are refused. With `as_read`
    the version is the one that the module was read from: files hold newer hints, and readers take them.
    """

    def __init__(
        self,
        spec: Spec,
        version: Version,
        for_target: str | None = None,
        drop: bool = False,
        *,
        as_read: bool = False,
    ) -> None:
        if for_target is not None and for_target not in spec.hint_architectures:
            raise InvalidError(
                f"optimization hints cannot be written for '{for_target}'",
                expected=f"one of {', '.join(spec.hint_architectures)}",
            )
        self.spec = spec
        self.version = version
        self.for_target = for_target
        self.drop = drop
        self.as_read = as_read
        self._dropped: dict[str, tuple[Version, int]] = {}

    def downgrade(self, hints: OptimizationHints) -> OptimizationHints:
        """The hints as the version can hold them; MigrationError when it cannot. Upgrading needs nothing."""
        if self.for_target is not None and self.version < self.spec.change("DEFAULT_ARCHITECTURE"):
            hints = _for_target(hints, self.for_target, self.spec)
        if self.drop:
            return self._left_out(hints)
        return hints if self.as_read else self._checked(hints)

    def _checked(self, hints: OptimizationHints) -> OptimizationHints:
        for architecture, keys in hints.items:
            if (required := self._newer_architecture(architecture)) is not None:
                raise self._refused("optimization hints for 'default' require", "default", required)
            for key, _ in _keys(architecture, keys):
                if (required := self._newer_key(key)) is not None:
                    raise self._refused(f"optimization hint '{key}' requires", key, required)
        return hints

    def _left_out(self, hints: OptimizationHints) -> OptimizationHints:
        kept = []
        for architecture, keys in hints.items:
            if (required := self._newer_architecture(architecture)) is not None:
                self._drop("optimization hints for 'default'", required)
                continue
            items = _keys(architecture, keys)
            for key, _ in items:
                if (required := self._newer_key(key)) is not None:
                    self._drop(f"optimization hint '{key}'", required)
            kept.append((architecture, Dictionary(tuple(item for item in items if self._newer_key(item[0]) is None))))
        return OptimizationHints(tuple(kept))

    def _newer_architecture(self, architecture: str) -> Version | None:
        """The version that the name of an architecture needs, where that is newer than the one written."""
        required = self.spec.change("DEFAULT_ARCHITECTURE")
        return required if architecture == "default" and required > self.version else None

    def _newer_key(self, key: str) -> Version | None:
        hint = self.spec.hints.get(key)
        return hint.since if hint is not None and hint.since > self.version else None

    def _refused(self, what: str, feature: str, required: Version) -> MigrationError:
        return MigrationError(
            f"{what} bytecode version {required}+, but targeting {self.version}",
            feature=f"optimization_hints.{feature}",
            required=required,
            target=self.version,
        )

    def _drop(self, what: str, required: Version) -> None:
        self._dropped[what] = required, self._dropped.get(what, (required, 0))[1] + 1

    @property
    def warnings(self) -> list[str]:
        """A sentence about each kind of hint that was left out."""
        return [
            f"left out {what} of {count} op{'s' if count > 1 else ''}: bytecode version {required}+ is needed for "
            f"them, but targeting {self.version}"
            for what, (required, count) in self._dropped.items()
        ]


def _keys(architecture: str, keys: Attribute) -> tuple[tuple[str, Attribute], ...]:
    if not isinstance(keys, Dictionary):
        raise InvalidError(f"expected dictionary attribute for optimization_hints entry `{architecture}`")
    return keys.items


def _for_target(hints: OptimizationHints, target: str, spec: Spec) -> OptimizationHints:
    """The hints for `default` as hints for the target, key by key; a key that the target has of its own wins.

    A value that is not valid for the target is no fallback for it, and is left out (optimization guide, 12.1).
    """
    given = dict(hints.items)
    if "default" not in given:
        return hints
    merged = {k: v for k, v in _keys("default", given.pop("default")) if _is_valid(spec, target, k, v)}
    merged.update(_keys(target, given.get(target, Dictionary(()))))
    given[target] = Dictionary(tuple(sorted(merged.items(), key=_name)))
    return OptimizationHints(tuple(sorted(given.items(), key=_name)))


def _name(item: tuple[str, Attribute]) -> str:
    return item[0]


def _is_valid(spec: Spec, architecture: str, key: str, value: Attribute) -> bool:
    hint = spec.hints.get(key)
    return hint is None or not isinstance(value, Integer) or hint.problem(architecture, value.value) is None
