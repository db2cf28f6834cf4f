"""Quorum arithmetic: how many votes elect, how many failures a group survives."""

from __future__ import annotations

from collections.abc import Collection


def quorum(voters: int) -> int:
    """⌊n/2⌋ + 1."""
    return voters // 2 + 1


def minority(voters: int) -> int:
    """The most voters that may be lost while a quorum is left."""
    return voters - quorum(voters)


def is_quorum(votes: Collection[str], voters: Collection[str]) -> bool:
    """Whether the votes that come from ``voters`` reach their quorum; votes of others do not count."""
    return len(set(votes) & set(voters)) >= quorum(len(set(voters)))
