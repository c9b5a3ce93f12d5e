# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`tileiras`: Tile IR bytecode to a cubin, with the options of NVIDIA's assembler of this name, and more of ours."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from libtile.passes.pipelines import SCHEDULES
from libtile.support.errors import reason, visible
from libtile_tools import cli, mlir_options, pass_options
from libtile_tools import command_line as click

if TYPE_CHECKING:
    from libtile.backend.work import Backend
    from libtile.compiler.cache import Cache
    from libtile.compiler.options import Compiled, Options
    from libtile.passes.instrumentation import Watch
    from libtile.passes.pipeline import Item
    from libtile.support.remarks import RemarkFilter

_COMMAND_LINE = 1
_REQUEST = 2
_INPUT = 3
_COMPILE = 5

DEFAULT_OUTPUT = "elf.o"
DEFAULT_REMARKS = "tileir_remarks.yaml"

_EMIT = ("tileaa", "tileas", "llvm", "ptx", "cubin")
_SUFFIXES = {"tileaa": ".tileaa.mlir", "tileas": ".tileas.mlir", "llvm": ".ll", "ptx": ".ptx"}
_REMARK_KINDS = ("passed", "missed", "failed", "analysis")
_REMARK_VALUES = ("none", "all", "memory", "tensorcore")


def _one_of(name: str, values: tuple[str, ...] | Callable[[], tuple[str, ...]]) -> Callable[..., str | None]:
    """Checks an option's value against a list, in LLVM's words."""

    def check(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
        if value is not None and value not in (values() if callable(values) else values):
            raise click.ClickException(f"for the --{name} option: Cannot find option named '{value}'!")
        return value

    return check


def _gpu_names() -> tuple[str, ...]:
    from libtile.targets import targets

    return tuple(targets())


def _choice(name: str, values: tuple[str, ...], default: str | None, text: str) -> Callable[[Any], Any]:
    metavar = f"[{'|'.join(values)}]"
    return click.option(f"--{name}", metavar=metavar, default=default, callback=_one_of(name, values), help=text)


def _opt_level(ctx: click.Context, param: click.Parameter, value: str) -> int:
    try:
        level = int(value, 0)
        if not -(1 << 31) <= level < 1 << 31:
            raise ValueError
        return level
    except ValueError:
        raise click.ClickException(
            f"for the --opt-level option: '{value}' value invalid for integer argument!"
        ) from None


def _list_versions(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from libtile.spec import default_spec

        click.echo("\n".join(str(version) for version in default_spec().released_versions))
        ctx.exit()


def _remark_options(function: Any) -> Any:
    for kind in _REMARK_KINDS:
        text = f"Category of the {kind} remarks to show."
        function = _choice(f"remarks-{kind}", _REMARK_VALUES, "none", text)(function)
    return _choice("remarks", _REMARK_VALUES, "none", "Category of which to show remarks of every kind.")(function)


@click.command(
    "tileiras",
    examples=(
        "tileiras --gpu-name=sm_90 kernel.bc -o kernel.cubin",
        "tileiras --gpu-name=sm_90 --remarks=all kernel.bc -o kernel.cubin",
        "tileiras --gpu-name=sm_80 --emit=ptx kernel.bc",
        "tileiras --gpu-name=sm_90 --print-ir-after-all --time-report kernel.bc -o /dev/null",
    ),
    statuses=(
        "0  done",
        f"{_COMMAND_LINE}  the command line is wrong, or the input cannot be read",
        f"{_REQUEST}  what is asked for is impossible, or the output cannot be written",
        f"{_INPUT}  the input is not valid Tile IR bytecode, or the remarks' file cannot be written",
        f"{_COMPILE}  the program cannot be compiled; stderr says which operation, where, and why",
    ),
)
@click.argument("inputs", metavar="TILE_BYTECODE_FILE", nargs=-1)
@click.option(
    "--gpu-name", "--arch", metavar="sm_NN", callback=_one_of("gpu-name", _gpu_names),
    help="The GPU to generate code for: sm_80 to sm_121.",
)  # fmt: skip
@click.option("-o", "--output-file", metavar="FILE", help=f"Where the output goes; default {DEFAULT_OUTPUT}.")
@click.option("-O", "--opt-level", metavar="N", default="3", callback=_opt_level, help="0 to 3; default 3.")
@click.option("-g", "--device-debug", is_flag=True, help="Generate debug information; needs -O0, or --dopt=on.")
@click.option("--lineinfo", is_flag=True, help="Generate line numbers, where the bytecode has locations.")
@_choice(
    "dopt", ("on",), None, "With -g above -O0: keep debug information of optimized code, its line numbers, as nvcc."
)
@_choice("sanitize", ("memcheck",), None, "Instrument for a sanitizer: memcheck checks memory accesses.")
@_choice("host-arch", ("x86_64", "aarch64"), None, "Architecture of the host code in the output; default this one's.")
@_choice("host-os", ("linux", "windows"), "linux", "System of the host code in the output.")
@cli.preview_option
@click.option("-l", "libraries", multiple=True, metavar="PATH", help="Libraries of LLVM bitcode; needs --preview=simt.")
@click.option("--apply-controls", metavar="PATH", default="", help="Accepted, and refused, as by the original.")
@_remark_options
@_choice("remark-format", ("command-line", "yaml"), "command-line", "Print remarks, or write them to a YAML file.")
@click.option(
    "--remarks-output-file", metavar="FILE", default=DEFAULT_REMARKS, help=f"The YAML file; default {DEFAULT_REMARKS}."
)
@_choice("emit", _EMIT, "cubin", "Stop after a stage and write it: to stdout, unless -o is given, if it is text.")
@_choice("launch-abi", ("tileir", "simt"), "tileir", "How it is launched: block (1,1,1), or a block size of your own.")
@_choice(
    "schedule",
    SCHEDULES,
    None,
    "How loops overlap with the copies of their tiles: not at all, by the warps that compute, or by a producer.",
)
@click.option(
    "--pass-pipeline", "pipeline", metavar="PIPELINE", default="",
    help="Run these passes in place of those of the level; O0 to O3 in it stand for those.",
)  # fmt: skip
@click.option(
    "--print-pipeline", is_flag=True, help="Print the passes that would run, for --pass-pipeline to take, and exit."
)
@mlir_options.add_watching
@pass_options.add
@click.option("--keep", is_flag=True, help="Keep every stage's text beside the output.")
@click.option("--no-cache", is_flag=True, help="Neither ask nor fill the compile cache.")
@click.option("--cache-dir", metavar="DIR", help="Where the compile cache is; default LIBTILE_CACHE_DIR's place.")
@click.option(
    "--list-versions", is_flag=True, is_eager=True, expose_value=False, callback=_list_versions,
    help="List the bytecode versions that can be read, and exit.",
)  # fmt: skip
@cli.version_option("open CUDA Tile IR assembler")
@click.pass_context
def command(ctx: click.Context, /, inputs: tuple[str, ...], **options: Any) -> None:
    """Compile Tile IR bytecode to a cubin, or the text of a module of the inner dialects (as --emit=tileaa prints it).

    '-' stands for stdin. Long options may be given with one dash or two.
    """
    if len(inputs) > 1:
        raise cli.SeveralLines(
            "Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: tileiras --help"
        )
    if options["print_pipeline"]:
        from libtile.passes.pipeline import pipeline_text

        cli.write_output("-", pipeline_text(_pipeline(options)) + "\n")
        return
    if not inputs or not inputs[0]:
        cli.say("error: no input file provided")
        click.echo(ctx.get_help())
        raise cli.Failed
    if options["dump_pipeline"]:
        mlir_options.say_pipeline(_pipeline(options))
    with cli.time_report(options["time_report"]):
        _compile(inputs[0], options)


for _name in ("--help-list", "--help-hidden", "--help-list-hidden"):
    command.add_option(_name, is_flag=True, is_eager=True, expose_value=False, hidden=True, callback=cli.show_help)
for _name in (
    "-w",
    "--Werror",
):  # nvcc hands on its own; what there is to warn of is no warning to these in the original
    command.add_option(_name, is_flag=True, expose_value=False, hidden=True)
for _name in ("--print-options", "--print-all-options"):  # the original takes them, and prints nothing for them
    command.add_option(_name, is_flag=True, expose_value=False, hidden=True)


def _compile(path: str, given: dict[str, Any]) -> None:
    from libtile.support import timing

    if cli.owns_process():
        from libtile_tools import huge_pages

        huge_pages.use()
    with timing.stage("load the driver"):
        from libtile import bytecode  # noqa: F401  # bytecode for what follows
        from libtile.compiler import driver  # bytecode for what follows

    data = _read(path)
    _check_request(data, given)
    _check_files(path, given)
    filter_ = _remark_filter(given)
    watch = pass_options.watch(given, mlir_options.printer(given)) if pass_options.wanted(given) else None
    try:
        made = driver.compile_bytecode(
            data,
            _options(given),
            filename=path,
            preview=given["previews"],
            cache=_cache(given),
            verify_each=given["verify_each"],
            instruments=watch.instruments if watch is not None else (),
            start_backend=_start_backend,
        )
    except driver.DriverError as error:
        statuses: dict[type, int] = {driver.InputError: _INPUT, driver.RequestError: _REQUEST}
        raise cli.ToolError(str(error), statuses.get(type(error), _COMPILE), several_lines=True) from None
    finally:
        if watch is not None:
            watch.report()
    if watch is not None:
        _check_watched(watch)
    _give_remarks(made, filter_, given)
    _write(made, given)


def _start_backend() -> AbstractContextManager[Backend]:
    """With LLVM in a thread of its own, where this process is the tool's and there is a processor for it."""
    from libtile.backend import beside, fatal
    from libtile.backend.here import here
    from libtile.compiler import driver

    fatal.end_with(_COMPILE, driver.NOT_COMPILED)
    return beside.LlvmThread() if cli.owns_process() and beside.is_useful() else nullcontext(here)


def _check_watched(watch: Watch) -> None:
    """A pass whose IR was asked for and that did not run is a mistake in the command line."""
    from libtile.passes.instrumentation import WatchError

    try:
        watch.check()
    except WatchError as error:
        raise cli.ToolError(f"error: {error}", _COMMAND_LINE) from None


def _pipeline(given: dict[str, Any]) -> tuple[Item, ...]:
    """The pipeline of a compilation with these options: without a target, where its name would stand is nothing."""
    from libtile.compiler.options import OptionsError
    from libtile.passes.pipeline import PipelineError, for_target, parse_pipeline

    try:
        options = _options(given)
        options.check()
        items = parse_pipeline(options.passes)
        return for_target(items, options.gpu_name) if options.gpu_name else items
    except (OptionsError, PipelineError) as error:
        raise cli.ToolError(f"error: {error}", _REQUEST) from None


def _read(path: str) -> bytes:
    try:
        return cli.read_input(path)
    except cli.ToolError as error:
        reason = str(error).rpartition("': ")[2]
        raise cli.ToolError(f"error: unable to read input file '{visible(path)}': {reason}", _COMMAND_LINE) from None


def _check_request(data: bytes, given: dict[str, Any]) -> None:
    """What the original refuses before it compiles, with its words and statuses."""
    from libtile.compiler.driver import is_input, not_input

    if not is_input(data):
        raise cli.ToolError(not_input(data), _INPUT, several_lines=True)
    if given["gpu_name"] is None:
        raise cli.ToolError(f"error: no GPU was named: give --gpu-name, one of {', '.join(_gpu_names())}", _REQUEST)
    if given["apply_controls"]:
        raise cli.ToolError("error: --apply-controls is not supported on this platform", _REQUEST)
    if given["libraries"] and "simt" not in given["previews"]:
        raise cli.ToolError("error: libraries require the 'simt' preview feature", _COMPILE)
    for library in given["libraries"]:
        from libtile.backend.bitcode import is_bitcode

        try:
            data = cli.read_input(library)
        except cli.ToolError as error:
            reason = str(error).rpartition("': ")[2]
            raise cli.ToolError(f"error: failed to open tile library: {reason}", _COMPILE) from None
        if is_bitcode(data):
            continue
        if not data.startswith(b"\x7fELF"):
            raise cli.ToolError(
                "error: failed to open tile library: The file was not recognized as a valid object file", _COMPILE
            )
        raise cli.ToolError(
            f"error: cannot link tile library '{library}': tile libraries are not supported, LLVM bitcode is", _COMPILE
        )


def _check_files(path: str, given: dict[str, Any]) -> None:
    """No file is written twice, and nothing but `-o` names the input as a file to write."""
    beside = [(f"--keep's {name}", kept) for name, kept in _kept_files(given) if name != given["emit"]]
    if given["remark_format"] == "yaml" and _remarks_wanted(given):
        beside.append(("the remarks' file", _remarks_file(given)))
    taken = {os.path.realpath(path): f"the input '{visible(path)}'"}
    if (output := _output(given)) != "-":
        taken.setdefault(os.path.realpath(output), f"the output '{visible(output)}'")
    for what, name in beside:
        real = os.path.realpath(name)
        if real in taken and (os.path.isfile(real) or not os.path.exists(real)):
            raise cli.ToolError(f"error: {what} would overwrite {taken[real]}", _REQUEST)
        taken[real] = what


def _options(given: dict[str, Any]) -> Options:
    from libtile.compiler.options import Options as CompilerOptions
    from libtile.compiler.options import machine

    return CompilerOptions(
        gpu_name=given["gpu_name"],
        opt_level=given["opt_level"],
        line_info=given["lineinfo"],
        debug=given["device_debug"],
        dopt=given["dopt"] == "on",
        sanitize=given["sanitize"] or "",
        host=(given["host_arch"] or machine(), given["host_os"]),
        launch_abi=given["launch_abi"],
        emit=given["emit"],
        keep_text=given["keep"],
        pipeline=given["pipeline"],
        schedule=given["schedule"] or "",
        libraries=tuple(cli.read_input(library) for library in given["libraries"]),
    )


def _cache(given: dict[str, Any]) -> Cache | None:
    if given["no_cache"]:
        return None
    from libtile.compiler import cache
    from libtile.support import environment

    found = cache.from_environment(given["cache_dir"])
    named = given["cache_dir"] or environment.CACHE_FOLDER.text()
    obstacle = found.obstacle() if found is not None and named and not given["error_diagnostics_only"] else None
    if named and obstacle is not None:
        cli.say(f"warning: nothing is cached in '{visible(named)}': {obstacle}")
    return found


def _output(given: dict[str, Any]) -> str:
    """Where the output goes, `-` for stdout."""
    named: str | None = given["output_file"]
    return named if named is not None else DEFAULT_OUTPUT if given["emit"] == "cubin" else "-"


def _kept_files(given: dict[str, Any]) -> list[tuple[str, str]]:
    """The stages that --keep writes, and where."""
    if not given["keep"]:
        return []
    from pathlib import Path  # which takes as long to import as all else that `--version` needs of Python's own

    output = _output(given)
    base = Path(DEFAULT_OUTPUT if output == "-" else output)
    if not base.name:
        raise cli.ToolError(f"error: cannot open output file '{visible(output)}': it is a folder", _REQUEST)
    return [(name, str(base.with_suffix(suffix))) for name, suffix in _SUFFIXES.items()]


def _write(made: Compiled, given: dict[str, Any]) -> None:
    stage = given["emit"]
    output = _output(given)
    try:
        cli.write_output(output, made.stage(stage))
        for name, path in _kept_files(given):
            if text := made.stage(name):
                cli.write_output(path, text)
    except cli.ToolError as error:
        raise cli.ToolError(f"error: {error}", _REQUEST) from None


def _remark_filter(given: dict[str, Any]) -> RemarkFilter | None:
    """The filter, when the file of YAML remarks can be written; None when no remark is wanted."""
    if not _remarks_wanted(given):
        return None
    from libtile.support.remarks import RemarkFilter as Filter

    if given["remark_format"] == "yaml":
        path = _remarks_file(given)
        try:
            existed = os.path.exists(path)
            with open(path, "ab"):
                pass
            if not existed:  # it is written when there is something to write
                os.unlink(path)
        except OSError as error:
            raise cli.ToolError(
                f"Error opening remark output file '{visible(path)}': {reason(error)}\n"
                "error: failed to enable optimization remarks",
                _INPUT,
                several_lines=True,
            ) from None
    return Filter.from_options(given["remarks"], **{kind: given[f"remarks_{kind}"] for kind in _REMARK_KINDS})


def _remarks_wanted(given: dict[str, Any]) -> bool:
    return any(given[key] != "none" for key in ("remarks", *(f"remarks_{kind}" for kind in _REMARK_KINDS)))


def _give_remarks(made: Compiled, filter_: RemarkFilter | None, given: dict[str, Any]) -> None:
    from libtile.support.remarks import warnings_format

    quiet = given["error_diagnostics_only"]
    if not quiet:
        click.echo(warnings_format(made.remarks).encode(errors="surrogateescape"), nl=False, err=True)
    if filter_ is None:
        return
    from libtile.support.remarks import command_line_format, yaml_format

    wanted = filter_.select(made.remarks)
    if given["remark_format"] == "yaml":
        try:
            cli.write_output(_remarks_file(given), yaml_format(wanted))
        except cli.ToolError as error:
            raise cli.ToolError(f"error: {error}", _INPUT) from None
    elif not quiet:
        # Text for a reader goes beside the output, never into it.
        text = command_line_format(wanted).encode(errors="surrogateescape")
        click.echo(text, nl=False, err=_output(given) == "-")


def _remarks_file(given: dict[str, Any]) -> str:
    return given["remarks_output_file"] or DEFAULT_REMARKS


def main() -> None:
    """The tool's entry point."""
    cli.run(command)
