# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The library of llvmlite, called directly: the part of `llvmlite.binding` that is used here, by its names.

To import `llvmlite.binding` takes 90 ms of processor time, and to open its library 8. Its functions (LLVMPY_...) are
llvmlite's own, so that they are called directly for the releases that this was written for alone; for others, and in a
process that has loaded `llvmlite.binding`, whose lock all users of LLVM then share, that is what is used: see `load`.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from ctypes import CDLL, byref, c_bool, c_char_p, c_int, c_size_t, c_void_p, string_at
from importlib.util import find_spec
from typing import Any

from libtile.support import timing
from libtile.support.threads import once

RELEASES = ("0.50.",)
"""What the versions of llvmlite begin with whose functions have these parameters."""

_REF, _TEXT, _OUT = c_void_p, c_char_p, c_void_p

_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "InitializeAllTargetInfos": (None, ()),
    "InitializeAllTargets": (None, ()),
    "InitializeAllTargetMCs": (None, ()),
    "InitializeAllAsmPrinters": (None, ()),
    "DisposeString": (None, (_REF,)),
    "ContextCreate": (_REF, ()),
    "ContextDispose": (None, (_REF,)),
    "GetGlobalContext": (_REF, ()),
    "ParseAssembly": (_REF, (_REF, _TEXT, _OUT)),
    "ParseBitcode": (_REF, (_REF, _TEXT, c_size_t, _OUT)),
    "DisposeModule": (None, (_REF,)),
    "VerifyModule": (c_bool, (_REF, _OUT)),
    "PrintModuleToString": (None, (_REF, _OUT)),
    "WriteBitcodeToString": (None, (_REF, _OUT, _OUT)),
    "GetDataLayout": (None, (_REF, _OUT)),
    "SetDataLayout": (None, (_REF, _TEXT)),
    "GetTarget": (None, (_REF, _OUT)),
    "SetTarget": (None, (_REF, _TEXT)),
    "LinkModules": (c_int, (_REF, _REF, _OUT)),
    "GetNamedFunction": (_REF, (_REF, _TEXT)),
    "ModuleFunctionsIter": (_REF, (_REF,)),
    "FunctionsIterNext": (_REF, (_REF,)),
    "DisposeFunctionsIter": (None, (_REF,)),
    "ModuleGlobalsIter": (_REF, (_REF,)),
    "GlobalsIterNext": (_REF, (_REF,)),
    "DisposeGlobalsIter": (None, (_REF,)),
    "GetValueName": (_TEXT, (_REF,)),
    "IsDeclaration": (c_int, (_REF,)),
    "GetLinkage": (c_int, (_REF,)),
    "SetLinkage": (None, (_REF, c_int)),
    "PrintValueToString": (None, (_REF, _OUT)),
    "GlobalGetValueType": (_REF, (_REF,)),
    "PrintType": (_REF, (_REF,)),
    "GetTargetFromTriple": (_REF, (_TEXT, _OUT)),
    "CreateTargetMachine": (_REF, (_REF, _TEXT, _TEXT, _TEXT, c_int, _TEXT, _TEXT, c_int, c_int, _TEXT)),
    "DisposeTargetMachine": (None, (_REF,)),
    "TargetMachineEmitToMemory": (_REF, (_REF, _REF, c_int, _OUT)),
    "GetBufferStart": (c_void_p, (_REF,)),
    "GetBufferSize": (c_size_t, (_REF,)),
    "DisposeMemoryBuffer": (None, (_REF,)),
    "CreatePipelineTuningOptions": (_REF, ()),
    "DisposePipelineTuningOptions": (None, (_REF,)),
    "CreatePassBuilder": (_REF, (_REF, _REF)),
    "DisposePassBuilder": (None, (_REF,)),
    "buildPerModuleDefaultPipeline": (_REF, (_REF, c_int)),
    "CreateNewModulePassManager": (_REF, ()),
    "RunNewModulePassManager": (None, (_REF, _REF, _REF)),
    "DisposeNewModulePassManger": (None, (_REF,)),
    "module_AddGlobalDCEPass": (None, (_REF,)),
    "module_AddAlwaysInlinerPass": (None, (_REF,)),
    "module_AddSimplifyCFGPass": (None, (_REF,)),
    "module_AddInstCombinePass": (None, (_REF,)),
    "module_AddSCCPPass": (None, (_REF,)),
    "module_AddSinkingPass": (None, (_REF,)),
    "module_AddSROAPass": (None, (_REF,)),
    "module_AddADCEPass": (None, (_REF,)),
}
"""Results and parameters, as `llvmlite/binding` declares them; `_OUT` is the place of a string that is given back."""

