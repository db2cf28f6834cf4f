"""``--project`` and ``--label`` name containers, wherever else hosts are named."""

from __future__ import annotations

import pytest

from dethrone.clusters.attach.backend import AttachBackend
from dethrone.harness.cli import run_options, settings
from dethrone.harness.core.errors import ConfigError


def options(**flags):
    given = settings.merge(flags, {}, None)
    return run_options.run_options("etcd", given)


@pytest.fixture(autouse=True)
def three_match(monkeypatch):
    monkeypatch.setattr(AttachBackend, "usable", lambda _self: ("n1", "n2", "n3"))


def test_they_travel_as_hosts_so_that_replay_and_heal_find_the_same_containers():
    found = options(on="attach", project="shop", label=("app=kv", "tier=db"))
    assert found.host == ("project=shop", "label=app=kv", "label=tier=db")
    assert found.nodes == 3


def test_a_number_of_nodes_that_was_given_stays():
    assert options(on="attach", label=("app=kv",), nodes="5").nodes == 5


def test_a_project_of_a_configuration_file_is_for_the_backend_that_attaches(tmp_path):
    file = tmp_path / "dethrone.toml"
    file.write_text('[run]\nproject = "shop"\n')
    given = settings.merge({"on": "local"}, {}, file)
    assert run_options.run_options("etcd", given).host == ()


def test_a_run_that_attaches_to_nothing_is_refused():
    from dethrone.harness.engine.run.planning import draft

    with pytest.raises(ConfigError, match="no containers were named"):
        draft(options(on="attach"), seed=1)
