"""What hosts cannot do, asked when they are up: only for what a run needs, and refused with their own reasons."""

from __future__ import annotations

import pytest

from dethrone.harness.core.errors import MissingCapability
from dethrone.harness.engine.run.unable import refuse_unable


class Unable:
    def unshaped(self):
        return "no queue"

    def unskewed(self):
        return "process 1 may not be traced here"


class Able:
    def unshaped(self):
        return ""

    def unskewed(self):
        return ""


HOSTS = {"n1": Able(), "n2": Unable()}


@pytest.mark.parametrize(
    ("needs", "where"),
    [
        ("links", "n2: no queue"),
        ("vdso", "n2: process 1 may not be traced here"),
        ("faketime", "n2: process 1 may not be traced here"),
        ("iptables", "n2: no ip6tables"),
    ],
)
def test_a_run_that_needs_what_some_hosts_cannot_do_is_refused_with_their_reason(needs, where):
    with pytest.raises(MissingCapability) as refused:
        refuse_unable(frozenset({needs, "signals"}), HOSTS, {"n2": "no ip6tables"})
    assert refused.value.where == where


def test_what_no_fault_of_the_run_needs_is_not_asked():
    refuse_unable(frozenset({"signals"}), HOSTS, {"n2": "no ip6tables"})
    refuse_unable(frozenset({"links", "vdso", "iptables"}), {"n1": HOSTS["n1"]}, {})
