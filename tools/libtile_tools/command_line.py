# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Command lines declared as with click, which is loaded when it is needed.

Loading click takes as long as all else that a small tool does. A tool declares its command with the names of this
module, which are click's and mean the same:

    from libtile_tools import command_line as click

A plain command line is read here: options that are declared, with values that their callbacks take. Anything else
(a wrong one, a request for help, values of click's types) is left to click, for which the same declarations are made;
so click alone says what is wrong, and how.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from libtile_tools.truth_values import FALSE as FALSE
from libtile_tools.truth_values import TRUE as TRUE

Parameter = Any
"""What callbacks are given second: a declaration, or click's parameter made of it."""


def __getattr__(name: str) -> Any:
    import click

    return getattr(click, name)


class Exit(Exception):
    """Ends a command with a status, by `Context.exit`."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _NotPlain(Exception):
    """The command line is click's to read."""


class Context:
    """What a command is given of click's context; `meta["arguments"]` is the command line as it was given."""

    resilient_parsing = False

    def __init__(self, command: Command, arguments: Sequence[str]) -> None:
        self.command = command
        self.info_name = command.name
        self.meta: dict[str, Any] = {"arguments": arguments}

    def exit(self, code: int = 0) -> NoReturn:
        raise Exit(code)

    def get_help(self) -> str:
        import click

        made = self.command.made()
        return made.get_help(click.Context(made, info_name=self.command.name, **made.context_settings))


class Declaration:
    """An option or an argument, as click would be told of it."""

    def __init__(self, names: Sequence[str], settings: dict[str, Any]) -> None:
        self.__dict__.update(_DEFAULTS)
        self.__dict__.update(settings)
        self.names = names
        self.settings = settings
        self.opts = [name for name in names if name.startswith("-")]
        given = [name for name in names if not name.startswith("-")]
        # click's rule: the name that is no option, or else the first one of the longest prefix
        longest = sorted(self.opts, key=lambda opt: -len(opt[: len(opt) - len(opt.lstrip("-"))]))
        self.name = (given or [longest[0].lstrip("-")])[0].replace("-", "_").lower()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A setting."""

    @property
    def takes_value(self) -> bool:
        return not self.is_flag

    def made(self) -> Any:
        """click's parameter."""
        import click

        from libtile_tools.click_command import OptionalValue

        settings = dict(self.settings)
        if isinstance(settings.get("type"), Choice):
            settings["type"] = click.Choice(settings["type"].values)
        if not self.opts:
            return click.Argument(list(self.names), **settings)
        return (OptionalValue if "implied" in settings else click.Option)(list(self.names), **settings)

    def value(self, given: list[Any] | None) -> Any:
        """The value of what was given, None if nothing was, before the callback sees it."""
        if given is None:
            if self.default is not None and self.type is not None and not isinstance(self.type, Choice):
                raise _NotPlain  # click makes a value of it
            if self.default is not None:
                return self.default
            return () if self.multiple or self.nargs == -1 else False if self.is_flag else None
        if self.type is not None and not (isinstance(self.type, Choice) and set(given) <= set(self.type.values)):
            raise _NotPlain
        return tuple(given) if self.multiple or self.nargs == -1 else given[-1]


_DEFAULTS: dict[str, Any] = {
    "is_flag": False, "multiple": False, "default": None, "callback": None, "expose_value": True, "is_eager": False,
    "nargs": 1, "required": None, "type": None, "implied": None, "hidden": False, "help": None, "metavar": None,
    "show_default": False,
}  # fmt: skip
"""The settings that are understood here, and what they are without being given."""


class Choice:
    """The type of an option with one of several values."""

    def __init__(self, values: Sequence[str]) -> None:
        self.values = list(values)


class Command:
    """A command as it was declared."""

    def __init__(self, name: str, function: Callable[..., Any], settings: dict[str, Any]) -> None:
        self.name = name
        self.function = function
        self.settings = settings
        self.declarations: list[Declaration] = list(reversed(getattr(function, "declarations", ())))
        self._made: Any = None

    def add_option(self, *names: str, **settings: Any) -> None:
        """Declare one more option."""
        self.declarations.append(Declaration(names, settings))

    def made(self) -> Any:
        """click's command."""
        if self._made is None:
            from libtile_tools.click_command import Command as ClickCommand

            settings = dict(self.settings)
            cls = settings.pop("cls", ClickCommand)
            function = self.function
            if getattr(function, "wants_context", False):
                from click import pass_context as click_pass_context

                function = click_pass_context(function)
            self._made = cls(
                self.name,
                callback=function,
                params=[declaration.made() for declaration in self.declarations],
                help=self.function.__doc__ and _dedented(self.function.__doc__),
                **settings,
            )
        return self._made

    @property
    def params(self) -> list[Any]:
        """click's parameters."""
        params: list[Any] = self.made().params
        return params

    @property
    def statuses(self) -> Sequence[str]:
        statuses: Sequence[str] = self.made().statuses
        return statuses

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **settings: Any) -> Any:
        """Run the command on arguments, by default those of the process; gives what its function does.

        Raises what the function raises, Exit among it, and click's exceptions for a wrong command line.
        """
        import sys

        arguments = list(sys.argv[1:] if args is None else args)
        context = Context(self, arguments)
        try:
            values = self._values(arguments, context)
        except _NotPlain:
            return self.made().main(args=arguments, prog_name=prog_name or self.name, **settings)
        first = (context,) if getattr(self.function, "wants_context", False) else ()
        return self.function(*first, **values)

    def plain(self, arguments: Sequence[str]) -> dict[str, Any] | None:
        """What the function is called with for a plain command line; None for one that is click's to read."""
        try:
            return self._values(arguments, Context(self, arguments))
        except _NotPlain:
            return None

    def _values(self, arguments: Sequence[str], context: Context) -> dict[str, Any]:
        if "cls" in self.settings:  # with ways of its own
            raise _NotPlain
        given, left = _given(arguments, self.declarations)
        placed = False
        values: dict[str, Any] = {}
        for declaration in sorted(self.declarations, key=lambda declaration: not declaration.is_eager):
            if declaration.settings.keys() - _DEFAULTS.keys():
                raise _NotPlain
            if not declaration.is_eager and not placed:  # `--version` needs no argument
                _place(left, [each for each in self.declarations if not each.opts], given)
                placed = True
            value = declaration.value(given.get(declaration.name))
            if value is None and declaration.required:
                raise _NotPlain
            if declaration.callback is not None:
                try:
                    value = declaration.callback(context, declaration, value)
                except Exit:
                    raise
                except Exception:  # click says how, when its turn comes to ask the callback
                    raise _NotPlain from None
            if declaration.expose_value:
                values[declaration.name] = value
        return values


