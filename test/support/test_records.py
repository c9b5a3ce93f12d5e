# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Classes of `libtile.support.records` are what `dataclasses` would have made of them."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from libtile.support import records

OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"eq": False},
    {"frozen": True, "eq": False, "slots": True},
]


def classes(kit: Any, options: dict[str, bool]) -> SimpleNamespace:
    """Classes of all forms, as they are made by `dataclasses` or by our module."""
    dataclass, field = kit.dataclass, kit.field

    @dataclass(**options)
    class Empty:
        pass

    @dataclass(**options)
    class One:
        only: Any

    @dataclass(**options)
    class Point:
        """Two numbers and more."""

        KIND: ClassVar[str] = "point"
        x: int
        y: int = 2
        names: list[str] = field(default_factory=list)
        hidden: int = field(default=5, repr=False)
        noted: str = field(default="", compare=False)
        late: int = field(init=False, default=7)
        made: dict[str, int] = field(init=False, default_factory=dict)

    @dataclass(**options)
    class Named(Point):
        y: int = 30
        title: str = "t"

        def __post_init__(self) -> None:
            self.made["title"] = len(self.title)

    @dataclass(**options)
    class Own:
        value: int

        def __repr__(self) -> str:
            return f"<{self.value}>"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __hash__(self) -> int:
            return 1

    class Plain(One):
        extra = 0

    return SimpleNamespace(Empty=Empty, One=One, Point=Point, Named=Named, Own=Own, Plain=Plain)


def outcome(action: Any) -> str:
    """What an action gives, or the kind and words of its error."""
    try:
        return repr(action())
    except (TypeError, AttributeError, ValueError) as error:
        return f"{type(error)} {str(error).rpartition('<locals>.')[2]}"


MAKES = {
    "Empty": [((), {})],
    "One": [((1,), {}), ((float("nan"),), {}), (([],), {}), ((), {}), ((1, 2), {}), ((), {"only": "a"})],
    "Point": [((1,), {}), ((1, 3), {"names": ["n"]}), ((1,), {"noted": "x"}), ((1,), {"hidden": 6}), ((), {"late": 1})],
    "Named": [((1,), {}), ((1,), {"title": "abc"}), ((1, 2, [3], 4, "5", "6"), {})],
    "Own": [((1,), {}), ((2,), {})],
    "Plain": [((1,), {}), ((2,), {})],
}
"""Arguments of instances, by class."""

ACTIONS = [
    repr,
    dataclasses.asdict,
    dataclasses.astuple,
    lambda made: hash(made) == hash(copy.copy(made)),
    lambda made: dataclasses.replace(made, x=9, noted="changed"),
    lambda made: dataclasses.replace(made, late=1),
    lambda made: copy.copy(made) == made,
    lambda made: copy.deepcopy(made) == made,
    lambda made: hasattr(made, "x") and setattr(made, "x", 4),
    lambda made: hasattr(made, "x") and delattr(made, "x"),
    lambda made: made.__match_args__,
    lambda made: [getattr(made, f.name) for f in dataclasses.fields(made)],
    lambda made: [(f.name, f.type, f.init, f.repr, f.compare) for f in dataclasses.fields(made)],
    lambda made: hasattr(made, "__dict__"),
    lambda made: list(inspect.signature(type(made)).parameters),
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", MAKES)
def test_every_form_does_what_a_dataclass_does(name, options):
    def outcomes(kit: Any) -> tuple[list[str], list[str]]:
        replaced = (lambda made: kit.replace(made, y=9, noted="n"), lambda made: kit.replace(made, late=1), kit.replace)
        cls = getattr(classes(kit, options), name)
        done = [
            outcome(lambda a=a, w=w, act=act: act(cls(*a, **w)))
            for a, w in MAKES[name]
            for act in (*ACTIONS, *replaced)
        ]
        made = [cls(*a, **w) for a, w in MAKES[name] if not outcome(lambda a=a, w=w: cls(*a, **w)).startswith("<class")]
        return done, [outcome(lambda a=a, b=b: a == b) for a in made for b in (*made, *map(copy.copy, made), 1)]

    assert outcomes(records) == outcomes(dataclasses)


@pytest.mark.parametrize("options", OPTIONS[:4], ids=str)
@pytest.mark.parametrize("kits", [(records, dataclasses), (dataclasses, records)], ids=["ours first", "ours last"])
def test_records_and_dataclasses_inherit_from_each_other(kits, options):
    upper, lower = kits

    @upper.dataclass(**options)
    class Base:
        a: int
        b: list[int] = upper.field(default_factory=list)

    @lower.dataclass(**options)
    class Derived(Base):
        c: int = 3

    made = Derived(1)
    assert repr(made).endswith("Derived(a=1, b=[], c=3)")
    assert made == Derived(1) and made != Derived(2)
    assert [f.name for f in dataclasses.fields(made)] == ["a", "b", "c"]
    assert dataclasses.is_dataclass(Derived) and Derived.__dataclass_params__.frozen == options.get("frozen", False)


@records.dataclass(frozen=True, slots=True)
class Pickled:
    a: int
    b: tuple[int, ...] = ()


def test_a_frozen_record_with_slots_is_pickled():
    assert pickle.loads(pickle.dumps(Pickled(1, (2,)))) == Pickled(1, (2,))


@pytest.mark.parametrize("slots", [False, True])
def test_a_frozen_record_takes_no_other_attribute(slots):
    # With slots, that of `dataclasses` fails inside of itself, by a TypeError.
    made = classes(records, {"frozen": True, "slots": slots}).One(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'other'"):
        made.other = 4
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'other'"):
        del made.other


def test_a_record_that_holds_itself_is_printed():
    made = classes(records, {}).One([])
    made.only.append(made)
    assert repr(made).endswith("One(only=[...])")


@pytest.mark.parametrize("kit", [records, dataclasses])
@pytest.mark.parametrize("frozen", [False, True])
def test_methods_that_are_not_wanted_are_those_of_the_base(kit, frozen):
    class Base:
        def __init__(self, *given: int):
            for name, value in zip(("a", "b"), given, strict=True):
                object.__setattr__(self, name, value)

        def __repr__(self) -> str:
            return "as the base has it"

    @kit.dataclass(frozen=frozen, init=False, repr=False)
    class Derived(Base):
        a: int
        b: int

    assert Derived(1, 2) == Derived(1, 2) != Derived(1, 3)
    assert repr(Derived(1, 2)) == "as the base has it"
    assert (Derived.__hash__ is not None) == frozen


def test_what_is_not_known_is_refused():
    with pytest.raises(TypeError, match="InitVar"):

        @records.dataclass
        class Given:
            seed: InitVar[int]  # noqa: F821

    with pytest.raises(ValueError, match="default_factory"):

        @records.dataclass
        class Mutable:
            items: list[int] = []
