# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`libtile completion`: what a shell needs to complete the commands of libtile, their options and the values of these.

The script is a table of words, so that no Python starts when Tab is pressed.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator

import click

from libtile_tools import cli

_MISUSE = 2

_SCRIPT = """\
# Completion of libtile {version} for bash, and for zsh behind `autoload -U +X bashcompinit && bashcompinit`.
_libtile_words() {{
  case "$1" in
{cases}  esac
}}
_libtile() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" tool="${{1##*/}}" words
  if [ "$tool" = libtile ]; then
    if [ "$COMP_CWORD" -eq 1 ]; then
      COMPREPLY=($(compgen -W "$(_libtile_words libtile)" -- "$word"))
      return
    fi
    tool="libtile ${{COMP_WORDS[1]}}"
  fi
  if [ "$word" = "=" ]; then word=""; elif [ "$previous" = "=" ]; then previous="${{COMP_WORDS[COMP_CWORD-2]}}"; fi
  words="$(_libtile_words "$tool $previous")"
  if [ -z "$words" ]; then
    case "$word" in
      -*) words="$(_libtile_words "$tool")" ;;
      *) if [ -z "$(_libtile_words "$tool (files)")" ]; then words="$(_libtile_words "$tool")"; fi ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _libtile {commands}
"""


@click.command("libtile completion", cls=cli.Command, examples=(
    "libtile completion > ~/.local/share/bash-completion/completions/libtile    and  source  that file in ~/.bashrc",
    "eval \"$(libtile completion)\"                              for this shell alone",
), statuses=("0  done", f"{_MISUSE}  the command line is wrong"))  # fmt: skip
@cli.version_option("shell completion")
def command() -> None:
    """Print the script that completes libtile's commands, their options and the values of options in bash and zsh."""
    click.echo(script(), nl=False)


def script() -> str:
    """The completion script."""
    import libtile
    from libtile_cli.main import TOOLS

    words: dict[str, list[str]] = {"libtile": list(TOOLS)}
    for name, tool in TOOLS.items():
        made = importlib.import_module(tool.module).command
        own = tool.module.partition(".")[0].replace("_", "-")
        tools = [f"libtile {name}"] + ([own] if not own.startswith("libtile") else [])
        for spelling in tools:
            words |= {f"{spelling}{key}": found for key, found in _words(made)}
    cases = "".join(f"    {shlex.quote(key)}) echo {shlex.quote(' '.join(found))} ;;\n" for key, found in words.items())
    commands = [key for key in words if " " not in key]
    return _SCRIPT.format(version=libtile.__version__, cases=cases, commands=" ".join(commands))


def _words(made: object) -> Iterator[tuple[str, list[str]]]:
    """What completes a command (behind nothing), and behind each option that has a list of values."""
    options: list[str] = []
    files = False
    for param in made.params:  # type: ignore[attr-defined]  # click's commands and ours
        if not isinstance(param, click.Option):
            files = True
            continue
        if param.hidden:
            continue
        spelled = [*param.opts, *param.secondary_opts]
        options += spelled
        values = _values(param)
        for option in spelled if values else ():
            yield f" {option}", values
    yield "", [*options, *getattr(made, "commands", ())]
    if files:
        yield " (files)", ["files"]


def _values(option: click.Option) -> list[str]:
    """The values of an option that takes one of a list, or of those that its metavar lists."""
    if isinstance(option.type, click.Choice):
        return [str(choice) for choice in option.type.choices]
    if option.name == "gpu_name":
        from libtile.targets import targets

        return list(targets())
    metavar = option.metavar or ""
    return metavar[1:-1].split("|") if metavar.startswith("[") and "|" in metavar else []


def main() -> None:
    """The command's entry point."""
    cli.run(command, misuse=_MISUSE)
