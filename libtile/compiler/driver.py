# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler driver: bytecode in, artifacts out, with the cache between.

`compile_bytecode` is what `tileiras` calls. It tells apart what a command line's exit status tells apart: input that is
no valid bytecode (`InputError`), options that do not go together (`RequestError`), and a program that cannot be
compiled (`CompilationError`). Each carries lines that are ready to print, in the shape that frontends parse:
`loc("file":line:column): error: message` for what has a place, `error: message` for the rest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, fields
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any

from libtile.backend.here import here
from libtile.backend.work import Backend, BackendStart
from libtile.compiler.options import Compiled, Kernel, Observer, Options, OptionsError
from libtile.ir.kernels import FromParameter, Parameter, TensorMapRecipe
from libtile.support import environment, timing
from libtile.support.collector import collector_paused
from libtile.support.diagnostics import Diagnostic, DiagnosticError, Severity, SourceLocation
from libtile.support.environment import SettingError
from libtile.support.errors import LibtileError, reason, visible
from libtile.support.internal_errors import internal_error
from libtile.support.remarks import Category, Kind, Remark

if TYPE_CHECKING:
    from libtile.asm.module import Module
    from libtile.compiler.cache import Cache, Key
    from libtile.passes.manager import Instrument

NOT_BYTECODE = "error: input does not correspond to Tile IR bytecode"
NOT_COMPILED = "error: failed to compile Tile IR program"


class DriverError(LibtileError):
    """Base of the driver's errors; the message is the lines to print."""


class InputError(DriverError):
    """The input is not valid Tile IR bytecode."""


class RequestError(DriverError):
    """An option's value is out of range, or options do not go together."""


class CompilationError(DriverError):
    """The program is valid and cannot be compiled for this target."""


@collector_paused()
def compile_bytecode(
    data: bytes,
    options: Options,
    *,
    filename: str = "-",
    preview: Collection[str] = (),
    cache: Cache | None = None,
    observer: Observer | None = None,
    verify_each: bool | None = None,
    instruments: Sequence[Instrument] = (),
    start_backend: BackendStart = lambda: nullcontext(here),
) -> Compiled:
    """Compile a file's bytes: Tile IR bytecode, or the text of a module of an inner dialect, whose locations name
    `filename`.

    The cache is not asked where there is an observer, which sees the module behind each pass, or an instrument of the
    pass manager, or where the verifier is asked for: see `libtile.compiler.stages.lower`. `start_backend` may have
    another thread load LLVM meanwhile: see `libtile.backend.beside`. Raises InputError, RequestError or
    CompilationError.
    """
    if not is_input(data):
        raise InputError(not_input(data))
    try:
        options.check()
        environment.settings()
    except (OptionsError, SettingError) as error:
        raise RequestError(f"error: {error}") from None
    watched = observer is not None or verify_each is not None or bool(instruments)
    key = _key(data, options, preview, filename) if cache is not None and not watched else None
    if cache is not None and key is not None:
        with timing.stage("cache"):
            parts = cache.load(key)
            found = None if parts is None else _unpacked(parts)
        if found is not None:
            return found
    with start_backend() if options.emit in ("ptx", "cubin") else nullcontext(here) as backend:
        module = _load(data, preview, filename)
        made = _compile(module, options, observer, verify_each, instruments, backend)
    if cache is not None and key is not None:
        with timing.stage("cache"):
            cache.store(key, _packed(made))
    return made


def is_input(data: bytes) -> bool:
    """Whether a file may be compiled: bytecode, or a text with a function of the inner dialects. The text of Tile IR is
    what the original does not read either."""
    from libtile import bytecode

    return bytecode.is_bytecode(data) or _is_inner_text(data)


def not_input(data: bytes) -> str:
    """What is said of a file that may not be compiled."""
    from libtile import bytecode

    return _lines(NOT_BYTECODE, *([bytecode.IS_TEXT] if bytecode.is_text(data) else []))


def _is_inner_text(data: bytes) -> bool:
    return _INNER_FUNCTION in data and b"\0" not in data


_INNER_FUNCTION = b"nv_tileaa.func"


