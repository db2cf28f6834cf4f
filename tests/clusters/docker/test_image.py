import msgspec
import pytest

from dethrone.clusters.docker import image as images
from dethrone.clusters.docker.image import Recipe, cached_tag, ensure_image
from dethrone.clusters.docker.recipe_files import ingredients_of
from dethrone.clusters.recipe import RELEASE
from dethrone.harness.core.errors import ConfigError

RECIPE = Recipe(base=None, packages=("python3",), requirement="msgspec", script="", architecture="amd64")


def test_recipes_are_named_and_take_debian_packages_of_a_users_system():
    assert ingredients_of("node").packages == ()
    assert ingredients_of("etcd").packages == ("etcd-server",)
    assert ingredients_of("node+redis-server+redis-sentinel").packages == ("redis-server", "redis-sentinel")


def test_a_recipe_may_name_another_debian():
    named = ingredients_of("node+mysql-server-core@sid")
    assert (named.packages, named.debian) == (("mysql-server-core",), "sid")
    assert ingredients_of("node+mysql-server-core").debian == RELEASE


@pytest.mark.parametrize(
    "recipe", ["", "zookeeper-of-yours", "node+", "node+bad name", "node+$(reboot)", "node@", "node@$(reboot)"]
)
def test_an_unknown_recipe_is_refused_with_the_known_ones(recipe):
    with pytest.raises(ConfigError, match="no image recipe"):
        ingredients_of(recipe)


@pytest.mark.parametrize(
    "change",
    [
        {"base": "sha256:1"},
        {"packages": ("python3", "etcd-server")},
        {"script": "x"},
        {"architecture": "arm64"},
        {"debian": "sid"},
    ],
)
def test_the_tag_changes_with_everything_that_the_image_is_made_from(change):
    assert msgspec.structs.replace(RECIPE, **change).tag != RECIPE.tag


def test_the_tag_is_the_same_on_every_machine_and_day():
    assert msgspec.structs.replace(RECIPE).tag == RECIPE.tag
    assert RECIPE.tag.startswith("dethrone/host:")


@pytest.mark.docker
def test_the_command_line_refuses_what_it_cannot_build(client, capsys):
    assert images.main(["nonsense"]) == 64
    assert "node+etcd-server" in capsys.readouterr().err


@pytest.mark.docker
def test_the_command_line_names_the_image_of_each_recipe(client, capsys):
    assert images.main(["node"]) == 0
    assert capsys.readouterr().err == f"image: node is {ensure_image(client)}\n"


@pytest.mark.docker
def test_an_image_is_built_once_and_then_found(client, monkeypatch):
    tag = ensure_image(client)

    def never(*_args, **_kwargs):
        raise AssertionError("built again")

    monkeypatch.setattr(images, "_build", never)
    assert ensure_image(client) == tag
    assert cached_tag(client, "node") == tag


@pytest.mark.docker
def test_the_image_carries_what_hosts_and_nodes_need_whatever_python_this_machine_has(client):
    tag = ensure_image(client)
    script = (
        "set -e; for tool in iptables-restore ss tc ip ps python3; do command -v $tool >/dev/null; done; "
        "ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null; "
        "/opt/dethrone/venv/bin/python -c 'import msgspec, sys; assert sys.version_info >= (3, 11)'; echo complete"
    )
    output = client.containers.run(tag, ["sh", "-c", script], remove=True, network_mode="none")
    assert output == b"complete\n"


@pytest.mark.docker
def test_nothing_of_this_machines_configuration_stays_in_the_image(client):
    tag = ensure_image(client)
    script = "test ! -e /run/dethrone-build && test ! -e /usr/sbin/policy-rc.d && env"
    output = client.containers.run(tag, ["sh", "-c", script], remove=True, network_mode="none").decode().lower()
    assert "proxy" not in output
    assert "pip_" not in output
    assert "apt_config" not in output


@pytest.mark.docker
def test_the_image_of_etcd_is_the_same_host_with_one_package_more(client):
    tag = ensure_image(client, packages=ingredients_of("etcd").packages)
    plain = client.images.get(ensure_image(client)).attrs["RootFS"]["Layers"]
    extended = client.images.get(tag).attrs["RootFS"]["Layers"]
    assert extended[: len(plain)] == plain
    assert len(extended) == len(plain) + 1
    output = client.containers.run(tag, ["etcd", "--version"], remove=True, network_mode="none")
    assert b"etcd Version: 3.4" in output


@pytest.mark.docker
def test_a_base_image_that_cannot_be_had_is_a_config_error(client):
    with pytest.raises(ConfigError, match="cannot be pulled"):
        ensure_image(client, base="127.0.0.1:1/absent:none")


@pytest.mark.nightly("builds another image")
@pytest.mark.docker
def test_an_image_of_the_users_own_can_be_the_base(client):
    client.images.get(ensure_image(client)).tag("dethrone-test/own", "base")
    try:
        tag = ensure_image(client, base="dethrone-test/own:base")
        assert tag != ensure_image(client)
        assert ensure_image(client, base="dethrone-test/own:base") == tag
        client.images.remove(tag)
    finally:
        client.images.remove("dethrone-test/own:base")


@pytest.mark.nightly("builds another image")
@pytest.mark.docker
def test_a_step_that_fails_leaves_no_image_and_no_container(client):
    with pytest.raises(Exception, match="could not be built") as caught:
        ensure_image(client, packages=("dethrone-no-such-package",))
    assert "dethrone-no-such-package" in str(caught.value)
    tag = images._recipe(client, None, ("dethrone-no-such-package",)).tag
    assert client.api.containers(all=True, filters={"label": f"dethrone.image={tag}"}) == []
    assert cached_tag(client, "node+dethrone-no-such-package") is None
