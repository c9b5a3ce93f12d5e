# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a tool has otherwise in modules of Python and of xDSL, each when it is loaded: see `libtile_tools.startup`.

All of it is about classes, of which a tool makes a thousand and uses some hundred: they are made faster, and what says
what ops and attributes consist of is worked out when it is first asked for. A process that imports libtile as a library
has none of this, and what it does is the same.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any

# -- classes ----------------------------------------------------------------------------------------------------------

_KNOWN_TO_RECORDS = {"init", "repr", "eq", "frozen"}


def make_dataclasses_as_records(dataclasses: ModuleType) -> None:
    """xDSL's classes of fields are made by `libtile.support.records`, where that knows what they ask for: in half the
    time."""
    made_there = dataclasses.dataclass

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        def make(cls: type) -> type:
            known = cls.__module__.startswith("xdsl.") and options.keys() <= _KNOWN_TO_RECORDS
            if known and not _asks_for_more(cls, dataclasses):
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


_WITH_PLAIN_CLASSES = ("xdsl.", "libtile.")
_REGISTERING = "xdsl.dialects.hw"
"""A module among these that registers classes with an abstract one."""


def leave_classes_plain(_: ModuleType) -> None:
    """From here on, what derives from `abc.ABC` in xDSL and in libtile is a class as any other.

    xDSL's attributes, ops and traits do, and so does everything that derives from them: each takes longer to make, and
    Python runs code of its own to say whether an object is of such a class, above all where it is not. Given up are to
    register classes with these, and that one with abstract methods is not instantiated, which tests find: the library
    has classes as they are. All other modules get `ABC` as it is, numpy's among them, which register classes.
    """
    import abc
    import sys

    real = abc.ABC
    # xDSL takes what its bases have for what any class may have, and abstract classes may derive from plain ones.
    names = {"__slots__": (), "__module__": "abc", "__doc__": real.__doc__, "_abc_impl": None}
    plain = type("ABC", (), names)

    class ByModule(type(abc)):  # type: ignore[misc]
        @property
        def ABC(self) -> type:
            """The class for the module that asks."""
            name = sys._getframe(1).f_globals.get("__name__", "")
            return plain if name.startswith(_WITH_PLAIN_CLASSES) and name != _REGISTERING else real

    abc.__class__ = ByModule


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
    define_class = module.irdl_param_attr_definition
    typed = module.TypedAttribute

    class OnDemand(definition):  # type: ignore[misc, valid-type]
        def __init__(self, cls: type):
            self.cls = cls

        def __getattr__(self, name: str) -> Any:
            if name not in ("name", "parameters"):
                raise AttributeError(name)
            made = define(self.cls)
            self.name, self.parameters = made.name, made.parameters
            return getattr(made, name)

    def irdl_param_attr_definition(cls: Any) -> Any:
        # What is asked for at once is where the type is among the parameters of an attribute that has one.
        module.TypedAttribute = ()  # type: ignore[attr-defined]
        try:
            made = define_class(cls)
        finally:
            module.TypedAttribute = typed  # type: ignore[attr-defined]
        if issubclass(cls, typed):
            made.get_type_index = classmethod(_index_of_type)
        return made

    definition.from_pyrdl = staticmethod(OnDemand)
    module.irdl_param_attr_definition = irdl_param_attr_definition  # type: ignore[attr-defined]


def _index_of_type(cls: Any) -> int:
    names: list[str] = [name for name, _ in cls.get_irdl_definition().parameters]
    return names.index("type")


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


# -- modules ----------------------------------------------------------------------------------------------------------


def load_dialects_in_files_on_demand(module: ModuleType) -> None:
    """Stands for xDSL's module that finds dialects in `.irdl` files where Python finds no module of a name.

    It is loaded when there is such a file in a package: it imports what takes longer than reading a kernel. In the
    working directory, where it also looks, a tool has none.
    """
    import os

    class IRDLDialectFinder:
        def __init__(self, dialects: object):
            self.dialects = dialects

        def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> Any:
            file = f"{name.rpartition('.')[2]}.irdl"
            if path is None or not any(os.path.isfile(os.path.join(folder, file)) for folder in path):
                return None
            return _loaded_from_source(module.__name__).IRDLDialectFinder(self.dialects).find_spec(name, path, target)

    module.IRDLDialectFinder = IRDLDialectFinder  # type: ignore[attr-defined]


def _loaded_from_source(name: str) -> Any:
    """A module as Python finds it, in place of what stands for it."""
    import importlib.util
    import sys
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(name, sys.modules[name.rpartition(".")[0]].__path__)
    assert spec is not None and spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
