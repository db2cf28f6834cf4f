"""A real standalone cluster, started from the pyspark package: a master and workers of one core each, as processes."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.waiting import until

LIMIT_S = 300

CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""What an application needs to run on it."""


def home() -> Path:
    """Where Spark lies: workers start executors from there."""
    import pyspark

    return Path(pyspark.__file__).parent


def says(log: Path, words: str) -> bool:
    return words in log.read_text()


@contextlib.contextmanager
def started(words, log: Path):
    core = next((home() / "jars").glob("spark-core_*.jar")).name  # as its shell scripts would tell them
    scala = core.removeprefix("spark-core_").partition("-")[0]
    environment = {**os.environ, "SPARK_HOME": str(home()), "SPARK_SCALA_VERSION": scala}
    with log.open("wb") as file:
        process = subprocess.Popen(words, stdout=file, stderr=file, start_new_session=True, env=environment)
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


@contextlib.contextmanager
def cluster(directory: Path, *, workers: int = 2):
    """The master's URL, and the workers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", str(home() / "jars" / "*")]
    here = ["--host", "127.0.0.1", "--webui-port", "0"]
    with contextlib.ExitStack() as stack:
        log = directory / "master.log"
        words = [*java, "org.apache.spark.deploy.master.Master", *here, "--port", str(port)]
        master = stack.enter_context(started(words, log))
        until(lambda: says(log, "I have been elected leader"), LIMIT_S, what="a master", process=master)
        processes = []
        for number in range(1, workers + 1):
            words = ["--cores", "1", "--memory", "1g", "--work-dir", str(directory / f"work-{number}"), url]
            log = directory / f"worker-{number}.log"
            worker = started([*java, "org.apache.spark.deploy.worker.Worker", *here, *words], log)
            processes.append(stack.enter_context(worker))
            registered = functools.partial(says, log, "Successfully registered")
            until(registered, LIMIT_S, what="a worker", process=processes[-1])
        yield url, processes


def bare_python(directory: Path) -> Path:
    """This version of Python with everything that is installed here, but without dethrone."""
    packages = directory / "packages"
    packages.mkdir(parents=True)
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "dethrone" not in entry.name.lower() and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    program = directory / "python"
    interpreter = getattr(sys, "_base_executable", sys.executable)
    program.write_text(f'#!/bin/sh\nexport PYTHONPATH="$PYTHONPATH:{packages}"\nexec {interpreter} "$@"\n')
    program.chmod(0o755)
    return program


def spark_conf() -> list[str]:
    """``CONF`` as flags."""
    return [word for key, value in CONF.items() for word in ("--spark-conf", f"{key}={value}")]
