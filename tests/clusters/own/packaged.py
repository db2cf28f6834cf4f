"""Wheels made in tests, and a described system that is one: an index that is a folder, and no network."""

import zipfile

from tests.outside import NODE, TOML

START = "import runpy\nrunpy.run_module('tiny_node.run', run_name='__main__')\n"


def write_wheel(folder, name, version, files, *, tag="py3-none-any", needs=""):
    """A wheel in the index."""
    package = name.replace("-", "_")
    info = f"{package}-{version}.dist-info"
    requires = f"Requires-Dist: {needs}\n" if needs else ""
    said = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        f"{info}/RECORD": "",
    }
    path = folder / f"{package}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as out:
        for inner, text in said.items():
            out.writestr(inner, text)
    return path


def describe_package(folder):
    """The file of a system whose program is a package and is started from a directory, and where pip finds it."""
    write_wheel(folder, "tiny-node", "1.0", {"tiny_node/__init__.py": "", "tiny_node/run.py": NODE})
    (folder / "app").mkdir()
    (folder / "app" / "start.py").write_text(START)
    text = TOML.format(python="{python}", every="40ms").replace("{run_dir}/node.py {", "{run_dir}/app/start.py {")
    text = text.replace('"{run_dir}/node.py" = "node.py"', '"{run_dir}/app" = "app"')
    text = text.replace('name = "outside"', 'name = "outside"\npython = ["tiny-node==1.0"]\n')
    (folder / "tiny.toml").write_text(text)
    return folder / "tiny.toml", {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": "/dev/null"}
