# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shortens the start of a tool's process, most of which is Python making the classes of xDSL and of libtile.

Four things are done, all for a process that is a tool, never for one that imports libtile:

- The code of modules comes from one file, the tool's bundle (`libtile_tools.kept`), in place of a file for each
  module, and what a module imports in any case is loaded before it, in one go (`libtile_tools.kept_imports`). A tool
  that finds modules missing in it, or changed, adds them at its end.
- `dataclasses` writes the methods of each class as text and compiles it, every time, and so do
  `libtile.support.records` with one method, the bytecode's reader, `inspect` and `typing` with annotations that are
  texts, and `collections` with tuples that have names. That code is in the bundle too, and so are the programs of
  modules' regular expressions (`libtile_tools.kept_patterns`).
- Import statements that find a module loaded do not ask it whether it is a package: see `libtile_tools.quick_imports`.
- What xDSL needs to find dialects in files is loaded where there is such a file: see `libtile_tools.dialects_in_files`;
  what `inspect` imports, where it is asked for something: see `libtile_tools.later_modules`.

None of them has to do with an input, and none changes a class of another library, but that `dataclasses` puts no
signature into the docstring of a class without one. Without them a tool does the same, more slowly. As for the files
that Python writes for modules, no bundle is written under `PYTHONDONTWRITEBYTECODE`, and one that is there is used.
"""

from __future__ import annotations

# This comes before there is a bundle: what is imported here is builtin or frozen.
import builtins
import gc
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, all_suffixes

from libtile_tools import dialects_in_files, quick_imports
from libtile_tools.kept import Bundle, bundle
from libtile_tools.kept_patterns import KeptPatterns

TYPE_CHECKING = False  # as that of `typing`, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from types import CodeType, ModuleType
    from typing import Any

    from libtile_tools.kept import NewModule
else:
    ModuleType = type(sys)


class GeneratedCode:
    """`execute` and `evaluate` are `exec` and `eval` for texts whose code is worth keeping; `added` has what had to be
    compiled."""

    def __init__(self, kept: Bundle | None):
        self.kept = kept
        self.added: dict[str, Any] = {}
        self._used: dict[str, CodeType] = {}

    def execute(
        self,
        text: str,
        variables: dict[str, Any] | None = None,
        names: dict[str, Any] | None = None,
        filename: str = "<string>",
    ) -> None:
        """Execute a text as `exec` does; `filename` is what tracebacks show."""
        builtins.exec(self._code(text, text, filename, "exec"), variables, names)

    def evaluate(self, text: str, variables: dict[str, Any] | None = None, names: Any = None) -> Any:
        """What an expression is, as `eval` says."""
        return builtins.eval(self.expression(text), variables, names)

    def expression(self, text: str) -> CodeType:
        """The code of an expression."""
        return self._code(f"\0eval {text}", text.lstrip(" \t"), "<string>", "eval")

    def _code(self, key: str, text: str, filename: str, mode: str) -> CodeType:
        code = self._used.get(key)
        if code is None:
            code = None if self.kept is None else self.kept.text(key)
            if code is None:
                code = self.added[key] = compile(text, filename, mode, dont_inherit=True)
            self._used[key] = code
        return code


class _KeptLoader(SourceFileLoader):
    """Loads a module whose code is in the bundle, and before it what that imports first."""

    def __init__(self, name: str, source: str, code: CodeType, imports: tuple[str, ...], finder: KeptFinder):
        super().__init__(name, source)
        self.code = code
        self.imports = imports
        self.finder = finder

    def get_code(self, fullname: str) -> CodeType:
        return self.code

    def exec_module(self, module: ModuleType) -> None:
        self.finder.load(self.imports)
        super().exec_module(module)


class KeptFinder:
    """Finds the modules of the bundle, where Python's own finder of source files would find the same ones.

    That one takes a module without a package from the first folder of `sys.path` that has a file of its name, so these
    are listed, and what another file or package of that name stands before is left to it. A folder of its name that is
    no package does not count, as where an installation of this clone has put data files. The submodule of a package is
    beside the package's `__init__.py`.

    What a module of the bundle imports in any case is loaded before it, here: Python asks all its finders for each
    module, and locks it, which takes two thirds of the time of loading a small one.
    """

    def __init__(self, kept: Bundle):
        self.kept = kept
        self.path = list(sys.path)
        self.missed: list[str] = []
        self._front: list[Any] = []
        self._elsewhere: frozenset[str] = frozenset()
        self._folders = Folders(self.path)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module of the bundle; None for one that it does not have."""
        self.missed.append(fullname)
        if path is not None:
            if len(path) != 1:
                return None
            found = self._in_folder(path[0], fullname)
        elif sys.path != self.path:
            return None
        else:
            found = None
            for folder, is_file in self._folders.with_module(fullname):
                found = self._in_folder(folder, fullname)
                if found is not None or is_file or _is_package(os.path.join(folder, fullname)):
                    break
        if found is not None:
            self.missed.pop()
        return found

    def _in_folder(self, folder: str, fullname: str) -> ModuleSpec | None:
        place = f"{folder}{os.sep}{fullname.rpartition('.')[2]}"
        for source, is_package in ((f"{place}{os.sep}__init__.py", True), (f"{place}.py", False)):
            found = self.kept.module(source)
            if found is not None:
                loader = _KeptLoader(fullname, source, *found, self)
                spec = ModuleSpec(fullname, loader, origin=source, is_package=is_package)
                spec.has_location = True
                spec.cached = self.kept.path  # asked for otherwise, which takes a while for each module
                if is_package:
                    spec.submodule_search_locations = [place]
                return spec
        return None

    def stands_behind(self, finders: list[Any], elsewhere: AbstractSet[str]) -> None:
        """Of these finders none finds a module of the bundle before this one, but those of the names `elsewhere`; as
        long as nobody else comes before it, `load` loads modules."""
        known = ("_AdjustingFinder", "BuiltinImporter", "FrozenImporter", "DistutilsMetaFinder")
        front = finders[: finders.index(self)]
        if all(getattr(finder, "__name__", type(finder).__name__) in known for finder in front):
            self._front = [*front, self]
            self._elsewhere = frozenset(elsewhere)

    def load(self, names: tuple[str, ...]) -> None:
        """Load the modules of the bundle among these that are not loaded, each behind what it imports in turn.

        One that cannot be loaded is left to whoever imports it, who will be told why.
        """
        loaded = sys.modules
        if sys.meta_path[: len(self._front)] != self._front or not self._front:
            return
        for name in names:
            if name not in loaded and name not in self._elsewhere:
                parent, _, last = name.rpartition(".")
                package = loaded.get(parent)
                if parent and package is None:
                    continue
                spec = self.find_spec(name, package.__path__ if package is not None else None)
                if spec is not None:
                    self._load(spec, package, last)

    def _load(self, spec: ModuleSpec, package: ModuleType | None, last: str) -> None:
        loader = spec.loader
        assert isinstance(loader, _KeptLoader)
        self.load(loader.imports)
        if spec.name in sys.modules:
            return
        module = sys.modules[spec.name] = _module(spec)
        spec._initializing = True  # type: ignore[attr-defined]  # as `importlib` does
        try:
            exec(loader.code, module.__dict__)
        except Exception:
            sys.modules.pop(spec.name, None)
            return
        finally:
            spec._initializing = False  # type: ignore[attr-defined]
        if package is not None:
            setattr(package, last, sys.modules[spec.name])

    def new_modules(self) -> dict[str, NewModule]:
        """The code of modules that were imported and are not in the bundle, with the state of their sources and what
        they import first."""
        found: dict[str, tuple[os.stat_result, CodeType]] = {}
        for name in self.missed:
            spec = getattr(sys.modules.get(name), "__spec__", None)
            if spec is None or not isinstance(spec.loader, SourceFileLoader) or not spec.origin:
                continue
            if self.kept.has_module(spec.origin):  # Python's finder has to be asked for it, each time
                continue
            try:
                before = os.stat(spec.origin)
                code = spec.loader.get_code(name)
                after = os.stat(spec.origin)
            except (OSError, SyntaxError):  # it has changed since
                continue
            if code is not None and (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
                found[name] = (after, code)
        if not found:
            return {}
        from libtile_tools.kept_imports import imported_first

        loaded = {
            name: getattr(getattr(module, "__spec__", None), "loader", None)
            for name, module in list(sys.modules.items())
        }
        kept = {name: loader.code for name, loader in loaded.items() if isinstance(loader, _KeptLoader)}
        first = imported_first(kept | {name: code for name, (_, code) in found.items()})
        return {str(sys.modules[name].__file__): (*new, first[name]) for name, new in found.items()}


def _module(spec: ModuleSpec) -> ModuleType:
    """A module as `importlib` makes it, which asks for each attribute whether it is there, by an exception if not."""
    module = ModuleType(spec.name)
    names = module.__dict__
    names["__loader__"], names["__package__"], names["__spec__"] = spec.loader, spec.parent, spec
    if spec.submodule_search_locations is not None:
        names["__path__"] = spec.submodule_search_locations
    names["__file__"] = spec.origin
    if "__cached__" in globals():  # not in a later Python
        names["__cached__"] = spec.cached
    return module


_SUFFIXES = tuple(all_suffixes())
"""Of the names of files that are modules."""


class Folders:
    """The folders of a path, each of which is listed when the first name is looked for in it: that of the installed
    packages has hundreds, and most of what a tool needs of Python's own stands before it."""

    def __init__(self, path: Sequence[str]):
        self.path = path
        self._listed: dict[str, frozenset[str] | None] = {}

    def with_module(self, name: str) -> list[tuple[str, bool]]:
        """Those in which a module may be, up to the first with a file, which comes with True. None of a name that a
        file and a folder have in one folder, or that an archive may have: only Python looks into these."""
        found: list[tuple[str, bool]] = []
        for folder in self.path:
            names = self._names(folder)
            if names is None:
                return []
            files = sum([name + suffix in names for suffix in _SUFFIXES])
            is_folder = name in names and os.path.isdir(os.path.join(folder, name))
            if files + is_folder > 1:
                return []
            if files or is_folder:
                found.append((folder, bool(files)))
            if files:
                break
        return found

    def _names(self, folder: str) -> frozenset[str] | None:
        """What is in a folder, which need not be there; None for an archive."""
        if folder not in self._listed:
            try:
                self._listed[folder] = frozenset(os.listdir(folder or os.curdir))
            except OSError:
                self._listed[folder] = None if os.path.exists(folder) else frozenset()
        return self._listed[folder]


def _is_package(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, f"__init__{suffix}")) for suffix in _SUFFIXES)


