import multiprocessing

import pytest

from dethrone.clusters.docker.state import locked, state_directory
from dethrone.harness.core.errors import ClusterError, ConfigError


def _hold(path, held, release):
    with locked(path, limit_s=5):
        held.set()
        release.wait(20)


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock, and the event that lets it go."""
    context = multiprocessing.get_context("spawn")
    held, release = context.Event(), context.Event()
    process = context.Process(target=_hold, args=(tmp_path / "lock", held, release))
    process.start()
    assert held.wait(20)
    yield process, release
    process.kill()
    process.join(20)


def test_a_lock_is_waited_for_with_a_bound_and_the_holder_is_findable(tmp_path, holder):
    _, release = holder
    told = []
    with pytest.raises(ClusterError, match="held a lock"), locked(tmp_path / "lock", limit_s=0.2, progress=told.append):
        pass
    assert len(told) == 1
    release.set()
    with locked(tmp_path / "lock", limit_s=20):
        pass


def test_a_killed_holder_leaves_no_lock(tmp_path, holder):
    process, _ = holder
    process.kill()
    process.join(20)
    with locked(tmp_path / "lock", limit_s=5):
        pass


def test_the_state_directory_can_be_moved_and_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path / "state"))
    directory = state_directory("engine")
    assert directory == tmp_path / "state" / "engine"
    assert directory.stat().st_mode & 0o777 == 0o700


def test_a_state_directory_that_cannot_be_made_says_how_to_move_it(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DETHRONE_STATE_DIR", str(tmp_path / "file"))
    with pytest.raises(ConfigError) as caught:
        state_directory("engine")
    assert "DETHRONE_STATE_DIR" in caught.value.next_step
