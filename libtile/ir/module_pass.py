# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`ModulePass`, the base of all passes: a frozen record of options, with a name, that changes an op.

To a type checker it is xDSL's, and a pass here does what xDSL asks of one: options come from xDSL's `ArgSpec` and give
one, and `PassPipeline` runs it. What does that is xDSL's own code, which is loaded when it is asked for: with xDSL's
class as base every compilation would load lexers of text and of options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from xdsl.passes import ModulePass
else:

    class _OfXdsl:
        """A method of xDSL's passes."""

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type) -> Any:
            from xdsl.passes import ModulePass as Passes

            found = next(vars(cls)[self.name] for cls in Passes.__mro__ if self.name in vars(cls))
            return found.__get__(instance, owner)

    class ModulePass:
        name: ClassVar[str]

        apply_to_clone = _OfXdsl()
        from_pass_spec = _OfXdsl()
        from_spec = _OfXdsl()
        pipeline_pass_spec = _OfXdsl()
        required_fields = _OfXdsl()
        schedule_space = _OfXdsl()
        spec = _OfXdsl()

        def __str__(self) -> str:
            return str(self.spec())


__all__ = ["ModulePass"]
