"""Which faults can happen where: what traits say, what probes say, and what is shown of it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dethrone.harness.core import registry
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import BackendTraits, No, Yes
from dethrone.harness.engine.host import fault_support
from dethrone.harness.engine.host.fault_support import known, probed, support

ABLE = dict.fromkeys(("iptables", "signals", "faketime", "vdso", "files", "commands", "links", "disks", "power"), Yes())


class Made:
    """A backend that makes hosts and tries them."""

    name = "made"

    def __init__(self, answers):
        self.answers = answers

    @property
    def traits(self):
        return BackendTraits()

    def probe(self):
        return self.answers


def states(rows):
    return {row.fault: row.state for row in rows}


def test_in_simulation_every_fault_of_ours_is_simulated_but_a_few_that_say_why():
    found = states(known(registry.load(registry.BACKENDS, "sim")))
    absent = {fault for fault, state in found.items() if state != "simulated"}
    assert absent == {"descriptors", "member", "upgrade", "downgrade"}
    assert found["descriptors"] == "not here"


def test_members_change_on_hosts_of_our_own_where_the_system_can_do_it():
    row = {row.fault: row for row in known(registry.load(registry.BACKENDS, "docker"))}["member"]
    assert (row.state, row.why) == ("live", "where the system can change its members")
    assert "the system itself" in row.by


def test_what_hosts_lack_by_their_traits_is_not_here_and_the_need_is_named():
    rows = {row.fault: row for row in known(Made({}))}
    assert rows["powerloss"].state == "not here"
    assert "power" in rows["powerloss"].why
    assert (rows["link"].state, rows["link"].by) == ("live", "nfqueue")
    assert (rows["drift"].by, rows["drift"].why) == ("vDSO", "static Go programs only")


def test_a_probe_that_fails_says_why_and_what_to_do(monkeypatch):
    answers = {**ABLE, "links": No(why="no queue", what_to_do="load the module")}
    monkeypatch.setattr(registry, "load", lambda group, name, real=registry.load: _load(group, name, real, answers))
    rows = {row.fault: row for row in probed("made")}
    assert rows["link"].state == "not here"
    assert rows["link"].why == "no queue: load the module"
    assert rows["partition"].state == "live"


def _load(group, name, real, answers):
    return Made(answers) if name == "made" else real(group, name)


def test_a_backend_that_lends_hosts_cannot_be_tried_without_them():
    with pytest.raises(ConfigError, match="no hosts of its own"):
        probed("ssh")


@given(st.dictionaries(st.sampled_from(sorted(ABLE)), st.booleans()))
def test_a_fault_is_live_only_if_each_of_its_needs_was_answered_with_yes(answered):
    able = {need: Yes() if yes else No(why="tried") for need, yes in answered.items()}
    for name in registry.names(registry.FAULTS):
        fault = registry.load(registry.FAULTS, name)
        state, by, why = support(fault, able, virtual=False, lent=False)
        ways = [{need, fault_support.OTHERWISE.get(need)} for need in fault.needs()]
        assert (state == "live") == all(any(answered.get(way) for way in one if way) for one in ways)
        assert by if state == "live" else why


def test_clocks_by_the_vdso_alone_are_live_without_libfaketime():
    able = {**ABLE, "faketime": No(why="not installed")}
    assert support(registry.load(registry.FAULTS, "clock"), able, virtual=False, lent=False)[:2] == ("live", "vDSO")


def test_rows_are_plain_values():
    assert all(msgspec.to_builtins(row) for row in known(Made({})))
