"""Builds in which one rule always gives one answer."""

from __future__ import annotations

from typing import Any, TypeVar

R = TypeVar("R")


def always(rules: type[R], **answers: Any) -> type[R]:
    """These rules, but one of them, which always answers this."""
    ((rule, answer),) = answers.items()
    if not callable(getattr(rules, rule)):
        raise TypeError(f"{rule} is no rule")
    return type(f"Always_{rule}", (rules,), {rule: lambda *_, **__: answer})
