# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The entry points of the installed commands: thin, so that Ctrl-C ends a tool quietly from its first moment on.

Python's own handler raises KeyboardInterrupt wherever the program is, and there is nobody to catch it while modules are
still being imported. Until a tool is ready to clean up behind itself (`cli.run`), it has nothing to clean up, and the
signal ends it as it ends any program.
"""

# The first statements, before anything else is imported; `libtile.support.interrupts` does the same for `python -m`.
import _signal  # type: ignore[import-not-found]

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


import os


def _begin(tool: str) -> None:
    if os.environ.get("LIBTILE_SERVER"):
        from libtile_tools import served

        if served.wanted():
            served.ask(tool)
    from libtile_tools import startup

    startup.install(tool)


def cuda_tile_translate() -> None:
    _begin("cuda-tile-translate")
    from cuda_tile_translate.main import main

    main()


def cuda_tile_opt() -> None:
    _begin("cuda-tile-opt")
    from cuda_tile_opt.main import main

    main()


def tileirdisasm() -> None:
    _begin("tileirdisasm")
    from tileirdisasm.main import main

    main()


def tileiras() -> None:
    _begin("tileiras")
    from tileiras.main import main

    main()


def cuda_tile_run() -> None:
    _begin("cuda-tile-run")
    from cuda_tile_run.main import main

    main()


def cuda_tile_diff() -> None:
    _begin("cuda-tile-diff")
    from cuda_tile_diff.main import main

    main()


def cuda_tile_reduce() -> None:
    from cuda_tile_reduce.main import main

    main()


def cuda_tile_optimize() -> None:
    from cuda_tile_optimize.main import main

    main()


def libtile() -> None:
    from libtile_cli.main import main

    main()


def simulator() -> None:
    _begin("simulator")
    from libtile_tools.simulator import main

    main()


def layouts() -> None:
    _begin("layouts")
    from libtile_tools.layouts import main

    main()


def annotate() -> None:
    _begin("annotate")
    from libtile_tools.annotate import main

    main()