_LINKAGES = {0: "external", 8: "internal", 9: "private"}
_OTHER = "other"


@once
def load() -> Any:
    """The binding of LLVM, with all targets ready: this one, or `llvmlite.binding`."""
    with timing.stage("load LLVM"):
        library = _library()
        if library is None:
            import llvmlite.binding as llvm
        else:
            llvm = Binding(library)
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm


def library_path() -> str | None:
    """Where llvmlite's library is; None where `llvmlite.binding` is to be used."""
    if "llvmlite.binding" in sys.modules:
        return None
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return None
    folder = os.path.dirname(spec.origin)
    name = {"win32": "llvmlite.dll", "darwin": "libllvmlite.dylib"}.get(sys.platform, "libllvmlite.so")
    try:
        with open(os.path.join(folder, "_version.py"), encoding="utf-8") as file:
            version = file.read().partition("version_version = '")[2]
    except OSError:
        return None
    return os.path.join(folder, "binding", name) if version.startswith(RELEASES) else None


CAN_OPEN_AHEAD = hasattr(os, "RTLD_NOW")
"""Whether this system's function that opens libraries can be called as any other function."""


def open_ahead(path: str) -> None:
    """Open the library, and have LLVM make its targets, so that `load` takes no time. It is for another thread: Python
    goes on beside it, as it does not while `ctypes` itself opens a library. What goes wrong here `load` will say."""
    with contextlib.suppress(OSError, AttributeError, ValueError):
        function = CDLL(None).dlopen
        function.restype, function.argtypes = c_void_p, [c_char_p, c_int]
        if function(os.fsencode(path), os.RTLD_NOW | os.RTLD_LOCAL):
            Binding(CDLL(path)).initialize_all_targets()


def _library() -> CDLL | None:
    """llvmlite's library, with its functions declared; None where `llvmlite.binding` is to be used."""
    path = library_path()
    if path is None:
        return None
    try:
        library = CDLL(path)
        for function, (result, parameters) in _FUNCTIONS.items():
            declared = getattr(library, f"LLVMPY_{function}")
            declared.restype, declared.argtypes = result, parameters
    except (OSError, AttributeError):  # built in another way
        return None
    return library


class _Owned:
    """A pointer to an object of LLVM's, and those that it `needs` as long as it is there.

    Python ends objects that refer to each other in any order, when it collects a cycle that they are in (an exception's
    traceback has variables); LLVM's end when nobody needs them any more.
    """

    def __init__(self, library: CDLL, pointer: int, dispose: str, *needs: _Owned) -> None:
        self.library = library
        self.pointer = pointer
        self._dispose: Callable[[int], None] | None = getattr(library, f"LLVMPY_{dispose}")
        self._needs = needs
        self._users = 0
        self._left = False
        for needed in needs:
            needed._users += 1

    def detach(self) -> None:
        """The object has another owner from now on."""
        self._dispose = None

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():
            self._left = True
            self._end_if_left()

    def _end_if_left(self) -> None:
        if not self._left or self._users:
            return
        dispose, self._dispose = self._dispose, None
        if dispose is not None:
            dispose(self.pointer)
        needs, self._needs = self._needs, ()
        for needed in needs:
            needed._users -= 1
            needed._end_if_left()


class _String:
    """A string that a function of the library gives back, as its last argument."""

    def __init__(self, library: CDLL, *, owned: bool = True) -> None:
        self._library, self._owned = library, owned
        self._pointer = c_void_p()
        self.place = byref(self._pointer)

    def __bool__(self) -> bool:
        return bool(self._pointer)

    def take(self, size: int = -1) -> bytes:
        """Its bytes, once."""
        if not self._pointer:
            return b""
        data = string_at(self._pointer, size)
        if self._owned:
            self._library.LLVMPY_DisposeString(self._pointer)
        self._pointer = c_void_p()
        return data

    def text(self) -> str:
        return self.take().decode("utf-8")


class Value:
    """A function or variable of a module."""

    def __init__(self, module: Module, pointer: int) -> None:
        self._library, self._pointer = module.library, pointer
        self._module = module

    @property
    def name(self) -> str:
        name: bytes = self._library.LLVMPY_GetValueName(self._pointer)
        return name.decode("utf-8")

    @property
    def is_declaration(self) -> bool:
        return bool(self._library.LLVMPY_IsDeclaration(self._pointer))

    @property
    def linkage(self) -> str:
        """The name of one of the linkages that matter here; "other" for the rest."""
        return _LINKAGES.get(self._library.LLVMPY_GetLinkage(self._pointer), _OTHER)

    @linkage.setter
    def linkage(self, name: str) -> None:
        number = next(number for number, known in _LINKAGES.items() if known == name)
        self._library.LLVMPY_SetLinkage(self._pointer, number)

    @property
    def global_value_type(self) -> str:
        """The type of a function or variable, as LLVM IR writes it."""
        text = self._library.LLVMPY_PrintType(self._library.LLVMPY_GlobalGetValueType(self._pointer))
        try:
            return string_at(text).decode("utf-8")
        finally:
            self._library.LLVMPY_DisposeString(text)

    def __str__(self) -> str:
        text = _String(self._library)
        self._library.LLVMPY_PrintValueToString(self._pointer, text.place)
        return text.text()


