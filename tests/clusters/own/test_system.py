"""A described system as a run meets it: its command, files, channels and promise are what the file says, no more."""

import json
from pathlib import Path

import msgspec
import pytest

from dethrone.clusters.own.system import load
from dethrone.harness.core import registry
from dethrone.harness.core.clock import MS, SECOND
from dethrone.harness.core.errors import ConfigError
from dethrone.harness.core.interfaces import Described, Logged, Malformed, Paced, Telling, Unpreloaded
from dethrone.harness.core.promise import SAFETY
from dethrone.harness.engine.run.options import RunOptions
from dethrone.harness.engine.run.planning import draft
from tests.clusters.own.described import TEXT, specs, system

HTTP = 'http = "/status"\nrole = "raft.state"\nterm = "raft.term"\nleader = "raft.leader"\ncommit = "raft.commit"'
ENDS = 'commit = "raft.commit"\nlog_term = "raft.lt"\nlog_index = "raft.li"'
LOG = "log = \"{log_dir}/node.log\"\nbecame = { leader = 'lead (?P<term>\\d+)', follower = 'follow' }"


def promise(*changes):
    of = system(*changes)
    return of.promise({}, profile="own", voters=3)


def test_the_command_holds_the_words_of_its_node_and_keeps_quoted_words_whole():
    of = system()
    command = of.command(specs(of)["n2"])
    assert command.argv[:3] == ("/opt/mine", "--id", "n2")
    assert command.argv[4] == "n1=10.0.0.1,n2=10.0.0.2,n3=10.0.0.3"
    assert command.argv[-1] == "/l/x y"
    assert command.env["DETHRONE_INCARNATION"] == "{incarnation}"


def test_members_are_said_as_the_file_wants_them_and_the_others_leave_the_node_out():
    of = system(("{members}", "{others}"), ("ports =", 'member = "{number}@{address}:{peer}"\njoin = ";"\nports ='))
    assert of.command(specs(of)["n2"]).argv[4] == "1@10.0.0.1:7000;3@10.0.0.3:7000"


def test_a_program_that_is_copied_is_made_runnable_and_becomes_the_process():
    of = system(("/opt/mine", "{run_dir}/prog"), ("ports =", 'files = { "{run_dir}/prog" = "prog" }\nports ='))
    node = specs(of)["n1"]
    assert of.files(node) == {"/r/prog": b"\x7fELF"}
    command = of.command(node)
    assert command.argv[0] == "/bin/sh"
    assert command.argv[3:6] == ("sh", "1", "/r/prog")
    assert command.argv[6] == "/r/prog"
    assert 'exec "$@"' in command.argv[2]


def test_texts_are_files_with_words():
    of = system(("ports =", 'texts = { "{data_dir}/my.conf" = "me = {name}\\nall = { {members} }" }\nports ='))
    assert of.files(specs(of)["n3"]) == {"/d/my.conf": b"me = n3\nall = { n1=10.0.0.1,n2=10.0.0.2,n3=10.0.0.3 }"}


def test_knobs_are_words_and_settings_change_them():
    of = system(("[promise]", "[knobs]\nquick = true\n[promise]"), ("--id {name}", "--id {name} --quick={quick}"))
    assert of.knobs({}, profile=None, variant=None) == {"quick": "true"}
    node = msgspec.structs.replace(specs(of)["n1"], knobs=of.knobs({"quick": "no"}, profile=None, variant=None))
    assert "--quick=no" in of.command(node).argv
    with pytest.raises(ConfigError, match="quik") as error:
        of.knobs({"quik": "no"}, profile=None, variant=None)
    assert "quick" in error.value.next_step


def test_a_node_that_cannot_answer_gets_a_program_beside_it():
    of = system((HTTP, LOG))
    node = specs(of)["n1"]
    assert of.command(node).argv[:5] == ("/py", "-S", "/r/beside.py", "/r/beside.json", "{incarnation}")
    told = json.loads(of.files(node)["/r/beside.json"])
    assert (told["log"], told["address"]) == ("/l/node.log", "10.0.0.1")
    assert of.status_call(node).framing == "u32"


def test_what_answers_beside_a_node_is_started_with_the_nodes_environment():
    asked = 'command = "ctl status"\nrole = "role"\nterm = "term"'
    of = system(
        (HTTP, asked),
        ("ports =", 'secrets = ["password"]\nenv = { CTL_LOGIN = "{password}" }\nports ='),
        ("[promise]", '[knobs]\npassword = ""\n[promise]'),
    )
    node = msgspec.structs.replace(specs(of)["n1"], knobs={"password": "s3cret"})
    command = of.command(node)
    assert command.argv[2] == "/r/beside.py"
    assert command.env["CTL_LOGIN"] == "s3cret"


