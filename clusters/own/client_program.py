"""The process in which a client class works, a user's or ours: ``python3 -P client_program.py FILE CLASS``.

The first line of its input is what the class is made with, as a JSON object; ``{}`` answers it once the class is made.
Each line after it is an operation, ``{"f", "node", "arguments"}``; one line answers it: ``{"value": …}``, or
``{"error": …, "certain": true or false}``.

Guarantees: only the standard library; what the class prints goes to standard error. Out of scope: time: who asks ends
this process if an answer is late.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

SHOWN = 200


def loaded(file: str, name: str) -> Any:
    """The class of that name in the file, whose directory is on the path. Raises what the file raises."""
    folder = Path(file).resolve().parent
    if folder != Path(__file__).resolve().parent:  # our own modules must not hide those of a driver
        sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("client_of_the_user", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)


def answer(client: Any, question: dict[str, Any]) -> dict[str, Any]:
    """What the method of the operation's name returns, or why it did not."""
    certain = (NotImplementedError, *getattr(client, "not_done", ()))
    try:
        return {"value": getattr(client, question["f"])(question["node"], *question["arguments"])}
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything, and is asked again
        text = f"{type(error).__name__}: {error}"[:SHOWN]
        return {"error": text, "certain": isinstance(error, certain)}


def main(file: str, name: str) -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a print in the user's code must not be taken for an answer
    client = loaded(file, name)(json.loads(sys.stdin.readline()))
    answers.write("{}\n")
    answers.flush()
    for line in sys.stdin:
        found = answer(client, json.loads(line))
        try:
            text = json.dumps(found)
        except (TypeError, ValueError, RecursionError) as error:
            text = json.dumps({"error": f"the value is no JSON: {error}"[:SHOWN], "certain": False})
        answers.write(text + "\n")
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
