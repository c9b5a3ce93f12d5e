# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the declarations in `spec/*.toml` (and overlays given by the caller) into a `Spec`, and validates them.

The declarations' small language: `name: kind[?|*] [= default] [@version]`, traits as `name` or `name(argument, ...)`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast

from libtile.spec.model import (
    ATTRIBUTE_KINDS,
    AttributeSpec,
    AttributeTagSpec,
    ChangeSpec,
    ConstraintSpec,
    DebugField,
    DebugSpec,
    EnumCase,
    EnumSpec,
    EnumSubset,
    Flag,
    FloatSpec,
    HintSpec,
    NumberSpec,
    OpSpec,
    Spec,
    TraitSpec,
    TypeParameter,
    TypeSpec,
    ValueSpec,
    Version,
)
from libtile.support import declarations
from libtile.support.threads import SHARED, once

_HERE = os.path.dirname(os.path.abspath(__file__))
_INSTALLED = os.path.join(_HERE, "data")
DATA = (
    _INSTALLED
    if os.path.isfile(os.path.join(_INSTALLED, "versions.toml"))
    else os.path.join(os.path.dirname(os.path.dirname(_HERE)), "spec")
)
"""The declarations' folder: `spec/` of a clone, which a wheel brings along inside of the package."""

_DECLARATION = re.compile(r"^(\w+)\s*:\s*(\w+)([?*]?)(?:\s*=\s*([\w()$-]+))?(?:\s*@([\w.]+))?$")
_CASE = re.compile(r"^(\w+)\s*=\s*(\d+)(?:\s*@([\d.]+))?$")
_TRAIT = re.compile(r"^(\w+)(?:\((.*)\))?$")
_INTEGER = re.compile(r"-?\d+")
_TYPE_PARAMETER_KINDS = frozenset({"type", "i64_array", "i32_array", "u32"})
_DEBUG_FIELD_KINDS = frozenset({"ref", "string", "varint"})
_ARITY = {"": "one", "?": "optional", "*": "variadic"}


class SpecError(ValueError):
    """A declaration is malformed or contradicts another one; the message names it."""


def _declaration(text: str, where: str) -> tuple[str, str, str, str | None, str | None]:
    match = _DECLARATION.match(text)
    if match is None:
        raise SpecError(f"{where}: malformed declaration {text!r}")
    name, kind, mark, default, since = match.groups()
    return name, kind, mark, default, since


def _default(text: str | None) -> int | str | None:
    if text is None:
        return None
    return int(text) if _INTEGER.fullmatch(text) else text


