# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a tool has otherwise in modules of Python and of xDSL, each when it is loaded: see `libtile_tools.startup`.

All of it is about classes, of which a tool makes a thousand and uses some hundred: they are made faster, and what says
what ops and attributes consist of is worked out when it is first asked for. A process that imports libtile as a library
has none of this, and what it does is the same.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

# -- classes ----------------------------------------------------------------------------------------------------------

_KNOWN_TO_RECORDS = {"init", "repr", "eq", "frozen"}


def make_dataclasses_as_records(dataclasses: ModuleType) -> None:
    """Classes of fields are made by `libtile.support.records`, where that knows what they ask for: in half the time."""
    made_there = dataclasses.dataclass

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        def make(cls: type) -> type:
            if options.keys() <= _KNOWN_TO_RECORDS and not _asks_for_more(cls, dataclasses):
                from libtile.support import records

                return records.dataclass(cls, **options)
            return made_there(cls, **options)

        return make if cls is None else make(cls)

    dataclasses.dataclass = dataclass  # type: ignore[attr-defined]


def _asks_for_more(cls: type, dataclasses: ModuleType) -> bool:
    """Whether a class has fields with more to them than a default."""
    from inspect import get_annotations

    try:
        annotations = get_annotations(cls)
    except NameError:  # where Python evaluates them on demand, and they name what only type checkers import
        return True
    for name, annotation in annotations.items():
        if isinstance(cls.__dict__.get(name), dataclasses.Field):
            return True
        if isinstance(annotation, str):
            if "InitVar" in annotation or "KW_ONLY" in annotation:
                return True
        elif annotation is dataclasses.KW_ONLY or isinstance(annotation, dataclasses.InitVar):
            return True
    return False


def leave_classes_plain(_: ModuleType) -> None:
    """From here on, what derives from `abc.ABC` is a class as any other.

    xDSL's attributes, ops and traits do, and so does everything that derives from them: each takes longer to make, and
    Python runs code of its own to say whether an object is of such a class, above all where it is not. Given up are to
    register classes with these, and that one with abstract methods is not instantiated, which tests find: the library
    has classes as they are. `abc.ABCMeta`, and all that has derived from `ABC` before, is left as it is; and so are
    packages that register classes (`load_with_abstract_classes`).
    """
    import abc
    import contextlib  # noqa: F401  # this and the next use more of what such a class can do

    import typing_extensions  # noqa: F401

    global _abstract
    _abstract = abc.ABC
    abc.ABC = type("ABC", (), {"__slots__": (), "__module__": "abc", "__doc__": abc.ABC.__doc__})  # type: ignore[misc, assignment]


_abstract: type | None = None
"""The real `abc.ABC`, where another stands in its place."""


def load_with_abstract_classes(load: Callable[[], None]) -> None:
    """Load a package whose classes derive from the real `abc.ABC`: numpy's generators register classes with theirs."""
    import abc

    plain = abc.ABC
    abc.ABC = _abstract or plain  # type: ignore[misc, assignment]
    try:
        load()
    finally:
        abc.ABC = plain  # type: ignore[misc]


# -- definitions ------------------------------------------------------------------------------------------------------


class _FormatOnDemand:
    """An assembly format that is parsed when an op is first printed or read with it."""

    def __init__(self, text: str, definition: Any):
        self.text = text
        self.definition = definition
        self._program: Any = None

    @property
    def program(self) -> Any:
        if self._program is None:
            from xdsl.irdl.declarative_assembly_format_parser import FormatParser

            self._program = FormatParser(self.text, self.definition).parse_format()
        return self._program

    def parse(self, *arguments: Any) -> Any:
        return self.program.parse(*arguments)

    def print(self, *arguments: Any) -> None:
        self.program.print(*arguments)


def defer_formats(module: ModuleType) -> None:
    """xDSL parses the assembly format of every op of a dialect that is loaded; a compilation needs none of them."""
    module.FormatProgram.from_str = staticmethod(_FormatOnDemand)


def defer_attributes(module: ModuleType) -> None:
    """The definition of a class of attributes is worked out from its annotations when it is first asked for."""
    definition = module.ParamAttrDef
    define = definition.from_pyrdl

    class OnDemand(definition):  # type: ignore[misc, valid-type]
        def __init__(self, cls: type):
            self.cls = cls

        def __getattr__(self, name: str) -> Any:
            if name not in ("name", "parameters"):
                raise AttributeError(name)
            made = define(self.cls)
            self.name, self.parameters = made.name, made.parameters
            return getattr(made, name)

    definition.from_pyrdl = staticmethod(OnDemand)


def defer_operations(module: ModuleType) -> None:
    """The definition of an op of xDSL's dialects is made when its class is asked for it, for an op, or to read one. Its
    traits can be asked for before. libtile's own ops have such definitions by themselves."""
    define_now = module.irdl_op_definition
    left_out = set(module.Operation.mro())

    def irdl_op_definition(cls: Any) -> Any:
        if not cls.__module__.startswith("xdsl.dialects.") or "__new__" in cls.__dict__:
            return define_now(cls)
        traits = [b.__dict__["traits"] for b in cls.mro() if "traits" in b.__dict__ and b not in left_out]
        own = "traits" in cls.__dict__
        if len(traits) != own:
            return define_now(cls)
        if not own:
            cls.traits = module.OpTraits(tuple)
        waits = True

        def define() -> None:
            nonlocal waits
            if waits:
                waits = False
                if cls.__dict__.get("parse") is read:
                    del cls.parse
                define_now(cls)

        def make(kind: Any, *_: Any, **__: Any) -> Any:
            define()
            return object.__new__(kind)

        def definition(kind: Any) -> Any:
            define()  # which puts the class's own method in place of this one
            return kind.get_irdl_definition()

        def parse(kind: Any, parser: Any) -> Any:
            define()
            return kind.parse(parser)

        read = classmethod(parse)
        cls.__new__ = make
        cls.get_irdl_definition = classmethod(definition)
        if cls.assembly_format is not None and "parse" not in cls.__dict__:
            cls.parse = read
        return cls

    module.irdl_op_definition = irdl_op_definition  # type: ignore[attr-defined]
