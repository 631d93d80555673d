"""All rules by name, and what else is chosen by name; importable without JAX.

A rule with a line here is tested by all tests of rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from eligrad._base import checks as check
from eligrad._base.lazy import imported

if TYPE_CHECKING:
    from eligrad.rules.rule import Rule

Regularize = Literal["parameters", "head", "output"]
"""The name of a regulariser of h; see `Rule.update`."""
TraceCut = Literal["after", "watkins"]
"""The name of a convention; see `trace_cut`."""

_RULES: dict[str, Rule | str] = {
    "td": "eligrad.rules.td:TD",
    "gtd2": "eligrad.rules.gtd2:GTD2",
    "tdc": "eligrad.rules.tdc:TDC",
    "tdrc": "eligrad.rules.tdc:TDRC",
}
"""Each rule, or the place that it is imported from."""


def names() -> tuple[str, ...]:
    """The names of all rules."""
    return tuple(_RULES)


def get(name: str) -> Rule:
    """The rule of that name, e.g. `get("tdrc")`."""
    check.one_of("rule", name, names())
    return imported(_RULES[name])


def register(rule: Rule) -> Rule:
    """Adds a rule; returns it."""
    if rule.name in _RULES:
        raise ValueError(f"rule {rule.name!r} is registered already; choose another name")
    _RULES[rule.name] = rule
    return rule
