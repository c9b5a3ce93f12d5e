# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`cuda.tile.tune` with no GPU: nothing can be timed, and a kernel that is tuned runs all the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, nan
from typing import Any

from libtile.cutile.launching import bytecode_for, checked_grid
from libtile.cutile.refusals import RefusedValue


def first_that_compiles(
    search_space: Sequence[Any],
    stream: Any,
    grid_fn: Callable[[Any], tuple[int, ...]],
    kernel: Any,
    args_fn: Callable[[Any], tuple[Any, ...]],
    hints_fn: Callable[[Any], dict[str, Any]] | None = None,
    *,
    gpu_name: str,
    **options: Any,
) -> Any:
    """`cuda.tile.tune.exhaustive_search`, as far as it goes without times: its best configuration is the first that
    compiles for `gpu_name` and whose grid is one. Those behind it are not looked at.

    Returns cuTile's TuningResult, whose only measurement has no samples and NaN for a time. Raises ValueError, as
    cuTile does, for a space that is empty or of which nothing compiles. What is said of progress and times (`options`)
    has no meaning here.
    """
    from cuda.tile import kernel as kernel_type
    from cuda.tile.tune import Measurement, TuningResult

    if not len(search_space):
        raise RefusedValue("Search space is empty.")
    failures = []
    for configuration in search_space:
        chosen = kernel if isinstance(kernel, kernel_type) else kernel(configuration)
        chosen = chosen.replace_hints(**(hints_fn(configuration) if hints_fn is not None else {}))
        try:
            checked_grid(tuple(grid_fn(configuration)))
            bytecode_for(chosen, args_fn(configuration), gpu_name=gpu_name)
        except Exception as error:  # of the caller's functions and of cuTile, which keeps them in the result as well
            failures.append((configuration, type(error), str(error)))
            continue
        best = Measurement(config=configuration, mean_us=nan, num_samples=0, error_margin_us=inf)
        return TuningResult(best=best, successes=(best,), failures=tuple(failures))
    first, kind, message = failures[0]
    raise RefusedValue(f"No valid config found in search space.\nConfig: {first}\n{kind.__name__}: {message}")


def searching(gpu_name: str) -> dict[Callable[..., Any], Callable[..., Any]]:
    """What stands for the functions of `cuda.tile.tune`; nothing with a cuTile that has none."""
    try:
        from cuda.tile.tune import exhaustive_search
    except ImportError:
        return {}
    return {exhaustive_search: partial(first_that_compiles, gpu_name=gpu_name)}