class Module(_Owned):
    """A module of LLVM IR in a context."""

    def verify(self) -> None:
        """RuntimeError, with what is wrong."""
        message = _String(self.library)
        wrong = self.library.LLVMPY_VerifyModule(self.pointer, message.place)
        said = message.text()
        if wrong:
            raise RuntimeError(said)

    @property
    def functions(self) -> Iterator[Value]:
        return self._values("Functions")

    @property
    def global_variables(self) -> Iterator[Value]:
        return self._values("Globals")

    def _values(self, kind: str) -> Iterator[Value]:
        library = self.library
        values = getattr(library, f"LLVMPY_Module{kind}Iter")(self.pointer)
        following = getattr(library, f"LLVMPY_{kind}IterNext")
        try:
            while pointer := following(values):
                yield Value(self, pointer)
        finally:
            getattr(library, f"LLVMPY_Dispose{kind}Iter")(values)

    def get_function(self, name: str) -> Value:
        """The function of a name. NameError when there is none."""
        pointer = self.library.LLVMPY_GetNamedFunction(self.pointer, name.encode())
        if not pointer:
            raise NameError(name)
        return Value(self, pointer)

    @property
    def triple(self) -> str:
        text = _String(self.library, owned=False)
        self.library.LLVMPY_GetTarget(self.pointer, text.place)
        return text.text()

    @triple.setter
    def triple(self, text: str) -> None:
        self.library.LLVMPY_SetTarget(self.pointer, text.encode())

    @property
    def data_layout(self) -> str:
        text = _String(self.library, owned=False)
        self.library.LLVMPY_GetDataLayout(self.pointer, text.place)
        return text.text()

    @data_layout.setter
    def data_layout(self, text: str) -> None:
        self.library.LLVMPY_SetDataLayout(self.pointer, text.encode())

    def link_in(self, other: Module) -> None:
        """Take over all that another module has, which is gone then. RuntimeError where the two do not fit."""
        message = _String(self.library)
        wrong = self.library.LLVMPY_LinkModules(self.pointer, other.pointer, message.place)
        other.detach()
        said = message.text()
        if wrong:
            raise RuntimeError(said)

    def as_bitcode(self) -> bytes:
        data, size = _String(self.library), c_size_t()
        self.library.LLVMPY_WriteBitcodeToString(self.pointer, data.place, byref(size))
        return data.take(size.value)

    def __str__(self) -> str:
        text = _String(self.library)
        self.library.LLVMPY_PrintModuleToString(self.pointer, text.place)
        return text.text()


class TargetMachine(_Owned):
    """Emits code for a target."""

    def emit_assembly(self, module: Module) -> str:
        return self._emit(module, 0).decode("utf-8")

    def emit_object(self, module: Module) -> bytes:
        return self._emit(module, 1)

    def _emit(self, module: Module, as_object: int) -> bytes:
        library = self.library
        message = _String(library)
        buffer = library.LLVMPY_TargetMachineEmitToMemory(self.pointer, module.pointer, as_object, message.place)
        said = message.text()
        if not buffer:
            raise RuntimeError(said)
        try:
            return string_at(library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer))
        finally:
            library.LLVMPY_DisposeMemoryBuffer(buffer)


class Target:
    """What is known under a triple."""

    def __init__(self, library: CDLL, pointer: int, triple: str) -> None:
        self._library, self._pointer, self._triple = library, pointer, triple

    def create_target_machine(
        self, cpu: str = "", features: str = "", opt: int = 2, reloc: str = "default", codemodel: str = "jitdefault"
    ) -> TargetMachine:
        """RuntimeError where LLVM has none."""
        triple = self._triple
        if os.name == "nt" and codemodel == "jitdefault":  # as `llvmlite.binding` has it
            triple += "-elf"
        words = (word.encode() for word in (triple, cpu, features))
        pointer = self._library.LLVMPY_CreateTargetMachine(
            self._pointer, *words, opt, reloc.encode(), codemodel.encode(), 0, 0, b""
        )
        if not pointer:
            raise RuntimeError("Cannot create target machine")
        return TargetMachine(self._library, pointer, "DisposeTargetMachine")


