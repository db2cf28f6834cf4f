import pytest

from dethrone.clusters.docker import packages
from dethrone.harness.core.errors import MissingCapability


def test_os_release_is_read_without_its_quotes(tmp_path):
    file = tmp_path / "os-release"
    file.write_text('# a comment\nID=ubuntu\nID_LIKE="debian other"\nPRETTY_NAME="Ubuntu 24.04"\n')
    assert packages.os_release(file) == {"ID": "ubuntu", "ID_LIKE": "debian other", "PRETTY_NAME": "Ubuntu 24.04"}


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ({"ID": "debian"}, True),
        ({"ID": "ubuntu", "ID_LIKE": "debian"}, True),
        ({"ID": "fedora"}, False),
        ({"ID": "arch", "ID_LIKE": ""}, False),
    ],
)
def test_debian_and_its_kin_are_told_from_others(release, expected):
    assert packages.is_debian_like(release) is expected


def test_on_another_system_the_error_names_every_package(monkeypatch):
    monkeypatch.setattr(packages, "os_release", lambda: {"ID": "fedora", "PRETTY_NAME": "Fedora Linux 42"})
    with pytest.raises(MissingCapability) as caught:
        packages.install(("docker.io", "iptables"), purpose="Docker engine")
    assert caught.value.where == "Fedora Linux 42"
    assert "docker.io iptables" in caught.value.next_step


def test_a_user_who_may_not_install_is_told_the_command_for_root(monkeypatch):
    monkeypatch.setattr(packages, "os_release", lambda: {"ID": "debian"})
    monkeypatch.setattr(packages, "root_prefix", lambda: None)
    with pytest.raises(MissingCapability) as caught:
        packages.install(("docker.io",), purpose="Docker engine")
    assert caught.value.next_step == "run as root: apt-get install --no-install-recommends docker.io"