class _Builder:
    """Collects merged tables, then builds the records in dependency order."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Any]] = {
            k: {} for k in ("version", "change", "enum", "type", "constraint", "attribute", "debug", "op", "hint_key")
        }
        self.scalars: dict[str, Any] = {}
        self.unknown_ops: set[str] = set()
        self.unknown_types: set[str] = set()

    def merge(self, data: dict[str, Any], where: str) -> None:
        group = data.pop("group", "")
        unknown = data.pop("unknown", {})
        self.unknown_ops.update(unknown.get("ops", ()))
        self.unknown_types.update(unknown.get("types", ()))
        hint = data.pop("hint", {})
        if "architectures" in hint:
            self.scalars["architectures"] = tuple(hint["architectures"])
        for name, record in hint.get("key", {}).items():
            self._add("hint_key", name, record, where)
        for key, value in data.items():
            if not isinstance(value, dict):
                self.scalars[key] = value
                continue
            if key not in self.tables:
                raise SpecError(f"{where}: unknown table {key!r}")
            for name, record in value.items():
                if key == "op":
                    record.setdefault("group", group)
                self._add(key, name, record, where)

    def _add(self, table: str, name: str, record: dict[str, Any], where: str) -> None:
        existing = self.tables[table].get(name)
        if existing is not None and not record.pop("extend", False):
            raise SpecError(f"{where}: {table} {name!r} is declared twice")
        if existing is None:
            self.tables[table][name] = record
            return
        for key, value in record.items():
            # An overlay may add members to a declaration of the base, never change what is frozen.
            if isinstance(value, list):
                existing[key] = [*existing.get(key, []), *value]
            elif key == "subset":
                _extend_subsets(existing.setdefault(key, {}), value)
            elif key in ("opcode", "tag", "since") and existing.get(key) != value:
                raise SpecError(f"{where}: {table} {name!r} may not change its {key}")
            else:
                existing[key] = value

    # -- records ------------------------------------------------------------------------------------------------

    def version(self, text: str, where: str) -> Version:
        if text in self.tables["change"]:
            return self.version(self.tables["change"][text]["since"], where)
        if text not in self.tables["version"]:
            raise SpecError(f"{where}: version {text!r} is not declared")
        return Version.parse(text)

    def build(self, *, on_demand: bool) -> Spec:
        """All declarations; `on_demand`: all but those of types are read, and with that validated, when they are asked
        for."""
        versions = tuple(sorted(Version.parse(v) for v in self.tables["version"]))
        testing = frozenset(Version.parse(v) for v, r in self.tables["version"].items() if r.get("testing"))
        enums = _declared(self.tables["enum"], self._enum)
        types = {n: self._type(n, r, enums) for n, r in self.tables["type"].items()}
        constraints = _declared(self.tables["constraint"], lambda n, r: self._constraint(n, r, types))
        changes = _declared(self.tables["change"], self._change)
        debug = _declared(self.tables["debug"], self._debug)
        hints = _declared(self.tables["hint_key"], self._hint)
        records = self.tables["op"]
        ops = _declared(records, lambda n, r: self._op(n, r, enums, constraints))
        if not on_demand:
            for each in (enums, constraints, changes, debug, hints, ops):
                tuple(each.values())
        opcodes = {name: record["opcode"] for name, record in records.items()}
        aliases = {alias: name for name, record in records.items() for alias in record.get("aliases", ())}
        attribute_tags = {n: self._attribute_tag(n, r) for n, r in self.tables["attribute"].items()}
        _unique({n: t.tag for n, t in types.items()}, "type tag")
        _unique({n: t.tag for n, t in attribute_tags.items()}, "attribute tag")
        _unique({n: r["tag"] for n, r in self.tables["debug"].items()}, "debug tag")
        _unique(opcodes, "opcode")
        for alias in aliases:
            if alias in records:
                raise SpecError(f"op alias {alias!r} is also an op")
        return Spec(
            versions=versions,
            testing_versions=testing,
            current=Version.parse(self.scalars["current"]),
            open_dialect=Version.parse(self.scalars["open_dialect"]),
            compatibility=Version.parse(self.scalars["compatibility"]),
            changes=changes,
            enums=enums,
            enum_subsets={subset: n for n, r in self.tables["enum"].items() for subset in r.get("subset", ())},
            types=types,
            constraints=constraints,
            attribute_tags=attribute_tags,
            debug=debug,
            hints=hints,
            hint_architectures=self.scalars["architectures"],
            ops=ops,
            unknown_ops=frozenset(self.unknown_ops),
            unknown_types=frozenset(self.unknown_types),
            ops_by_opcode=_OnDemand({opcode: name for name, opcode in opcodes.items()}, ops.__getitem__),
            types_by_tag={t.tag: t for t in types.values()},
            aliases=aliases,
        )

    def _attribute_tag(self, name: str, record: dict[str, Any]) -> AttributeTagSpec:
        flags = record.get("predicate", False), record.get("testing", False)
        return AttributeTagSpec(name, record["tag"], self.version(record["since"], name), *flags, record.get("doc", ""))

    def _change(self, name: str, record: dict[str, Any]) -> ChangeSpec:
        since, doc = self.version(record["since"], name), record.get("doc", "")
        return ChangeSpec(name, since, doc, record["older"]) if "older" in record else ChangeSpec(name, since, doc)

    def _hint(self, name: str, record: dict[str, Any]) -> HintSpec:
        since = self.version(record.get("since", self.scalars["compatibility"]), name)
        values = record.get("least", 1), record.get("most"), record.get("powers_of_two", False)
        return HintSpec(
            name, record["kind"], tuple(record["ops"]), since, record["doc"], *values, tuple(record.get("one_on", ()))
        )

    def _enum(self, name: str, record: dict[str, Any]) -> EnumSpec:
        since = self.version(record["since"], name)
        cases = []
        for text in record["cases"]:
            match = _CASE.match(text)
            if match is None:
                raise SpecError(f"enum {name}: malformed case {text!r}")
            keyword, value, case_since = match.groups()
            cases.append(EnumCase(keyword, int(value), self.version(case_since, name) if case_since else since))
        _unique({c.keyword: c.value for c in cases}, f"value of enum {name}")
        keywords = [c.keyword for c in cases]
        first = record.get("listed", [])
        subsets = {
            n: EnumSubset(n, tuple(r["cases"]), r.get("default"), r.get("strict", False))
            for n, r in record.get("subset", {}).items()
        }
        for where, named in (("listed", first), *((n, s.cases) for n, s in subsets.items())):
            for keyword in named:
                if keyword not in keywords:
                    raise SpecError(f"enum {name}: {where} has unknown case {keyword!r}")
        return EnumSpec(
            name,
            record["attr"],
            since,
            tuple(cases),
            record.get("plain", False),
            record.get("testing", False),
            record.get("doc", ""),
            record.get("summary", ""),
            {c.keyword: c for c in cases},
            {c.value: c for c in cases},
            (*first, *(k for k in keywords if k not in first)),
            subsets,
        )

    def _type(self, name: str, record: dict[str, Any], enums: Mapping[str, EnumSpec]) -> TypeSpec:
        since = self.version(record["since"], name)
        parameters = []
        for text in record.get("parameters", ()):
            pname, kind, mark, default, psince = _declaration(text, f"type {name}")
            if kind not in _TYPE_PARAMETER_KINDS and kind not in enums:
                raise SpecError(f"type {name}: parameter {pname!r} has unknown kind {kind!r}")
            version = self.version(psince, name) if psince else since
            if version != since and mark != "?" and default is None:
                raise SpecError(f"type {name}: parameter {pname!r} is newer than the type and has no default")
            parameters.append(TypeParameter(pname, kind, mark == "?", _default(default), version))
        return TypeSpec(
            name,
            record["tag"],
            since,
            record["kind"],
            record["display"],
            record.get("bits", 0),
            _number(name, record) if record["kind"] in ("integer", "float") else None,
            tuple(parameters),
            record.get("testing", False),
            record.get("doc", ""),
        )

    def _constraint(self, name: str, record: dict[str, Any], types: dict[str, TypeSpec]) -> ConstraintSpec:
        elements = tuple(record.get("elements", ()))
        named = tuple(record.get("types", ()))
        for t in (*elements, *named):
            if t not in types:
                raise SpecError(f"constraint {name}: unknown type {t!r}")
        rank = record.get("rank")
        prefix = record.get("prefix", "tile" if rank is None else f"{rank}D tile")
        summary = record.get("summary") or f"{prefix} of {' or '.join(elements)} values"
        return ConstraintSpec(name, summary, elements, rank, named)

    def _op(
        self,
        name: str,
        record: dict[str, Any],
        enums: Mapping[str, EnumSpec],
        constraints: Mapping[str, ConstraintSpec],
    ) -> OpSpec:
        where = f"op {name}"
        since = self.version(record["since"], where)
        operands = self._values(record.get("operands", ()), since, constraints, where)
        results = self._values(record.get("results", ()), since, constraints, where)
        attributes = self._attributes(record.get("attributes", ()), since, enums, where)
        traits = []
        for text in record.get("traits", ()):
            match = _TRAIT.match(text)
            if match is None:
                raise SpecError(f"{where}: malformed trait {text!r}")
            arguments = tuple(a.strip() for a in match[2].split(",")) if match[2] else ()
            traits.append(TraitSpec(match[1], arguments))
        segments = any(t.name == "operand_segments" for t in traits)
        if sum(v.arity != "one" for v in operands) > 1 and not segments:
            raise SpecError(f"{where}: several optional or variadic operands need the operand_segments trait")
        return OpSpec(
            name,
            record["opcode"],
            since,
            record["group"],
            operands,
            attributes,
            results,
            tuple(record.get("regions", ())),
            tuple(traits),
            record["format"],
            tuple(record.get("aliases", ())),
            record.get("preview"),
            record.get("known", ""),
            record.get("summary", ""),
            record.get("doc", ""),
            _flags(operands if segments else (), attributes),
        )

    def _values(
        self, texts: Iterable[str], since: Version, constraints: Mapping[str, ConstraintSpec], where: str
    ) -> tuple[ValueSpec, ...]:
        values = []
        for text in texts:
            name, constraint, mark, _, vsince = _declaration(text, where)
            if constraint not in constraints:
                raise SpecError(f"{where}: {name!r} has unknown constraint {constraint!r}")
            version = self.version(vsince, where) if vsince else since
            values.append(ValueSpec(name, constraint, cast(Any, _ARITY[mark]), version))
        _unique_names([v.name for v in values], where)
        return tuple(values)

    def _attributes(
        self, texts: Iterable[str], since: Version, enums: Mapping[str, EnumSpec], where: str
    ) -> tuple[AttributeSpec, ...]:
        attributes = []
        for text in texts:
            name, kind, mark, default, asince = _declaration(text, where)
            if kind not in ATTRIBUTE_KINDS and kind not in enums:
                raise SpecError(f"{where}: attribute {name!r} has unknown kind {kind!r}")
            version = self.version(asince, where) if asince else since
            value = _default(default)
            if kind in enums and value is not None and value not in enums[kind].by_keyword:
                raise SpecError(f"{where}: attribute {name!r} has unknown default {default!r}")
            if version != since and mark != "?" and kind != "unit" and value is None:
                raise SpecError(f"{where}: attribute {name!r} is newer than the op and has neither `?` nor a default")
            attributes.append(AttributeSpec(name, kind, mark == "?", value, version))
        _unique_names([a.name for a in attributes], where)
        return tuple(attributes)

    def _debug(self, name: str, record: dict[str, Any]) -> DebugSpec:
        fields = []
        first = Version.parse(self.scalars["compatibility"])
        for text in record["fields"]:
            fname, kind, _, default, since = _declaration(text, f"debug {name}")
            if kind not in _DEBUG_FIELD_KINDS:
                raise SpecError(f"debug {name}: field {fname!r} has unknown kind {kind!r}")
            version = self.version(since, name) if since else first
            fields.append(DebugField(fname, kind, cast("int | None", _default(default)), version))
        return DebugSpec(name, record["tag"], tuple(fields))


class _OnDemand(Mapping[Any, Any]):
    """Declarations by name, or by number: `names` leads to what `make` makes them of, once for all threads."""

    def __init__(self, names: Mapping[Any, Any], make: Callable[[Any], Any]):
        self._names = names
        self._make = make
        self._made: dict[Any, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        if key not in self._made:
            with SHARED:
                if key not in self._made:
                    self._made[key] = self._make(self._names[key])
        return self._made[key]

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def __iter__(self) -> Iterator[Any]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _declared(records: dict[str, dict[str, Any]], make: Callable[[str, dict[str, Any]], Any]) -> Mapping[str, Any]:
    """A table's declarations, made when they are asked for."""
    return _OnDemand({name: name for name in records}, lambda name: make(name, records[name]))


