"""Connections against a real SSH server on loopback."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading

import paramiko
import pytest

from dethrone.clusters.ssh.connection import HostKeyError, LoginError, fingerprint, known_keys
from dethrone.clusters.ssh.hosts import Bastion
from dethrone.harness.core.errors import ClusterError, ConfigError
from tests.waiting import until

pytestmark = pytest.mark.processes


def test_a_command_gets_its_input_and_tells_its_output_and_its_exit_code(lab):
    connection = lab.connection()
    big = b"x" * 3_000_000
    code, out, err = connection.run(("sh", "-c", "cat; echo 'so be it' >&2; exit 3"), stdin=big, limit_s=30)
    assert (code, out, err) == (3, big, b"so be it\n")


def test_arguments_arrive_as_they_are(lab):
    words = ("a b", "$HOME", "'", "*", ";", "")
    _, out, _ = lab.connection().run(("printf", "%s|", *words), limit_s=10)
    assert out.decode() == "".join(f"{word}|" for word in words)


def test_all_commands_share_one_connection(lab):
    connection = lab.connection()
    for _ in range(3):
        connection.run(("true",), limit_s=10)
    assert lab.server.connections == 1


def test_an_unknown_host_key_is_refused_before_anybody_logs_in(lab):
    lab.known_hosts.write_text("")
    with pytest.raises(HostKeyError) as caught:
        lab.connection().connect()
    assert fingerprint(lab.server.host_key) in caught.value.what
    assert f"ssh-keyscan -t ecdsa -p {lab.server.port} 127.0.0.1 >> {lab.known_hosts}" in caught.value.next_step
    assert lab.server.logins == []


def test_a_changed_host_key_is_refused_with_both_fingerprints(lab):
    other = paramiko.ECDSAKey.generate()
    lab.known_hosts.write_text("")
    lab.know(lab.server, key=other)
    with pytest.raises(HostKeyError) as caught:
        lab.connection().connect()
    assert fingerprint(lab.server.host_key) in caught.value.what
    assert fingerprint(other) in caught.value.what
    assert f"ssh-keygen -R '[127.0.0.1]:{lab.server.port}'" in caught.value.next_step
    assert lab.server.logins == []


def test_a_revoked_host_key_is_not_accepted_though_it_is_listed(lab):
    lab.know(lab.server, mark="@revoked ")
    with pytest.raises(HostKeyError, match="not known"):
        lab.connection().connect()


def test_a_key_that_changes_while_the_run_lasts_is_refused_at_the_next_connection(lab):
    connection = lab.connection()
    connection.run(("true",), limit_s=10)
    lab.server.host_key = paramiko.ECDSAKey.generate()
    lab.server.drop()
    with pytest.raises(HostKeyError, match="has changed"):
        connection.run(("true",), limit_s=10)


def test_a_fingerprint_is_the_one_that_ssh_keygen_prints(lab):
    public = lab.directory / "key.pub"
    public.write_text(f"{lab.client_key.get_name()} {lab.client_key.get_base64()}\n")
    try:
        said = subprocess.run(["ssh-keygen", "-lf", str(public)], capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        pytest.skip("no ssh-keygen here")
    assert fingerprint(lab.client_key) in said


def test_a_wrong_user_is_told_who_was_refused_and_what_to_try(lab):
    with pytest.raises(LoginError) as caught:
        lab.connection(user="nobody").connect()
    assert caught.value.what.startswith("nobody may not log in")
    assert f"-p {lab.server.port} nobody@127.0.0.1" in caught.value.next_step


def test_a_wrong_key_is_a_login_error_not_a_retry(lab):
    path = lab.directory / "other"
    paramiko.ECDSAKey.generate().write_private_key_file(str(path))
    with pytest.raises(LoginError):
        lab.connection(key=str(path)).connect()
    assert len(lab.server.logins) == 1


def test_a_key_file_with_a_passphrase_or_none_at_all_is_said(lab):
    path = lab.directory / "locked"
    paramiko.ECDSAKey.generate().write_private_key_file(str(path), password="secret")  # noqa: S106
    with pytest.raises(ConfigError, match="passphrase"):
        lab.connection(key=str(path)).connect()
    path.write_text("no key")
    with pytest.raises(ConfigError, match="no private key"):
        lab.connection(key=str(path)).connect()
    with pytest.raises(ConfigError, match="no key file"):
        lab.connection(key=str(lab.directory / "absent")).connect()


@pytest.mark.parametrize("ending", ["", "-cert.pub"])
def test_a_key_or_certificate_without_an_end_is_refused_at_once(lab, ending):
    path = lab.directory / "mine"
    paramiko.ECDSAKey.generate().write_private_key_file(str(path))
    part = path.with_name(path.name + ending)
    part.unlink(missing_ok=True)
    os.mkfifo(part)
    with pytest.raises(ConfigError, match="cannot be read: it is a FIFO"):
        lab.connection(key=str(path)).connect()


def test_a_machine_that_does_not_answer_yet_is_tried_again(lab):
    lab.server.deaf = True
    connection = lab.connection(patience_s=20)
    hear = threading.Timer(0.3, lambda: setattr(lab.server, "deaf", False))
    hear.start()
    assert connection.run(("echo", "here"), limit_s=10)[1] == b"here\n"


def test_a_machine_that_never_answers_is_an_error_within_the_patience(lab):
    lab.server.deaf = True
    with pytest.raises(ClusterError, match="cannot be reached"):
        lab.connection(patience_s=0.3).connect()


def test_a_connection_that_breaks_during_a_command_is_doubt_and_the_command_is_not_run_again(lab):
    connection = lab.connection()
    ran = lab.directory / "ran"
    caught: list[ClusterError] = []

    def run() -> None:
        try:
            connection.run(("sh", "-c", f"echo x >> {shlex.quote(str(ran))}; sleep 20"), limit_s=30)
        except ClusterError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(ran.exists)
    lab.server.drop()
    thread.join(10)
    assert "not known" in caught[0].cause
    assert connection.run(("cat", str(ran)), limit_s=10)[1] == b"x\n"


def test_a_command_that_does_not_end_is_an_error_at_its_limit(lab):
    with pytest.raises(ClusterError, match="did not end within"):
        lab.connection().run(("sleep", "20"), limit_s=0.3)


def test_a_bastion_is_passed_through_and_verified_too(lab):
    inner = lab.another_server(known=True)
    bastion = Bastion(address="127.0.0.1", port=lab.server.port, user="chaos")
    connection = lab.connection(port=inner.port, bastion=bastion)
    assert connection.run(("echo", "through"), limit_s=10)[1] == b"through\n"
    assert (lab.server.commands, len(inner.commands)) == ([], 1)
    lab.known_hosts.write_text("")
    lab.know(inner)
    with pytest.raises(HostKeyError, match="not known") as caught:
        lab.connection(port=inner.port, bastion=bastion).connect()
    assert caught.value.where.startswith("the bastion of n1")


def test_with_sudo_a_command_goes_through_it_and_a_refusal_names_the_line_to_write(lab):
    lab.server.path = str(lab.directory)
    sudo = lab.directory / "sudo"
    sudo.write_text('#!/bin/sh\n[ "$1 $2" = "-n --" ] || exit 9\nshift 2\nexec "$@"\n')
    sudo.chmod(0o755)
    assert lab.connection(sudo=True).run(("echo", "a b"), limit_s=10)[1] == b"a b\n"
    sudo.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    with pytest.raises(LoginError) as caught:
        lab.connection(sudo=True).run(("echo",), limit_s=10)
    assert "chaos ALL=(root) NOPASSWD: ALL" in caught.value.next_step


def test_lines_of_known_hosts_that_are_damaged_are_passed_over(lab):
    with lab.known_hosts.open("a") as file:
        file.write("# a comment\n\nonly-a-name\nhost ecdsa-sha2-nistp256 !!!!\nhost unknown-type AAAA\n")
    assert [name for name, _ in known_keys(lab.known_hosts)] == [f"[127.0.0.1]:{lab.server.port}"]
    assert known_keys(lab.directory / "absent") == []
