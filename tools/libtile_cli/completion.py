# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`libtile completion`: what a shell needs to complete the commands of libtile, their options and the values of these.

The scripts are tables of words, so that no Python starts when Tab is pressed.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Iterator
from typing import Any

import click

from libtile_tools import cli

_MISUSE = 2

_SCRIPT = """\
# Completion of libtile {version} for bash, and for zsh behind
# autoload -U compinit bashcompinit && compinit && bashcompinit
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


SHELLS = ("bash", "zsh", "fish")


@click.command("libtile completion", cls=cli.Command, examples=(
    "libtile completion > ~/.local/share/bash-completion/completions/libtile    and  source  that file in ~/.bashrc",
    "eval \"$(libtile completion)\"                              for this shell alone",
    "autoload -U compinit bashcompinit && compinit && bashcompinit && eval \"$(libtile completion zsh)\"   in ~/.zshrc",
    "libtile completion fish > ~/.config/fish/conf.d/libtile.fish",
), statuses=("0  done", f"{_MISUSE}  the command line is wrong"))  # fmt: skip
@click.argument("shell", type=click.Choice(SHELLS), default="bash")
@cli.version_option("shell completion")
def command(shell: str) -> None:
    """Print the script that completes libtile's commands, their options and the values of options in SHELL, which is
    bash where it is not given.
    """
    click.echo(fish_script() if shell == "fish" else script(), nl=False)


def _commands() -> Iterator[tuple[str, str | None, str, Any]]:
    """Each spelling of each command: the program, the command of it where there is one, what it does, and itself."""
    from libtile_cli.main import TOOLS

    for name, tool in TOOLS.items():
        made = importlib.import_module(tool.module).command
        yield "libtile", name, tool.summary, made
        own = tool.module.partition(".")[0].replace("_", "-")
        if not own.startswith("libtile"):
            yield own, None, tool.summary, made


def script() -> str:
    """The completion script of bash and zsh."""
    import libtile

    words: dict[str, list[str]] = {"libtile": [name for program, name, _, _ in _commands() if name is not None]}
    for program, name, _, made in _commands():
        words |= {" ".join(filter(None, (program, name))) + key: found for key, found in _words(made)}
    cases = "".join(f"    {shlex.quote(key)}) echo {shlex.quote(' '.join(found))} ;;\n" for key, found in words.items())
    commands = [key for key in words if " " not in key]
    return _SCRIPT.format(version=libtile.__version__, cases=cases, commands=" ".join(commands))


def fish_script() -> str:
    """The completion script of fish, where each option comes with what it does."""
    import libtile

    lines = [f"# Completion of libtile {libtile.__version__} for fish."]
    for program, name, summary, made in _commands():
        start = f"complete -c {program}"
        if name is not None:
            lines.append(f"{start} -n __fish_use_subcommand -x -a {name} -d {_fish(summary)}")
            start += f" -n '__fish_seen_subcommand_from {name}'"
        if not any(not isinstance(param, click.Option) for param in made.params):
            lines.append(f"{start} -f")  # no files
        for choice in getattr(made, "commands", ()):
            lines.append(f"{start} -x -a {choice}")
        for param in made.params:
            if isinstance(param, click.Option) and not param.hidden:
                lines.append(f"{start}{_fish_option(param)}")
    return "\n".join(lines) + "\n"


def _fish_option(option: click.Option) -> str:
    """An option as an argument of fish's `complete`: its spellings, whether it takes a value and of what."""
    names = "".join(f" -{'l' if spelled.startswith('--') else 's'} {spelled.lstrip('-')}" for spelled in option.opts)
    values = _values(option)
    takes = "" if option.is_flag else f" -x -a {_fish(' '.join(values))}" if values else " -r"
    return f"{names}{takes} -d {_fish(' '.join((option.help or '').split()))}"


def _fish(text: str) -> str:
    """A word in fish's single quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


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
    if "--gpu-name" in option.opts:
        from libtile.targets import targets

        return list(targets())
    metavar = option.metavar or ""
    return metavar[1:-1].split("|") if metavar.startswith("[") and "|" in metavar else []


def main() -> None:
    """The command's entry point."""
    cli.run(command, misuse=_MISUSE)