class _NoSignatures:
    """Stands for the module `inspect` in `dataclasses`."""

    def signature(self, *_: Any, **__: Any) -> str:
        return ""

    def __getattr__(self, name: str) -> Any:
        import inspect

        return getattr(inspect, name)


class _Adjusting(SourceFileLoader):
    """Loads a module as another loader would, and adjusts it then."""

    def __init__(self, name: str, inner: SourceFileLoader, adjust: Callable[[ModuleType], None]):
        super().__init__(name, inner.path)
        self.inner = inner
        self.adjust = adjust

    def get_code(self, fullname: str) -> CodeType | None:
        return self.inner.get_code(fullname)

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        self.adjust(module)


class _Replacing:
    """Loads a module that a function fills."""

    def __init__(self, fill: Callable[[ModuleType], None]):
        self.fill = fill

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self.fill(module)


class _AdjustingFinder:
    """Finds the modules that are adjusted or replaced, by name, so that none is imported before it is needed."""

    def __init__(
        self,
        kept: KeptFinder | None,
        adjusted: dict[str, Callable[[ModuleType], None]],
        replaced: dict[str, Callable[[ModuleType], None]],
    ):
        self.kept = kept
        self.adjusted = adjusted
        self.replaced = replaced

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.adjusted:
            fill = self.replaced.get(fullname)
            return None if fill is None else ModuleSpec(fullname, _Replacing(fill))  # type: ignore[arg-type]
        spec = None if self.kept is None else self.kept.find_spec(fullname, path, target)
        spec = spec or PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Adjusting(fullname, spec.loader, self.adjusted[fullname])
        return spec