def test_trace_lines_of_kinds_that_the_file_does_not_name_are_left_out_but_malformed_ones_never():
    of = system()
    assert of.trace_lines(b'{"dethrone": 1, "event": "elected", "term": 1}')[0].name == "elected"
    assert of.trace_lines(b'{"dethrone": 1, "event": "halting", "reason": "x"}') == []
    assert isinstance(of.trace_lines(b'{"dethrone": 1, "event": "halted"}')[0], Malformed)


# --- the promise ------------------------------------------------------------------------------------------------


def test_what_is_not_promised_or_cannot_be_seen_is_not_judged_and_each_says_why():
    exempt = promise().exempt
    for name, reason in (
        ("step-down-without-quorum", "step_down_within"),
        ("convergence-after-heal", "converge_within"),
        ("leader-stability", "pre-vote"),
        ("log-matching", "appended"),
        ("leader-completeness", "log end"),
        ("vote-is-durable", "recovered"),
        ("members-only", "voters"),
        ("leader-has-majority", "voters"),
    ):
        assert reason in exempt[name].reason, name
    for name in ("one-leader-per-term", "one-vote-per-term", "term-never-decreases", "leader-when-owed"):
        assert name not in exempt


@pytest.mark.parametrize(
    ("change", "judged"),
    [
        (('"committed"]', '"committed", "appended"]'), {"log-matching", "leader-completeness"}),
        (('"committed"]', '"committed", "recovered"]'), {"vote-is-durable"}),
        (('"committed"]', '"committed"]\nvoters = true'), {"members-only", "leader-has-majority"}),
        (("tolerates =", "leader_bound_to_term = true\ntolerates ="), {"leader-has-majority"}),
        (("tolerates =", 'step_down_within = "1s"\ntolerates ='), {"step-down-without-quorum"}),
        (("tolerates =", 'converge_within = "1s"\ntolerates ='), {"convergence-after-heal"}),
        (('commit = "raft.commit"', ENDS), set()),
        (('"committed"]\n', '"committed", "pre_vote_started", "pre_vote_won"]\n'), set()),
    ],
)  # fmt: skip
def test_each_line_and_bound_that_is_added_makes_its_property_judged(change, judged):
    assert set(promise().exempt) - set(promise(change).exempt) == judged


def test_acknowledged_writes_may_be_lost_where_the_description_says_so():
    exempt = promise(("tolerates =", "durable = false\ntolerates =")).exempt
    assert "may be lost" in exempt["acknowledged-survives"].reason
    assert "acknowledged-survives" not in promise().exempt


def test_a_description_may_say_which_stalls_its_system_bears():
    assert promise(('election_timeout = "1s"', 'election_timeout = "6s"')).noise_max_ns == 200 * MS
    assert promise(('election_timeout = "1s"', 'election_timeout = "6s"\nstall_max = "1s"')).noise_max_ns == SECOND


def test_a_knob_may_say_whether_acknowledged_writes_survive():
    of = system(("tolerates =", 'durable = "{safe}"\ntolerates ='), ("[promise]", "[knobs]\nsafe = false\n[promise]"))
    for settings, judged in (({}, False), ({"safe": "true"}, True)):
        knobs = of.knobs(settings, profile=None, variant=None)
        made = of.promise(knobs, profile="own", voters=3)
        assert ("acknowledged-survives" not in made.exempt) is judged
    with pytest.raises(ConfigError, match=r"durable = '\{safe\}' is 'perhaps'"):
        of.knobs({"safe": "perhaps"}, profile=None, variant=None)


def test_a_probed_log_end_judges_new_leaders_only_with_a_commit_and_a_leader_bound_to_its_term():
    bound = ("tolerates =", "leader_bound_to_term = true\ntolerates =")
    assert "leader-completeness" not in promise(('commit = "raft.commit"', ENDS), bound).exempt
    alone = promise(('commit = "raft.commit"', ENDS)).exempt["leader-completeness"]
    assert alone.kind == "not observable"
    assert "leader_bound_to_term" in alone.reason
    without = promise(('commit = "raft.commit"', ENDS.partition("\n")[2]), bound).exempt["leader-completeness"]
    assert "commit in [probe]" in without.reason