def _flags(operands: tuple[ValueSpec, ...], attributes: tuple[AttributeSpec, ...]) -> tuple[Flag, ...]:
    """Bits go by version, attributes before operands within one, so that a later version never moves a bit."""
    members = [(a.since, 0, i, a.name) for i, a in enumerate(attributes) if a.in_flags]
    members += [(v.since, 1, i, v.name) for i, v in enumerate(operands) if v.is_optional]
    return tuple(Flag(name, bit, since, kind == 1) for bit, (since, kind, _, name) in enumerate(sorted(members)))


def _extend_subsets(subsets: dict[str, dict[str, Any]], more: dict[str, dict[str, Any]]) -> None:
    """New subsets of an enum, and new cases of those that there are."""
    for name, record in more.items():
        known = subsets.setdefault(name, {"cases": []})
        subsets[name] = {**known, **record, "cases": [*known["cases"], *record.get("cases", ())]}


def _unique(numbers: dict[str, int], what: str) -> None:
    seen: dict[int, str] = {}
    for name, number in numbers.items():
        if number in seen:
            raise SpecError(f"{what} {number} is used by both {seen[number]!r} and {name!r}")
        seen[number] = name


def _unique_names(names: list[str], where: str) -> None:
    if len(set(names)) != len(names):
        raise SpecError(f"{where}: a name is declared twice")