def _keep_methods(module: ModuleType) -> None:
    assert _generated is not None
    module.exec = _generated.execute  # type: ignore[attr-defined]  # stands before the builtin of that name
    module.inspect = _NoSignatures()  # type: ignore[attr-defined]


def _keep_annotations(module: ModuleType) -> None:
    """Annotations that are texts, which xDSL asks for by `get_annotations`."""

    def evaluate(text: str, variables: dict[str, Any], names: Mapping[str, Any]) -> Any:
        assert _generated is not None
        return _generated.evaluate(text, variables, names)

    module.eval = evaluate  # type: ignore[attr-defined]


def _keep_tuples(module: ModuleType) -> None:
    """How tuples with names are made, by an expression of each class's own."""
    assert _generated is not None
    module.eval = _generated.evaluate  # type: ignore[attr-defined]


def _keep_references(module: ModuleType) -> None:
    """Annotations that are texts, which `typing` compiles to see that they are expressions."""

    def compiled(text: str, filename: str, mode: str) -> CodeType:
        assert _generated is not None
        return _generated.expression(text) if mode == "eval" else compile(text, filename, mode, dont_inherit=True)

    module.compile = compiled  # type: ignore[attr-defined]


def _keep_inits(module: ModuleType) -> None:
    assert _generated is not None
    module.execute = _generated.execute  # type: ignore[attr-defined]


