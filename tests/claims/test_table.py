"""All claims of all protocols, gathered, and the packaged table of them."""

from __future__ import annotations

import json

import msgspec
import pytest
from click.testing import CliRunner

from dethrone.clusters.systems.claims import CLAIMS
from dethrone.harness.cli.main import main
from dethrone.harness.core import registry
from tests.claims.builds import FILES, build_of, flips_of
from tests.claims.table import TABLE, claims, named_tests, table, with_test


def test_every_number_is_there_once_a_system_and_in_order():
    found = claims()
    named = {"BU": 8, "ZAB": 19}
    places = [tuple(map(int, claim.number.split("-"))) for claim in found if claim.number[0].isdigit()]
    assert places == sorted(places)
    assert [claim.number for claim in found[len(places) :]] == [
        f"{source}-{n}" for source, most in sorted(named.items()) for n in range(1, most + 1)
    ]
    assert len({(claim.number, claim.system) for claim in found}) == len(found)
    counts = {0: 42, 1: 50, 2: 22, 3: 32, 4: 32}
    assert {claim.number for claim in found[: len(places)]} == {
        f"{source}-{n}" for source, most in counts.items() for n in range(1, most + 1)
    }


def test_every_safety_claim_has_a_flip_and_every_flip_is_a_build_of_its_system():
    for claim in claims():
        if claim.kind == "safety" and claim.level != "documentation":
            assert claim.flip, claim.number
        if claim.flip and claim.system in registry.names(registry.SYSTEMS):
            system = registry.load(registry.SYSTEMS, claim.system)
            system.knobs({}, profile=None, variant=build_of(claim.system, claim.flip))


def test_the_words_of_a_claim_are_known_ones():
    assert {claim.kind for claim in claims()} == {"safety", "liveness", "timing", "architecture"}
    assert {claim.level for claim in claims()} == {"vector", "order", "restart", "timing", "cluster", "documentation"}


@pytest.mark.parametrize("file", sorted(path.stem for path in FILES.glob("*.py")))
def test_each_flip_of_a_file_is_one_of_a_claim_that_is_tested_beside_it(file):
    named = {claim.flip for claim in claims() if claim.test.startswith(f"test_{file}.py::")}
    assert {flip for flip in named if flip.startswith("flip-")} <= set(flips_of(file)) <= named


@pytest.mark.parametrize("file", ["dledger", "joyqueue", "nacos", "raft"])
def test_a_flip_overrides_one_rule(file):
    own = {name: rules for name, rules in flips_of(file).items() if not isinstance(rules, str)}  # else a planted bug
    assert own
    for name, rules in own.items():
        changed = {key for key in vars(rules) if not key.startswith("_")}
        assert len(changed) == 1, name
        assert all(any(key in vars(base) for base in rules.__mro__[1:]) for key in changed), name


def test_every_claim_is_tested_or_documentary():
    assert {row[-1] for row in CLAIMS.rows()} <= {"tested", "documentation"}


def test_tests_are_found_by_their_names_and_missing_ones_are_reported(tmp_path):
    (tmp_path / "test_x.py").write_text("@claim\ndef test_claim_9_3_a_thing(variant):\n    pass\n")
    tests = named_tests(tmp_path)
    assert tests == {"9-3": "test_x.py::test_claim_9_3_a_thing"}
    claim = msgspec.structs.replace(claims("raft")[0], number="9-4")
    assert with_test(claim, tests).status == "no test"


def test_the_packaged_table_is_what_the_claims_generate():
    assert TABLE.read_bytes() == table(), "run: python -m tests.claims.table"


def test_the_list_shows_them_all_or_those_of_one_system():
    done = CliRunner().invoke(main, ["list", "claims", "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == len(claims())
    assert {"claim", "kind", "system", "what it says", "level", "flip", "test", "status"} <= set(rows[0])
    done = CliRunner().invoke(main, ["list", "claims", "--system", "raft", "--json"])
    assert {row["system"] for row in json.loads(done.stdout)["rows"]} == {"raft"}
    assert "1-15" in CliRunner().invoke(main, ["list", "claims"]).stdout
