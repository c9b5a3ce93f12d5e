# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which checks a run makes: `full`, `basic,-index`, `off,race`.

A choice is a list of groups (`off`, `basic`, `full`) and names of single checks, with commas. Each is added to what
stands before it, or taken away with a minus in front; `off` takes all away. A list that begins with a minus begins with
`basic`. What is no fault by itself has a check that no group holds: it is made where its name asks for it.
"""

from __future__ import annotations

from libtile.support.errors import LibtileError
from libtile.support.records import dataclass, field

Checks = frozenset[str]
"""Names of checks."""


class CheckError(LibtileError):
    """A choice of checks names one that is not there."""


@dataclass(frozen=True)
class Catalogue:
    """The checks of a backend: the names that `basic` stands for, those that `full` adds, and those of neither."""

    owner: str
    basic: Checks
    more: Checks
    by_name: Checks = field(default=Checks())

    @property
    def full(self) -> Checks:
        return self.basic | self.more

    @property
    def names(self) -> Checks:
        return self.full | self.by_name

    def choose(self, text: str) -> Checks:
        """The checks that a text asks for. CheckError for a name that is none, or that another backend has."""
        items = text.split(",")
        chosen = self.basic if items[0].startswith("-") else Checks()
        for item in items:
            name = item.removeprefix("-")
            if name == "off" and item == name:
                chosen = Checks()
            elif item == name:
                chosen |= self._named(name)
            else:
                # What only another backend looks for is not looked for here.
                chosen -= Checks((name,)) if name in ALL else self._named(name)
        return chosen

    def _named(self, name: str) -> Checks:
        groups = {"basic": self.basic, "full": self.full}
        if name in groups:
            return groups[name]
        if name not in self.names:
            known = ", ".join(sorted(self.names))
            raise CheckError(f"the {self.owner} has no check {name!r}: use off, basic, full, or {known}")
        return Checks((name,))


INTERPRETER = Catalogue(
    "interpreter",
    Checks(("assume", "conversion", "division", "index", "load-range", "overflow", "store-range")),
    Checks(("race", "uninitialized", "view-range")),
    Checks(("nan",)),
)
INNER_INTERPRETER = Catalogue(
    "interpreter of the inner dialects",
    Checks(("assume", "conversion", "division", "index", "load-range", "overflow", "store-range")),
    Checks(("alias-scope", "view-range")),
)
"""What the interpreter looks for in a module of nv_tileaa or nv_tileas: `full` is less there than in one of Tile IR."""
SIMULATOR = Catalogue(
    "simulator",
    Checks(("convergence", "memory", "register-pool", "tcgen05", "wgmma")),
    Checks(("counters", "mbarrier-init", "proxy-fence", "race", "tcgen05-fence", "tcgen05-load", "uninitialized")),
)
ALL = INTERPRETER.names | INNER_INTERPRETER.names | SIMULATOR.names