def _given(arguments: Sequence[str], declarations: Sequence[Declaration]) -> tuple[dict[str, list[Any]], list[str]]:
    """What was given, by name: the values of an option in order, True for a flag; and what belongs to no option."""
    options = {opt.lstrip("-"): declaration for declaration in declarations for opt in declaration.opts}
    found: dict[str, list[Any]] = {}
    positional: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            raise _NotPlain
        if len(argument) < 2 or not argument.startswith("-"):
            positional.append(argument)
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        option = options.get(name)
        if option is None and argument[1] in options and options[argument[1]].takes_value:
            option, equals, value = options[argument[1]], "=", argument[2:]  # -O3, -oFILE
        if option is None or (option.implied is None and option.is_flag and equals and value not in TRUE + FALSE):
            raise _NotPlain
        if equals and not value and len(name) == 1:  # click takes the next argument for it
            raise _NotPlain
        values = found.setdefault(option.name, [])
        if option.implied is not None:
            values.append(value if equals else option.implied)
        elif option.is_flag:
            if equals and value in FALSE:
                if not values:
                    del found[option.name]
            else:
                values.append(True)
        else:
            values.append(value if equals else _following(rest))
    return found, positional


def _following(rest: Iterator[str]) -> str:
    value = next(rest, "--")
    if value == "--":
        raise _NotPlain
    return value


def _place(positional: list[str], declarations: list[Declaration], found: dict[str, list[Any]]) -> None:
    """Give the arguments without a dash to the declarations: one each, or all to the last."""
    for declaration in declarations:
        if declaration.nargs == -1:
            found[declaration.name], positional = list(positional), []
        elif positional:
            found[declaration.name] = [positional.pop(0)]
        elif declaration.required or (declaration.required is None and declaration.default is None):
            raise _NotPlain
    if positional:
        raise _NotPlain


def _dedented(text: str) -> str:
    import inspect

    return inspect.cleandoc(text)


def _declare(names: Sequence[str], settings: dict[str, Any]) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        function.__dict__.setdefault("declarations", []).append(Declaration(names, settings))
        return function

    return decorate


def option(*names: str, **settings: Any) -> Callable[[Any], Any]:
    """Declare an option."""
    return _declare(names, settings)


def argument(name: str, **settings: Any) -> Callable[[Any], Any]:
    """Declare an argument."""
    return _declare((name,), settings)


def command(name: str, **settings: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a command of a function, with the settings of `click_command.Command`."""
    return lambda function: Command(name, function, settings)


def pass_context(function: Any) -> Any:
    """The function is called with the context first."""
    function.wants_context = True
    return function


def echo(message: str | bytes = "", *, err: bool = False, nl: bool = True) -> None:
    """Write text or bytes to stdout, or stderr, at once; nothing where the process was started without it."""
    import sys

    stream = sys.stderr if err else sys.stdout
    if stream is None:
        return
    if isinstance(message, bytes):
        stream.flush()
        stream.buffer.write(message + (b"\n" if nl else b""))
        stream.buffer.flush()
    else:
        stream.write(f"{message}\n" if nl else message)
        stream.flush()
