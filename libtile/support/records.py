# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`dataclass`, `field` and `replace` as those of Python's `dataclasses`, for classes made in half the time.

A tool's process is over in a few hundred milliseconds, in which Python makes hundreds of classes. `dataclasses` writes
and compiles up to eight methods for each. Here one is written, `__init__`; the others are functions that all classes
share, or are made of `operator.attrgetter`, which is as fast as what would be written. To type checkers they are
those of `dataclasses`, and what `dataclasses` does with its own classes (`fields`, `replace`, `asdict`, inheritance),
it does with these: what it asks for is made when it asks.

Left out is what nothing here uses, and a TypeError says so for annotations: `InitVar`, `KW_ONLY`, the options `order`,
`unsafe_hash`, `kw_only`. The signature is not put into a docstring.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

__all__ = ["dataclass", "field", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
else:
    from collections.abc import Callable
    from operator import attrgetter
    from reprlib import recursive_repr
    from typing import Any, ClassVar

    _OWN = "__record_fields__"
    _ABSENT = object()
    """Stands for a value that is not given."""

    execute = exec
    """Executes the text of an `__init__`; a tool's start puts a function here that keeps the code of texts."""

    class Field:
        """What a class says of one field; `name` and `type` are put in when it is made."""

        __slots__ = ("compare", "default", "default_factory", "init", "name", "repr", "type")

        def __init__(self, default: Any, default_factory: Any, init: bool, repr: bool, compare: bool):
            self.name = self.type = ""
            self.default = default
            self.default_factory = default_factory
            self.init = init
            self.repr = repr
            self.compare = compare

    def field(
        *,
        default: Any = _ABSENT,
        default_factory: Any = _ABSENT,
        init: bool = True,
        repr: bool = True,
        compare: bool = True,
    ) -> Any:
        """What there is to say of a field beside its type: see `dataclasses.field`."""
        return Field(default, default_factory, init, repr, compare)

    def dataclass(
        cls: type | None = None,
        /,
        *,
        init: bool = True,
        repr: bool = True,
        eq: bool = True,
        frozen: bool = False,
        slots: bool = False,
    ) -> Any:
        """Make a class one of named fields: see `dataclasses.dataclass`."""

        def make(cls: type) -> type:
            return _made(cls, init, repr, eq, frozen, slots)

        return make if cls is None else make(cls)

    def replace(record: Any, /, **changes: Any) -> Any:
        """A copy of an object with some fields changed: see `dataclasses.replace`."""
        for name, f in getattr(record, _OWN).items():
            if f.init:
                if name not in changes:
                    changes[name] = getattr(record, name)
            elif name in changes:
                raise ValueError(f"field {name} is declared with init=False, it cannot be specified with replace()")
        return record.__class__(**changes)

    def _made(cls: type, init: bool, repr: bool, eq: bool, frozen: bool, slots: bool) -> type:
        given = cls.__dict__
        fields = _fields(cls)
        members: dict[str, Any] = {_OWN: fields, "__record_frozen__": frozen, **_ON_DEMAND}
        if "__match_args__" not in given:
            members["__match_args__"] = tuple([f.name for f in fields.values() if f.init])
        if init and "__init__" not in given:
            members["__init__"] = _init(cls, fields, frozen, slots)
        if repr and "__repr__" not in given:
            members["__repr__"] = _repr
        own_hash = given.get("__hash__")
        if eq:
            equals, hashed = _comparison([f.name for f in fields.values() if f.compare])
            if "__eq__" not in given:
                members["__eq__"] = equals
            if own_hash is None:
                members["__hash__"] = hashed if frozen else None
        owner: list[type] = []
        if frozen:
            members["__setattr__"], members["__delattr__"] = _refusals(owner, tuple(fields))
            if slots:
                members |= {k: f for k, f in (("__getstate__", _state), ("__setstate__", _set_state)) if k not in given}
        if slots:
            cls = _with_slots(cls, fields, members)
        else:
            for name, value in members.items():
                setattr(cls, name, value)
        owner.append(cls)
        return cls

    def _fields(cls: type) -> dict[str, Field]:
        """The fields of a class by name, those of its bases first; what stands for a field in the class is its default
        from here on."""
        fields: dict[str, Field] = {}
        for base in cls.__mro__[-1:0:-1]:
            if _OWN in base.__dict__:
                fields |= base.__dict__[_OWN]
            elif "__dataclass_fields__" in base.__dict__:
                fields |= _of_dataclass(base)
        for name, annotation in _annotations(cls).items():
            kind = annotation.partition("[")[0] if isinstance(annotation, str) else annotation
            if kind in _CLASS_VARIABLES or getattr(kind, "__origin__", None) is ClassVar:
                continue
            if kind in _UNKNOWN:
                raise TypeError(f"'{cls.__qualname__}.{name}': '{kind}' is not known here; see dataclasses")
            default = cls.__dict__.get(name, _ABSENT)
            if isinstance(default, Field):
                made = default
                if made.default is not _ABSENT:
                    setattr(cls, name, made.default)
                else:
                    delattr(cls, name)
            else:
                made = Field(default, _ABSENT, True, True, True)
            if made.default is not _ABSENT and type(made.default).__hash__ is None:
                raise ValueError(f"mutable default for field '{name}': use default_factory")
            made.name, made.type = name, annotation
            fields[name] = made
        return fields

    if sys.version_info >= (3, 14):  # where they are made on demand
        from annotationlib import get_annotations as _annotations
    else:

        def _annotations(cls: type) -> dict[str, Any]:
            """Those of the class itself; `inspect.get_annotations` gives the same in ten times the time."""
            return cls.__dict__.get("__annotations__", {})  # noqa: RUF063  (see above)

    _CLASS_VARIABLES = ("ClassVar", "typing.ClassVar", ClassVar)
    _UNKNOWN = ("InitVar", "dataclasses.InitVar", "KW_ONLY", "dataclasses.KW_ONLY")

    def _of_dataclass(base: type) -> dict[str, Field]:
        from dataclasses import MISSING, fields

        found = {}
        for f in fields(base):
            default, factory = (_ABSENT if x is MISSING else x for x in (f.default, f.default_factory))
            made = found[f.name] = Field(default, factory, f.init, f.repr, f.compare)
            made.name, made.type = f.name, f.type
        return found

    def _with_slots(cls: type, fields: dict[str, Field], more: dict[str, Any]) -> type:
        """The class again, as slots are made with a class only; with `more` members, each of which would otherwise
        have Python look anew which methods the class has."""
        inherited = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
        members = {k: v for k, v in cls.__dict__.items() if k not in fields and k not in ("__dict__", "__weakref__")}
        members |= more
        members["__slots__"] = tuple([name for name in fields if name not in inherited])
        made = type(cls)(cls.__name__, cls.__bases__, members)
        made.__qualname__ = cls.__qualname__
        return made

    def _init(cls: type, fields: dict[str, Field], frozen: bool, slots: bool) -> Callable[..., None]:
        parameters, lines = ["self"], []
        variables: dict[str, Any] = {"absent": _ABSENT, "put": object.__setattr__}
        for number, (name, f) in enumerate(fields.items()):
            value = name
            if f.default_factory is not _ABSENT:
                variables[f"make_{number}"] = f.default_factory
                value = f"make_{number}()"
                if f.init:
                    parameters.append(f"{name}=absent")
                    value = f"{value} if {name} is absent else {name}"
            elif f.default is not _ABSENT:
                variables[f"default_{number}"] = f.default
                if f.init:
                    parameters.append(f"{name}=default_{number}")
                elif slots:
                    value = f"default_{number}"
                else:
                    continue
            elif f.init:
                parameters.append(name)
            else:
                continue
            lines.append(f"put(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        body = "\n ".join(lines or ["pass"])
        execute(f"def __init__({', '.join(parameters)}):\n {body}\n", variables)
        made: Callable[..., None] = variables["__init__"]
        made.__qualname__ = f"{cls.__qualname__}.__init__"
        made.__module__ = cls.__module__
        return made

    def _comparison(names: list[str]) -> tuple[Callable[[Any, object], Any], Callable[[Any], int]]:
        """`__eq__` and `__hash__` of a class by these fields."""
        get = attrgetter(*names) if names else lambda self: ()

        def __eq__(self: Any, other: object) -> Any:
            return get(self) == get(other) if other.__class__ is self.__class__ else NotImplemented

        def __hash__(self: Any) -> int:
            return hash(get(self))

        def equals_in_one(self: Any, other: object) -> Any:
            if other.__class__ is not self.__class__:
                return NotImplemented
            mine, others = get(self), get(other)
            return mine is others or bool(mine == others)  # as tuples compare

        return equals_in_one if len(names) == 1 else __eq__, __hash__

    @recursive_repr()
    def _repr(self: Any) -> str:
        shown = (f for f in getattr(self, _OWN).values() if f.repr)
        return f"{self.__class__.__qualname__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    def _refusals(owner: list[type], names: tuple[str, ...]) -> tuple[Callable[..., None], Callable[..., None]]:
        """`__setattr__` and `__delattr__` of a class whose fields are not changed; `owner` gets the class once it is
        made."""

        def refuse(self: Any, what: str, name: str) -> None:
            if type(self) is owner[0] or name in names:
                from dataclasses import FrozenInstanceError

                raise FrozenInstanceError(f"cannot {what} field {name!r}")

        def __setattr__(self: Any, name: str, value: Any) -> None:
            refuse(self, "assign to", name)
            super(owner[0], self).__setattr__(name, value)

        def __delattr__(self: Any, name: str) -> None:
            refuse(self, "delete", name)
            super(owner[0], self).__delattr__(name)

        return __setattr__, __delattr__

    def _state(self: Any) -> list[Any]:
        """For pickle and copy, which would set the attributes of an object."""
        return [getattr(self, name) for name in getattr(self, _OWN)]

    def _set_state(self: Any, state: list[Any]) -> None:
        for name, value in zip(getattr(self, _OWN), state, strict=True):
            object.__setattr__(self, name, value)

    class _OnDemand:
        """An attribute that `dataclasses` asks for, taken from a class that it makes of the same fields."""

        def __init__(self, name: str):
            self.name = name

        def __get__(self, instance: Any, owner: type) -> Any:
            from dataclasses import field, make_dataclass

            cls = next(c for c in owner.__mro__ if _OWN in c.__dict__)
            fields = []
            for f in cls.__dict__[_OWN].values():
                words = {"default": f.default, "default_factory": f.default_factory}
                words = {word: value for word, value in words.items() if value is not _ABSENT}
                fields.append((f.name, f.type, field(**words, init=f.init, repr=f.repr, compare=f.compare)))
            options = {"init": False, "repr": False, "eq": False}
            made = make_dataclass(cls.__name__, fields, **options, frozen=cls.__dict__["__record_frozen__"])
            for name in _ON_DEMAND:
                setattr(cls, name, getattr(made, name))
            return getattr(made, self.name)

    _ON_DEMAND = {name: _OnDemand(name) for name in ("__dataclass_fields__", "__dataclass_params__")}
