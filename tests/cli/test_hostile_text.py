"""What a stranger's run directory holds does nothing on a screen, in CI or in a report; and secrets stay secret."""

import re
import shutil
import stat

import msgspec
import pytest

from dethrone.harness.core import store
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.events import Noise, Observed, Silent, Traced, Trouble
from dethrone.harness.core.history_files import read_history
from dethrone.harness.core.history_writer import HistoryWriter
from dethrone.harness.core.plan import Plan
from dethrone.harness.engine.replay.stored_run import read_stored
from dethrone.harness.engine.run.lifecycle import Course
from dethrone.harness.engine.run.listener import Silence
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from dethrone.harness.engine.run.runner import run, store_plan

ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
COMMAND = re.compile(r"^\s*::(?!error title=|warning title=)|##\[", re.MULTILINE)
EVIL = "\x1b]52;c;ZXZpbA==\x07\n::error::forged\nPASS  every promised property held\n\x9b2J\u202e##[error]x<script>"


@pytest.fixture(scope="module")
def evil_run(tmp_path_factory, synthetic):
    """A failing run in whose texts everything is said that could do harm."""
    place = synthetic.failing_run(tmp_path_factory.mktemp("evil") / "run")
    events = read_history(place / "history").events
    shutil.rmtree(place / "history")
    writer = HistoryWriter(place / "history", sync=False)
    for event in events[:-1]:
        changed = event
        if isinstance(event, Observed | Traced):
            changed = msgspec.structs.replace(event, role=event.role + EVIL)
        elif isinstance(event, Silent):
            changed = msgspec.structs.replace(event, error=EVIL)
        elif isinstance(event, Noise):
            changed = msgspec.structs.replace(event, kind=EVIL)
        writer.write([changed])
    last = events[-1]
    writer.write([Trouble(seq=last.seq, t=last.t, kind=EVIL, message=EVIL)])
    writer.end(t=last.t, reason="complete")
    plan = store.read_json(place / store.PLAN, Plan)
    store.write_json(place / store.PLAN, msgspec.structs.replace(plan, profile=EVIL, variant=EVIL, knobs={EVIL: EVIL}))
    shutil.rmtree(place / "nodes", ignore_errors=True)
    return place


@pytest.mark.parametrize("words", [["-v"], ["--json"], ["--github"], ["-q"]])
def test_judging_it_again_shows_nothing_that_acts(call, evil_run, words, monkeypatch, tmp_path):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    junit = tmp_path / "junit.xml"
    done = call("check", str(evil_run), "--junit-xml", str(junit), *words)
    for text in (done.stdout, done.stderr, junit.read_text(), summary.read_text() if summary.exists() else ""):
        assert ACTS.search(text) is None
        assert COMMAND.search(text) is None
        assert not [line for line in text.splitlines() if line.startswith("PASS")]
    assert done.exit_code in {1, 2, 3}


def test_the_page_of_it_holds_nothing_that_acts(call, evil_run, tmp_path):
    page = tmp_path / "page.html"
    done = call("report", str(evil_run), "--out", str(page))
    assert done.exit_code == 0
    text = page.read_text()
    assert ACTS.search(text) is None
    assert text.count("<script>") == 0 or "x<script>" not in text


# --- secrets ----------------------------------------------------------------------------------------------------

HUSH = "hush-hush-4711"


DESCRIBED = """
[system]
name = "mine"
[node]
command = "serve --password {password} --dsn {dsn}"
ports = { http = 8000 }
secrets = ["dsn"]
[knobs]
password = ""
dsn = ""
quick = "1"
[probe]
http = "/status"
role = "role"
term = "term"
[promise]
election_timeout = "1s"
heartbeat = "100ms"
tolerates = []
"""


@pytest.fixture
def described(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(DESCRIBED)
    return path


def test_a_secret_is_in_no_dry_run_and_no_shown_configuration(call, described):
    words = ["run", str(described), "--on", "docker", "--set", f"password={HUSH}", "--set", "quick=2"]
    for more in (["--dry-run"], ["--dry-run", "--json"], ["--show-config"], ["--show-config", "--json"]):
        done = call(*words, *more)
        assert done.exit_code == 0, done.stderr
        assert HUSH not in done.stdout + done.stderr


def test_stored_secrets_are_in_one_file_that_others_cannot_read_and_replays_find_them(described, tmp_path):
    settings = {"password": HUSH, "dsn": HUSH, "quick": "1"}
    options = RunOptions(system=str(described), backend="docker", settings=settings, out=tmp_path / "r")
    plan = draft(options, seed=1).plan
    assert dict(plan.knobs) == settings
    (tmp_path / "r").mkdir()
    store_plan(tmp_path / "r", plan, options)
    course = Course(options, draft(options, seed=1), tmp_path / "r", Silence(), run_id="r", checkers={})
    course.store(store.REALISED, {"seed": 1, "faults": []})
    result = course.result(0)
    told = [path.read_text() for path in (tmp_path / "r").iterdir() if path.name != store.SECRETS]
    assert len(told) >= 3
    assert not [text for text in told if HUSH in text]
    assert result.plan.knobs == {"password": "***", "dsn": "***", "quick": "1"}
    kept = tmp_path / "r" / store.SECRETS
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert dict(read_stored(tmp_path / "r", trust=True).options.settings) == settings
    kept.unlink()
    with pytest.raises(ConfigError, match="password, dsn are secret"):
        read_stored(tmp_path / "r", trust=True)


def test_a_run_without_secrets_has_no_such_file(tmp_path):
    options = RunOptions(
        system="raft", backend="sim", nodes=3, seed=1, time_limit_ns=5_000_000_000, faults=(), out=tmp_path / "r"
    )
    assert not (run(options, Silence()).run_dir / store.SECRETS).exists()
