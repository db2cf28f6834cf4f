from dethrone.clusters.docker.fetching import (
    BUILD,
    Source,
    fetching,
    matching,
    parse_sources,
    pip_environment,
    serving,
)

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def test_one_line_sources_are_read_with_their_options_and_without_comments():
    text = (
        "# deb http://old.example/debian bookworm main\n"
        f"deb [arch=amd64 signed-by={KEYRING}] http://mirror.example/debian bookworm main contrib # ours\n"
        "deb-src http://mirror.example/debian bookworm main\n"
        "deb [trusted=yes] http://local.example/debian bookworm main\n"
    )
    assert parse_sources(text, deb822=False) == [
        Source(uri="http://mirror.example/debian", suites=("bookworm",), components=("main", "contrib")),
        Source(uri="http://local.example/debian", suites=("bookworm",), components=("main",), trusted=True),
    ]


def test_deb822_sources_are_read_paragraph_by_paragraph():
    text = (
        "Types: deb deb-src\n# a comment\nURIs: http://mirror.example/debian\nSuites: bookworm\n bookworm-updates\n"
        f"Components: main\nSigned-By: {KEYRING}\n\n"
        "Types: deb\nEnabled: no\nURIs: http://off.example/debian\nSuites: bookworm\nComponents: main\n"
    )
    assert parse_sources(text, deb822=True) == [
        Source(uri="http://mirror.example/debian", suites=("bookworm", "bookworm-updates"), components=("main",))
    ]


def test_archives_of_others_and_those_on_disk_are_left_out():
    text = (
        "deb [signed-by=/etc/apt/keyrings/vendor.gpg] http://vendor.example/apt bookworm main\n"
        "deb cdrom:[Debian]/ bookworm main\n"
        "deb mirror+file:/etc/apt/mirrors.txt bookworm main\n"
    )
    assert parse_sources(text, deb822=False) == []


def test_only_the_suites_of_the_images_release_are_kept():
    given = Source(uri="http://mirror.example/debian", suites=("trixie", "bookworm-updates"), components=("main", "x"))
    other = Source(uri="http://other.example/debian", suites=("sid",), components=("main",))
    assert matching([given, other], "bookworm") == [
        Source(uri="http://mirror.example/debian", suites=("bookworm-updates",), components=("main",))
    ]


def test_a_release_that_this_machine_does_not_name_is_fetched_from_where_its_own_is():
    own = Source(uri="http://mirror.example/debian", suites=("bookworm",), components=("main", "x"), trusted=True)
    security = Source(uri="http://mirror.example/security", suites=("bookworm-security",), components=("main",))
    there = Source(uri="http://other.example/debian", suites=("sid",), components=("main",))
    assert serving([own, security], "sid", "bookworm") == [
        Source(uri="http://mirror.example/debian", suites=("sid",), components=("main",), trusted=True)
    ]
    assert serving([own, security, there], "sid", "bookworm") == [there]
    assert serving([own], "sid", "") == []


def test_pip_is_told_its_index_but_no_path_of_this_machine():
    settings = {"index-url": "http://index.example/simple", "find-links": "/opt/wheels", "user": "true"}
    assert pip_environment(settings, {"PIP_FIND_LINKS": "/opt/wheels http://wheels.example"}) == {
        "PIP_INDEX_URL": "http://index.example/simple",
        "PIP_FIND_LINKS": "http://wheels.example",
    }


def test_the_environment_wins_over_pips_files_as_it_does_for_pip():
    settings = {"index-url": "http://file.example/simple"}
    given = pip_environment(settings, {"PIP_INDEX_URL": "http://environment.example/simple"})
    assert given == {"PIP_INDEX_URL": "http://environment.example/simple"}


def test_everything_that_a_build_is_given_lies_in_the_one_directory_that_it_removes(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    given = fetching("bookworm")
    assert given.environment["APT_CONFIG"] == f"{BUILD}/apt.conf"
    assert given.environment["HTTPS_PROXY"] == "http://proxy.example:3128"
    assert all(not name.startswith("/") for name in given.files)