class TuningOptions(_Owned):
    """The level of a pipeline."""

    speed_level = 2


class PassManager(_Owned):
    """Passes over a module."""

    def run(self, module: Module, builder: PassBuilder) -> None:
        self.library.LLVMPY_RunNewModulePassManager(self.pointer, module.pointer, builder.pointer)

    def add_global_dead_code_eliminate_pass(self) -> None:
        self.library.LLVMPY_module_AddGlobalDCEPass(self.pointer)

    def add_always_inliner_pass(self) -> None:
        self.library.LLVMPY_module_AddAlwaysInlinerPass(self.pointer)

    def add_simplify_cfg_pass(self) -> None:
        self.library.LLVMPY_module_AddSimplifyCFGPass(self.pointer)

    def add_instruction_combine_pass(self) -> None:
        self.library.LLVMPY_module_AddInstCombinePass(self.pointer)

    def add_sccp_pass(self) -> None:
        self.library.LLVMPY_module_AddSCCPPass(self.pointer)

    def add_sinking_pass(self) -> None:
        self.library.LLVMPY_module_AddSinkingPass(self.pointer)

    def add_sroa_pass(self) -> None:
        self.library.LLVMPY_module_AddSROAPass(self.pointer)

    def add_aggressive_dce_pass(self) -> None:
        self.library.LLVMPY_module_AddADCEPass(self.pointer)


class PassBuilder(_Owned):
    """Makes pipelines for a target machine."""

    def __init__(self, library: CDLL, machine: TargetMachine, options: TuningOptions) -> None:
        pointer = library.LLVMPY_CreatePassBuilder(machine.pointer, options.pointer)
        super().__init__(library, pointer, "DisposePassBuilder", machine, options)
        self._level = options.speed_level

    def getModulePassManager(self) -> PassManager:
        pointer = self.library.LLVMPY_buildPerModuleDefaultPipeline(self.pointer, self._level)
        return PassManager(self.library, pointer, "DisposeNewModulePassManger", self)


class _Targets:
    """`Target` of `llvmlite.binding`."""

    def __init__(self, library: CDLL) -> None:
        self._library = library

    def from_triple(self, triple: str) -> Target:
        """RuntimeError for a triple of no target."""
        message = _String(self._library)
        pointer = self._library.LLVMPY_GetTargetFromTriple(triple.encode(), message.place)
        said = message.text()
        if not pointer:
            raise RuntimeError(said)
        return Target(self._library, pointer, triple)


class Binding:
    """What `llvmlite.binding` has of functions."""

    def __init__(self, library: CDLL) -> None:
        self._library = library
        self.Target = _Targets(library)

    def initialize_all_targets(self) -> None:
        for what in ("TargetInfos", "Targets", "TargetMCs"):
            getattr(self._library, f"LLVMPY_InitializeAll{what}")()

    def initialize_all_asmprinters(self) -> None:
        self._library.LLVMPY_InitializeAllAsmPrinters()

    def create_context(self) -> _Owned:
        return _Owned(self._library, self._library.LLVMPY_ContextCreate(), "ContextDispose")

    def parse_assembly(self, text: str, context: _Owned) -> Module:
        """RuntimeError for what is no LLVM IR."""
        return self._parsed("assembly", "ParseAssembly", context, text.encode("utf-8"))

    def parse_bitcode(self, data: bytes, context: _Owned | None = None) -> Module:
        """RuntimeError for what is no bitcode; without a context it is a new one."""
        return self._parsed("bitcode", "ParseBitcode", context or self.create_context(), data, len(data))

    def _parsed(self, what: str, function: str, context: _Owned, *given: Any) -> Module:
        message = _String(self._library)
        parse = getattr(self._library, f"LLVMPY_{function}")
        pointer = parse(context.pointer, *given, message.place)
        said = message.text()
        if said or not pointer:
            raise RuntimeError(f"LLVM {'IR' if what == 'assembly' else what} parsing error\n{said}")
        return Module(self._library, pointer, "DisposeModule", context)

    def create_pipeline_tuning_options(self, speed_level: int = 2) -> TuningOptions:
        library = self._library
        options = TuningOptions(library, library.LLVMPY_CreatePipelineTuningOptions(), "DisposePipelineTuningOptions")
        options.speed_level = speed_level
        return options

    def create_pass_builder(self, machine: TargetMachine, options: TuningOptions) -> PassBuilder:
        return PassBuilder(self._library, machine, options)

    def create_new_module_pass_manager(self) -> PassManager:
        pointer = self._library.LLVMPY_CreateNewModulePassManager()
        return PassManager(self._library, pointer, "DisposeNewModulePassManger")