def _number(name: str, record: dict[str, Any]) -> NumberSpec:
    """How a number type is held; SpecError where its format does not fit its width."""
    form, bits = record.get("format"), record.get("bits", 0)
    if (form is not None) != (record["kind"] == "float"):
        raise SpecError(f"type {name}: a float has a format, and no other type has one")
    fields = None
    if form is not None:
        fields = FloatSpec(form["exponent"], form["mantissa"], form.get("specials", "ieee"), form.get("signed", True))
        if fields.specials not in ("ieee", "nan", "none"):
            raise SpecError(f"type {name}: unknown specials {fields.specials!r}")
        if fields.exponent + fields.mantissa + fields.signed != bits:
            raise SpecError(f"type {name}: its format does not have {bits} bits")
    storage = record.get("storage", bits)
    return NumberSpec(storage, record.get("llvm", ""), record.get("ptx", ""), fields, record.get("padding", {}))


def load(overlays: Iterable[str] = ()) -> Spec:
    """Read the package's declarations, then `overlays` (TOML texts) on top.

    An overlay may declare new versions, ops, types and enums, and add members to a declared op, type or enum whose
    table says `extend = true`. Raises SpecError when declarations contradict each other. Without an overlay, those of
    ops are read when they are asked for: a program has few kinds of ops.
    """
    builder = _Builder()
    given = list(overlays)
    for name in sorted(name for name in os.listdir(DATA) if name.endswith(".toml")):
        builder.merge(declarations.read(os.path.join(DATA, name)), name)
    for number, text in enumerate(given):
        builder.merge(declarations.parse(text), f"overlay {number}")
    return builder.build(on_demand=not given)


@once
def default_spec() -> Spec:
    """The package's own declarations, read once."""
    return load()