def _load(data: bytes, preview: Collection[str], filename: str) -> Module:
    from libtile import bytecode

    with timing.stage("load the dialect"):
        from libtile.asm.module import diagnose, parse, read
        from libtile.bytecode import BytecodeError

    try:
        if bytecode.is_bytecode(data):
            with timing.stage("read bytecode"):
                module = read(data, preview)
        else:
            with timing.stage("read text"):
                module = parse(data.decode("utf-8"), filename)
        with timing.stage("verify"):
            problems = diagnose(module.op)
    except (BytecodeError, UnicodeDecodeError) as error:
        raise InputError(_lines(str(error), NOT_BYTECODE)) from None
    except DiagnosticError as error:
        raise InputError(_lines(*map(located, error.diagnostics), NOT_BYTECODE)) from None
    errors = [d for d in problems if d.severity is Severity.ERROR]
    if errors:
        raise InputError(_lines(*map(located, errors), NOT_BYTECODE))
    return module


def _compile(
    module: Module,
    options: Options,
    observer: Observer | None,
    verify_each: bool | None,
    instruments: Sequence[Instrument],
    backend: Backend,
) -> Compiled:
    with timing.stage("load the compiler"):
        from libtile.compiler.compile import compile_module

    try:
        return compile_module(
            module,
            options,
            verify=False,
            owned=True,
            observer=observer,
            verify_each=verify_each,
            instruments=instruments,
            backend=backend,
        )
    except OptionsError as error:
        raise RequestError(f"error: {error}") from None
    except DiagnosticError as error:
        raise CompilationError(_lines(*map(located, error.diagnostics), NOT_COMPILED)) from None
    except LibtileError as error:
        raise CompilationError(_lines(_located_error(error), NOT_COMPILED)) from None
    except BrokenPipeError:
        raise  # the observer's: nobody reads what it prints
    except OSError as error:
        raise CompilationError(
            _lines(f"error: {error.filename or 'compilation'}: {reason(error)}", NOT_COMPILED)
        ) from None
    except Exception as error:
        # A fault of the compiler itself: its user gets a line like any other, with the place in the compiler.
        text = f"error: {internal_error(error, 'compiler')}"
        raise CompilationError(_lines(text, NOT_COMPILED)) from error


# -- the lines of an error --------------------------------------------------------------------------------------------


def _lines(*texts: str) -> str:
    lines = [visible(line) for text in texts for line in text.split("\n")]
    return "\n".join(x if "error:" in x or "note:" in x or "warning:" in x else f"error: {x}" for x in lines)


def location_text(place: SourceLocation | None) -> str:
    """`loc("file":line:column): `, or nothing for an unknown place."""
    if place is None:
        return ""
    position = f":{place.line}:{place.column}" if place.line else ""
    return f'loc("{visible(place.filename)}"{position}): '


def located(diagnostic: Diagnostic) -> str:
    """A diagnostic and its notes, each on a line that begins with its place."""
    line = f"{location_text(diagnostic.location)}{diagnostic.severity.value}: {visible(diagnostic.message)}"
    return "\n".join([line, *map(located, diagnostic.notes)])


def _located_error(error: LibtileError) -> str:
    place = getattr(error, "location", None)
    message = str(error)
    if isinstance(place, SourceLocation):
        return f"{location_text(place)}error: {message.removeprefix(f'{place}: ')}"
    return f"error: {message}"


# -- the cache's view of a compilation --------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def compiler_identity() -> dict[str, str]:
    """What the output depends on besides input, options and environment, by name: this package's files and the versions
    of what it is built on; tools by path, size and time."""
    from libtile.backend.tools import ToolNotFoundError, libdevice_path, tool_path
    from libtile.compiler.cache import digest
    from libtile.spec.loader import DATA

    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = []
    for folder, folders, names in chain(os.walk(root), os.walk(DATA)):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            path = os.path.join(folder, name)
            status = os.stat(path)
            files.append(f"{os.path.relpath(path, root)} {status.st_size} {status.st_mtime_ns}")
    parts = {"files of libtile": digest(sorted(files)), "python": sys.version}
    finders: dict[str, Callable[[], str]] = {"ptxas": partial(tool_path, "ptxas"), "libdevice": libdevice_path}
    for name, find in finders.items():
        try:
            tool = find()
        except ToolNotFoundError as error:  # what needs it will say so
            parts[name] = str(error)
            continue
        status = os.stat(tool)
        parts[name] = f"{tool} {status.st_size} {status.st_mtime_ns}"
    parts |= {package: _release(package) for package in ("libtile", "llvmlite", "xdsl", "numpy", "ml_dtypes")}
    return parts


