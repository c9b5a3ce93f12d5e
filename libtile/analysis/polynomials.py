# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Polynomials over the scalars of a program, in whole numbers, and tiles that are affine in the position by them."""

from __future__ import annotations

from xdsl.ir import SSAValue

from libtile.support.records import dataclass

MAX_TERMS = 16
"""Terms of a polynomial; a sum of more is not followed."""


class NotAffineError(Exception):
    """A value is not affine in a way that is understood; the text says why, for a remark."""


@dataclass(frozen=True)
class Polynomial:
    """A sum of products of unknowns: coefficients by the numbers of the unknowns, in order (none: the constant)."""

    terms: tuple[tuple[tuple[int, ...], int], ...] = ()

    @staticmethod
    def of(terms: dict[tuple[int, ...], int]) -> Polynomial:
        kept = tuple(sorted((monomial, factor) for monomial, factor in terms.items() if factor))
        if len(kept) > MAX_TERMS:
            raise NotAffineError("the computation of an index has too many terms")
        return Polynomial(kept)

    @staticmethod
    def constant(number: int) -> Polynomial:
        return Polynomial.of({(): number})

    @property
    def value(self) -> int | None:
        """The number that it is, for a constant."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def unknowns(self) -> set[int]:
        return {unknown for monomial, _ in self.terms for unknown in monomial}

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for monomial, factor in other.terms:
            terms[monomial] = terms.get(monomial, 0) + factor
        return Polynomial.of(terms)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + other * Polynomial.constant(-1)

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[tuple[int, ...], int] = {}
        for mine, a in self.terms:
            for its, b in other.terms:
                monomial = tuple(sorted((*mine, *its)))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return Polynomial.of(terms)

    def divided(self, divisor: int) -> Polynomial | None:
        """The quotient by a number, when it divides every coefficient."""
        if any(factor % divisor for _, factor in self.terms):
            return None
        return Polynomial(tuple((monomial, factor // divisor) for monomial, factor in self.terms))


ZERO, ONE = Polynomial(), Polynomial.constant(1)


@dataclass(frozen=True)
class Form:
    """An affine tile: see the module's text. `base` is the scalar pointer that a tile of pointers counts from."""

    shape: tuple[int, ...]
    start: Polynomial
    steps: tuple[Polynomial, ...]
    base: SSAValue | None = None

    def __post_init__(self) -> None:
        # A dimension of one element has no second position.
        kept = tuple(step if extent > 1 else ZERO for extent, step in zip(self.shape, self.steps))
        object.__setattr__(self, "steps", kept)

    def plus(self, other: Form, sign: int = 1) -> Form:
        """The sum or difference of forms of one shape, of which at most the first is of pointers."""
        factor = Polynomial.constant(sign)
        steps = tuple(a + b * factor for a, b in zip(self.steps, other.steps))
        return Form(self.shape, self.start + other.start * factor, steps, self.base)

    def scaled(self, factor: Polynomial) -> Form:
        return Form(self.shape, self.start * factor, tuple(step * factor for step in self.steps))

    @property
    def is_uniform(self) -> bool:
        return not any(step.terms for step in self.steps)
