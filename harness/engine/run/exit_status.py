"""The exit codes of the command, and the one function that chooses among them.

Guarantees: a run that was not judged never exits with 0. Excused findings leave a verdict as it is: such a run exits
with 0, or with 1 where ``--fail-on excused`` asks for that. Out of scope: what makes a finding excused
(``dethrone.checkers.excuses``), and who calls ``sys.exit``.
"""

from __future__ import annotations

from dethrone.harness.core.verdict import FailOn, Outcome

EXIT_PASS = 0
EXIT_VIOLATION = 1
EXIT_UNKNOWN = 2
EXIT_TROUBLE = 3
EXIT_USAGE = 64
EXIT_INTERRUPTED = 130


def exit_code(
    *, outcome: Outcome | None, trouble: bool, interrupted: bool, fail_on: FailOn = "unknown", excused: int = 0
) -> int:
    """The exit code of several things at once: 3 > 1 > 130 > 2 > 0. ``excused``: findings that the faults excuse.

    What was not judged at all (``outcome`` None) is never 0.
    """
    if trouble:
        return EXIT_TROUBLE
    if outcome == "fail" or (excused and fail_on == "excused"):
        return EXIT_VIOLATION
    if interrupted:
        return EXIT_INTERRUPTED
    if outcome == "pass" or (outcome is not None and fail_on == "violation"):
        return EXIT_PASS
    return EXIT_UNKNOWN
