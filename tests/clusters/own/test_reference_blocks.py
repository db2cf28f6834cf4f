"""The reference's short examples, each put into a whole description: what they say is understood as the text says."""

import re
from pathlib import Path

import msgspec

from dethrone.clusters.own.tls import TlsTable
from tests.clusters.own.described import TEXT, described

PAGE = (Path(__file__).parents[3] / "docs" / "own-system.md").read_text(encoding="utf-8")


def block(beginning):
    """The one example that begins with this comment."""
    (found,) = re.findall(rf"^```toml\n(# {beginning}\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return found


def shown(beginning, table):
    """The description in which the example replaces this table."""
    start = TEXT.index(f"[{table}]")
    end = TEXT.index("\n[", start) + 1
    return described(text=TEXT[:start] + block(beginning) + TEXT[end:])


def test_a_probe_under_conditions():
    probe = shown("that leads under conditions", "probe").probe
    assert probe.leads == ("role is master", "sentinel.address is {address}")


def test_a_probe_of_several_requests():
    assert shown("of a probe by two requests", "probe").probe.http == ("/status", "/raft")


def test_an_operation_of_several_requests():
    cas = shown("of several requests", "ops").ops["cas"]
    assert len(cas.request) == 2
    assert cas.absent == (404,)


def test_what_is_asked_over_tls():
    probe, ops = re.split(r"\n(?=\[ops\])", block("over TLS"))
    start, end = TEXT.index("[probe]"), TEXT.index("[trace]")
    whole = TEXT[:start] + probe + "\n" + TEXT[end : TEXT.index("[ops]")] + ops + TEXT[TEXT.index("[promise]") :]
    found = described(text=whole)
    assert found.probe.tls is True
    assert found.ops["put"].tls == TlsTable(
        ca="ca.pem", cert="client.pem", key="client.key", server_name="{name}.example"
    )
    assert found.ops["get"].tls == TlsTable(verify=False)


def test_every_key_of_tls_is_explained():
    fields = {field.name for field in msgspec.structs.fields(TlsTable)}
    assert [name for name in sorted(fields) if f"`{name}`" not in PAGE] == []


def test_an_operation_by_a_command_on_the_host():
    ops = shown("by a command on the host", "ops").ops
    assert {name: op.at for name, op in ops.items()} == {"put": "host", "get": "host"}
