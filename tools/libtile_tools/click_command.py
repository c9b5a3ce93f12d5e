# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Commands with LLVM's spellings of options, on click: they read what `command_line` leaves to click."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from libtile.support.errors import visible
from libtile_tools.truth_values import FALSE, TRUE


class OptionalValue(click.Option):
    """An option whose value may be left out, only ever given after `=`; `implied` stands for a missing one."""

    def __init__(self, *args: Any, implied: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.implied = implied


class Seconds(click.FloatRange):
    """A time. What is no number (`nan`) is in no range, and in none that a comparison finds it outside of."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        seconds = super().convert(value, param, ctx)
        if seconds != seconds:
            self.fail(f"{value} is no number of seconds", param, ctx)
        return seconds


class SeveralLines(click.ClickException):
    """What is wrong with a command line, in lines; any other message is shown on one."""


class Command(click.Command):
    """A command with LLVM's spellings: `-long-option` and `--flag=false`; its help ends with examples and statuses."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), statuses: Sequence[str] = (), **kwargs: Any) -> None:
        kwargs.setdefault("context_settings", {})
        defaults = {"max_content_width": 110, "help_option_names": ["-h", "--help"]}
        kwargs["context_settings"] = {**defaults, **kwargs["context_settings"]}
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.statuses = statuses or ("0  done", "1  the input or the command line is wrong; stderr says what and where")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["arguments"] = list(args)
        return super().parse_args(ctx, list(self._normalised(ctx, args)))

    def _normalised(self, ctx: click.Context, args: Sequence[str]) -> Iterator[str]:
        longs: dict[str, click.Option] = {}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option):
                longs.update((o.lstrip("-"), param) for o in param.opts)
        taken = False  # whether the next argument is the value of the option before
        for position, arg in enumerate(args):
            if arg == "--":
                yield from args[position:]
                return
            name, equals, value = arg.lstrip("-").partition("=")
            option = longs.get(name)
            if taken or len(arg) < 2 or not arg.startswith("-"):
                taken = False
                yield arg
            elif option is None:
                if arg[1] == "-" and name[:1] in longs and name[1:].isdigit():
                    yield arg[1:]  # --O2 for -O2
                elif arg[1] == "-" or arg[1] not in longs:
                    near = [f"{match}{equals}{value}" for match in _near(name, longs)]
                    raise click.NoSuchOption(arg, possibilities=near, ctx=ctx)
                else:
                    yield arg  # a short option with its value, such as -oFILE
            elif isinstance(option, OptionalValue):
                yield f"{_spelled(name)}={value if equals else option.implied}"
            elif option.is_flag and equals:
                if value not in TRUE + FALSE:
                    raise click.ClickException(
                        f"for the {_spelled(name)} option: '{value}' is invalid value for boolean argument! Try 0 or 1"
                    )
                if value in TRUE:
                    yield _spelled(name)
            else:
                yield _spelled(name) + ("" if not equals else f"={value}" if len(name) > 1 else value)
                # `-p=x` and `-p x` both give x; `is_flag` options take nothing.
                taken = not equals and not option.is_flag and option.nargs == 1

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        for title, lines in (("Examples", self.examples), ("Exit status", self.statuses)):
            if lines:
                with formatter.section(title):
                    for line in lines:
                        formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def _near(name: str, known: Iterable[str]) -> list[str]:
    from difflib import get_close_matches

    return [_spelled(match) for match in get_close_matches(name, list(known), n=1)]


def _spelled(name: str) -> str:
    return f"--{name}" if len(name) > 1 else f"-{name}"


def misuse(program: str, error: Exception) -> str | None:
    """What is wrong with a command line, in LLVM's words; None when `error` is none of click's."""
    if isinstance(error, click.Abort):
        return f"{program}: interrupted"
    if isinstance(error, click.NoSuchOption):
        return _unknown_option(program, error)
    if isinstance(error, click.BadOptionUsage):
        return f"{program}: for the {visible(error.option_name)} option: requires a value!"
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    if isinstance(error, SeveralLines):
        return f"{program}: {error.format_message()}"
    return f"{program}: {visible(error.format_message())}" if isinstance(error, click.ClickException) else None


def _unknown_option(program: str, error: click.NoSuchOption) -> str:
    text = f"{program}: Unknown command line argument '{visible(error.option_name)}'.  Try: '{program} --help'"
    if error.possibilities:
        text += f"\n{program}: Did you mean '{visible(error.possibilities[0])}'?"
    return text
