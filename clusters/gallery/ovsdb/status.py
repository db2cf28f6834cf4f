"""What a clustered ovsdb-server is: one line of JSON for each line of input.

    python3 status.py CONTROL_SOCKET DATABASE

It asks the server's control socket for ``cluster/status``, whose text names servers by the first digits of their ids;
here they are named by their addresses (``tcp:10.1.0.2:6643``). Out of scope: databases that are not clustered.
"""

from __future__ import annotations

import json
import re
import socket
import sys
from typing import Any

LIMIT_S = 0.3
_FIELD = re.compile(r"^(Address|Role|Term|Leader|Vote): (.*)$", re.MULTILINE)
_SERVER = re.compile(r"^    (\w+) \(\w+ at (\S+)\)", re.MULTILINE)


def asked(path: str, database: str) -> str:
    """The text of ``cluster/status``. Raises OSError or ValueError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
        control.settimeout(LIMIT_S)
        control.connect(path)
        control.sendall(json.dumps({"id": 0, "method": "cluster/status", "params": [database]}).encode())
        text = ""
        while True:
            data = control.recv(1 << 16)
            if not data:
                raise ConnectionError("the server hung up")
            text += data.decode()
            try:
                answer, _ = json.JSONDecoder().raw_decode(text)
            except ValueError:
                continue
            if answer.get("error"):
                raise ValueError(str(answer["error"]))
            return str(answer["result"])


def understood(text: str) -> dict[str, Any]:
    """The fields that count."""
    fields, servers = dict(_FIELD.findall(text)), dict(_SERVER.findall(text))
    names = {**servers, "self": fields["Address"]}
    return {
        "role": fields["Role"],
        "term": int(fields["Term"]),
        "leader": names.get(fields["Leader"]),
        "vote": names.get(fields["Vote"]),
    }


def main(path: str, database: str) -> None:
    """Answer until the input ends."""
    for _ in sys.stdin:
        try:
            found = understood(asked(path, database))
        except (OSError, ValueError, LookupError) as error:
            found = {"error": str(error)}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
