"""What a part of the bench found out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One row of the table: what was measured, the result, and what it should be at least or at most."""

    what: str
    result: float | str
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def shown(self) -> str:
        if isinstance(self.result, str):
            return self.result
        return f"{_short(self.result)} {self.unit}".rstrip()

    @property
    def aim(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return f"< {self.at_most:g}" if self.at_most is not None else ""

    @property
    def verdict(self) -> str:
        if isinstance(self.result, str) or not self.aim:
            return ""
        met = self.result >= self.at_least if self.at_least is not None else self.result < (self.at_most or 0)
        return "met" if met else "missed"


def _short(number: float) -> str:
    """Three figures are more than such a measurement is worth."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