def _release(package: str) -> str:
    """What tells a release of a package from another: its version, by the name of the metadata beside it, and the state
    of its first file. `importlib.metadata`, which reads more of it, takes longer to import than this."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return "not installed"
    folder = os.path.dirname(os.path.dirname(spec.origin))
    endings = (".dist-info", ".egg-info")
    found = [name for name in os.listdir(folder) if name.startswith(f"{package}-") and name.endswith(endings)]
    status = os.stat(spec.origin)
    return f"{' '.join(sorted(found))} {status.st_size} {status.st_mtime_ns}"


def _key(data: bytes, options: Options, preview: Iterable[str], filename: str = "-") -> Key:
    from libtile.compiler.cache import Key, digest

    return Key.of(
        {
            "input": digest([data, filename.encode(errors="surrogatepass")] if _is_inner_text(data) else [data]),
            "options": {**asdict(options), "libraries": digest(options.libraries)},
            "preview": sorted(preview),
            "compiler": compiler_identity(),
            "environment": environment.settings(),
        }
    )


_TEXTS = ("ptx", "llvm_ir", "tileaa", "tileas", "log")


def _packed(made: Compiled) -> dict[str, bytes]:
    import json

    remarks = [
        {
            **{f.name: getattr(r, f.name) for f in fields(r)},
            "category": r.category.value,
            "kind": r.kind.value,
            "location": None if r.location is None else asdict(r.location),
        }
        for r in made.remarks
    ]
    texts = {name: getattr(made, name).encode(errors="surrogateescape") for name in _TEXTS}
    kernels = {name: asdict(kernel) for name, kernel in made.kernels.items()}
    rest = {"gpu_name": made.gpu_name, "kernels": kernels, "remarks": remarks}
    return {"cubin": made.cubin, **texts, "rest": json.dumps(rest).encode()}


def _unpacked(parts: dict[str, bytes]) -> Compiled | None:
    """The artifacts that an entry holds; None when it does not hold them all."""
    import json

    try:
        rest = json.loads(parts["rest"])
        remarks = [
            Remark(
                Category(r["category"]),
                Kind(r["kind"]),
                r["name"],
                r["message"],
                r["function"],
                None if r["location"] is None else SourceLocation(**r["location"]),
                tuple((name, text) for name, text in r["arguments"]),
            )
            for r in rest["remarks"]
        ]
        texts: dict[str, Any] = {name: parts[name].decode(errors="surrogateescape") for name in _TEXTS}
        kernels = {name: _kernel(**kernel) for name, kernel in rest["kernels"].items()}
        return Compiled(rest["gpu_name"], parts["cubin"], **texts, kernels=kernels, remarks=remarks, cached=True)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def _kernel(
    *,
    params: list[dict[str, Any]],
    block_dim: list[int],
    cluster: list[int],
    descriptors: list[dict[str, Any]],
    **given: Any,
) -> Kernel:
    return Kernel(
        params=tuple(Parameter(**parameter) for parameter in params),
        block_dim=_extents(block_dim),
        cluster=_extents(cluster),
        descriptors=tuple(_recipe(**recipe) for recipe in descriptors),
        **given,
    )


def _recipe(*, sizes: list[Any], strides: list[Any], box: list[int], **given: Any) -> TensorMapRecipe:
    return TensorMapRecipe(
        sizes=tuple(map(_extent, sizes)), strides=tuple(map(_extent, strides)), box=tuple(box), **given
    )


def _extent(given: int | dict[str, int]) -> int | FromParameter:
    return FromParameter(**given) if isinstance(given, dict) else given


def _extents(given: list[int]) -> tuple[int, int, int]:
    x, y, z = given
    return x, y, z
