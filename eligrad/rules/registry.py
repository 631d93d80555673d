"""All rules by name; a rule with a line here is tested by all tests of rules."""

from __future__ import annotations

from eligrad._base import array_checks as check
from eligrad.rules.gtd2 import GTD2
from eligrad.rules.rule import Rule
from eligrad.rules.td import TD
from eligrad.rules.tdc import TDC, TDRC

_RULES = {rule.name: rule for rule in (TD, GTD2, TDC, TDRC)}


def names() -> tuple[str, ...]:
    """The names of all rules."""
    return tuple(_RULES)


def get(name: str) -> Rule:
    """The rule of that name, e.g. `get("tdrc")`."""
    check.one_of("rule", name, names())
    return _RULES[name]


def register(rule: Rule) -> Rule:
    """Adds a rule; returns it."""
    if rule.name in _RULES:
        raise ValueError(f"rule {rule.name!r} is registered already; choose another name")
    _RULES[rule.name] = rule
    return rule