@pytest.mark.parametrize("within", ["2s", "5s", "8s", "10s"])
def test_by_default_each_fault_happens_and_begins_at_most_six_seconds_after_health_is_back(tmp_path, within):
    file = tmp_path / "mine.toml"
    file.write_text(TEXT.replace('"5s"', f'"{within}"').replace('"kill"]', '"kill", "pause"]'))
    asked = RunOptions(system=str(file), nodes=3, faults=("partition", "kill", "pause"), time_limit_ns=60 * SECOND)
    for seed in range(6):
        schedule = draft(asked, seed=seed).plan.schedule
        assert set(schedule.kinds) == {"partition", "kill", "pause"}
        assert all(step.gap_ns <= 6 * SECOND for step in schedule.steps)
    slower = msgspec.structs.replace(asked, nemesis_interval_ns=12 * SECOND)
    assert all(step.gap_ns >= 12 * SECOND for step in draft(slower, seed=1).plan.schedule.steps)


def test_safety_may_be_claimed_under_more_faults_than_progress():
    made = promise(('"kill"]', '"kill"]\nsafe_under = ["pause", "damage:vote"]'))
    assert set(made.tolerates) == {"partition", "kill"}
    assert set(made.tolerated_for_safety) == {"partition", "kill", "pause", "damage:vote"}
    assert promise().tolerated_for_safety == promise().tolerates


def test_without_trace_lines_only_what_polls_show_is_judged():
    start, end = TEXT.index("[trace]"), TEXT.index("[ops]")
    of = system((TEXT[start:end], ""))
    assert set(of.observable()) == {"observed", "commit", "ops"}
    judged = set(SAFETY) - set(of.promise({}, profile="own", voters=3).exempt)
    assert judged == {"term-never-decreases", "commit-never-regresses", "acknowledged-survives"}


def test_a_probe_that_names_no_leader_shows_no_liveness_that_rests_on_it():
    exempt = promise(('leader = "raft.leader"\n', "")).exempt
    assert exempt["leader-when-owed"].kind == "not observable"


def test_faults_that_are_not_borne_are_not_drawn():
    assert system().defaults().faults == ("partition", "kill")
    assert isinstance(system(), Unpreloaded), "the clocks of a described process are skewed in its vDSO"


def test_the_default_workload_is_one_that_the_operations_serve():
    assert system().defaults().workload == "register"
    assert system(('cas = \'POST /kv/{key} {"old": {old}, "value": {value}}\'', "")).defaults().workload == "election"


def test_hosts_are_made_of_the_image_and_packages_that_the_file_names():
    of = system(('name = "mine"', 'name = "mine"\nimage = "mine:1"\npackages = ["jq", "curl"]'))
    assert (of.defaults().base, of.image()) == ("mine:1", "node+jq+curl")
    assert (system().defaults().base, system().image()) == (None, "node")
    of = system(('name = "mine"', 'name = "mine"\ndebian = "sid"\npackages = ["jq"]'))
    assert (of.defaults().base, of.image()) == (None, "node+jq@sid")


# --- the file ---------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "my.toml"
    made.write_text(TEXT)
    return made


def test_a_path_stands_wherever_a_systems_name_may(file):
    of = registry.load(registry.SYSTEMS, str(file))
    assert of.name == "mine"
    assert isinstance(of, Telling)
    assert isinstance(of, Paced)
    assert isinstance(of, Described)
    plan = draft(RunOptions(system=str(file), nodes=3), seed=1).plan
    assert (plan.system, plan.observe_interval_ns, plan.workload.name) == ("mine", 80_000_000, "register")
    assert set(plan.schedule.kinds) <= {"partition", "kill"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TEXT.replace('"kill"', '"kil"'), "'kill'"),
        (TEXT.replace('name = "mine"', 'name = "raft"'), "another name"),
        (TEXT.replace("ports =", 'files = { "{run_dir}/x" = "absent" }\nports ='), "build it first"),
        ("\x00", "TOML"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_configuration_error(file, text, said):
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(file)
    assert said in str(error.value)


def test_files_that_are_not_there_or_of_an_unknown_kind_are_said_so(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        registry.load(registry.SYSTEMS, str(tmp_path / "absent.toml"))
    with pytest.raises(ConfigError, match="kind of file"):
        registry.load(registry.SYSTEMS, str(tmp_path / "my.yaml"))


def test_the_tutorials_description_has_at_most_twenty_lines():
    lines = (Path(__file__).parents[3] / "docs" / "tutorial" / "keep.toml").read_text().strip().split("\n")
    assert len(lines) <= 20


def test_fatal_lines_reach_the_agent_and_harmless_exit_codes_the_promise():
    table = '[log]\nfatal = ["panic:"]\nfile = "{log_dir}/app.log"\nexits_ok = [3]\n\n[promise]'
    of = system(("[promise]", table))
    node = specs(of)["n1"]
    assert isinstance(of, Logged)
    assert of.fatal(node) == (("panic:",), f"{node.log_dir}/app.log")
    assert of.promise({}, profile="own", voters=3).exits_ok == (3,)
    assert system().fatal(node) == ((), None)
