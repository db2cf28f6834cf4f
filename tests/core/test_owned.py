"""A file is the user's own only where nobody else can have written it or put it there."""

from __future__ import annotations

import os

import pytest

from dethrone.harness.core import owned

ME = os.geteuid()
OTHER = ME + 1


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "project" / "dethrone.toml"
    path.parent.mkdir()
    path.parent.chmod(0o755)
    path.write_text("[run]\n")
    path.chmod(0o644)
    return path


def test_a_file_of_ones_own_in_a_directory_of_ones_own_is_beyond_doubt(file):
    assert owned.doubt(file, {ME}) == ""
    file.chmod(0o664)
    file.parent.chmod(0o775)
    assert owned.doubt(file, {ME}) == "", "a group of the user's own is how many systems make files"


def test_a_file_of_another_is_in_doubt(file):
    assert owned.doubt(file, {OTHER}) == f"{file} belongs to user {ME}"


@pytest.mark.parametrize("what", ["file", "directory"])
def test_what_everybody_may_write_is_in_doubt(file, what):
    place = file if what == "file" else file.parent
    place.chmod(place.stat().st_mode | 0o1002)
    assert owned.doubt(file, {ME}) == f"any user may write {'into ' if what == 'directory' else ''}{place}"


def test_a_link_is_looked_at_where_it_stands_and_where_it_leads(file, tmp_path):
    common = tmp_path / "common"
    common.mkdir()
    link = common / "dethrone.toml"
    link.symlink_to(file)
    assert owned.doubt(link, {ME}) == ""
    common.chmod(0o777)
    assert owned.doubt(link, {ME}) == f"any user may write into {common}"
    common.chmod(0o755)
    file.parent.chmod(0o777)
    assert owned.doubt(link, {ME}) == f"any user may write into {file.parent}"


def test_a_directory_that_names_are_looked_for_in_counts_too(file, tmp_path):
    here = tmp_path / "here"
    here.mkdir()
    here.chmod(0o777)
    assert owned.doubt(file, {ME}) == ""
    assert owned.doubt(file, {ME}, beside=[here]) == f"any user may write into {here}"


def test_a_file_that_cannot_be_looked_at_is_in_doubt(tmp_path):
    assert owned.doubt(tmp_path / "none.toml", {ME}).startswith("it cannot be examined")


@pytest.mark.parametrize(
    ("mine", "came_from", "ids"),
    [
        (1000, "", {0, 1000}),
        (0, "", {0}),
        (0, "1000", {0, 1000}),
        (1000, "1001", {0, 1000}),
        (0, "-1", {0}),
        (0, "²", {0}),
        (0, "root", {0}),
    ],
)
def test_a_user_owns_files_as_himself_as_root_and_under_sudo_as_who_called_it(monkeypatch, mine, came_from, ids):
    monkeypatch.setattr(os, "geteuid", lambda: mine)
    assert owned.selves({"SUDO_UID": came_from}) == ids
