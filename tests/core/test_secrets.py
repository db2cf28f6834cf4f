from __future__ import annotations

import pytest

from dethrone.harness.core.secrets import HIDDEN, is_secret, shown, without_secrets


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "sasl.password",
        "ETCD_ROOT_PASSWORD",
        "apiKey",
        "api-key",
        "privateKey",
        "client_secret",
        "authToken",
    ],
)
def test_a_name_that_says_so_is_a_secret(name):
    assert is_secret(name)
    assert shown(name, "hush") == HIDDEN


@pytest.mark.parametrize("name", ["time_factor", "tokenizer", "passive", "author", "bypass_checks"])
def test_other_names_are_shown(name):
    assert shown(name, "5") == "5"


def test_doubt_hides():
    assert shown("token_ring_size", "5") == HIDDEN


def test_values_are_hidden_wherever_they_stand():
    plan = {"knobs": {"password": "hush", "nodes": "5"}, "list": [{"env": {"DB_PASSWORD": "hush"}}], "seed": 7}
    assert without_secrets(plan) == {
        "knobs": {"password": HIDDEN, "nodes": "5"},
        "list": [{"env": {"DB_PASSWORD": HIDDEN}}],
        "seed": 7,
    }