def _keep_patterns(module: ModuleType) -> None:
    global _patterns
    _patterns = KeptPatterns(_kept, module)


def _keep_codecs(module: ModuleType) -> None:
    def execute(text: str, filename: str, scope: dict[str, Any]) -> None:
        assert _generated is not None
        _generated.execute(text, scope, filename=filename)

    module.execute = execute  # type: ignore[attr-defined]


def _load_later(module: ModuleType) -> None:
    from libtile_tools import later_modules

    assert _generated is not None
    later_modules.load_on_demand(module, _kept, _generated.added)


_kept: Bundle | None = None
_generated: GeneratedCode | None = None
_patterns: KeptPatterns | None = None
_finder: KeptFinder | None = None


def install(tool: str = "tools") -> None:
    """Called first in a tool's process; each tool has a bundle of its name."""
    global _kept, _generated, _finder
    if _generated is not None:
        return
    gc.disable()  # classes and code stay to the end
    _occupy_standard_descriptors()
    quick_imports.install()
    _kept = bundle(tool)
    if _kept is not None and PathFinder in sys.meta_path:  # as it is wherever nobody has replaced the way of importing
        _finder = KeptFinder(_kept)
        sys.meta_path.insert(sys.meta_path.index(PathFinder), _finder)
    _generated = GeneratedCode(_kept)
    adjusted: dict[str, Callable[[ModuleType], None]] = {
        "dataclasses": _keep_methods,
        "re._compiler": _keep_patterns,
        "inspect": _keep_annotations,
        "collections": _keep_tuples,
        "typing": _keep_references,
        "libtile.support.records": _keep_inits,
        "libtile.bytecode.ops_source": _keep_codecs,
    }
    # Something that Python runs before a tool may have imported these.
    for name in ("collections", "dataclasses", "inspect", "re._compiler", "typing"):
        if name in sys.modules:
            adjusted[name](sys.modules[name])
    replaced: dict[str, Callable[[ModuleType], None]] = {"xdsl.utils.dialect_loader": dialects_in_files.load_on_demand}
    replaced |= dict.fromkeys(("ast", "dis", "linecache", "token", "tokenize"), _load_later)
    sys.meta_path.insert(0, _AdjustingFinder(_finder, adjusted, replaced))
    if _finder is not None:
        _finder.stands_behind(sys.meta_path, adjusted.keys() | replaced.keys())


def _occupy_standard_descriptors() -> None:
    """Where a standard stream is closed, no file may take its number, and with it what is printed."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def finish() -> None:
    """Called when the tool has done its work: adds to the bundle what was missing in it."""
    if _kept is None or _generated is None or sys.dont_write_bytecode:
        return
    modules = {} if _finder is None else _finder.new_modules()
    texts = _generated.added | ({} if _patterns is None else _patterns.added)
    if modules or texts:
        _kept.save(modules, texts)


def keep_no_more() -> None:
    """`finish`, in a process that goes on: what it loads from here on is kept by nobody."""
    global _kept
    finish()
    _kept = None
