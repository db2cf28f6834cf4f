"""Proves from one history file alone that an election was unsafe; needs nothing but Python.

usage: python verify_certificate.py HISTORY.jsonl

Two proofs, either of which is enough: one node gave its vote of one term to two candidates (events named ``vote``), or
two nodes were elected in one term (events named ``elected``). Prints the events and exits 1; prints that there is none
and exits 0. Exit 2: the file cannot be read.
"""

import json
import sys


def certificate(lines):
    """The sentence and the two events that prove it, or None."""
    votes, elected = {}, {}
    for line in lines:
        event = json.loads(line) if line.endswith("\n") else {}  # a torn last line proves nothing
        if event.get("type") != "traced" or event["name"] not in {"vote", "elected"}:
            continue
        group, term, node = event.get("group", ""), event["term"], event["node"]
        if event["name"] == "vote":
            first = votes.setdefault((group, node, term), event)
            one, other = first["data"]["candidate"], event["data"]["candidate"]
            if one != other:
                return f"{node} voted in term {term} for {one} and for {other}", first, event
        else:
            first = elected.setdefault((group, term), event)
            if first["node"] != node:
                return f"{first['node']} and {node} were both elected in term {term}", first, event
    return None


if __name__ == "__main__":
    try:
        with open(sys.argv[1], encoding="utf-8") as history:  # noqa: PTH123 - only what everybody knows
            found = certificate(history)
    except (IndexError, OSError, ValueError, LookupError) as error:
        print(f"{__doc__}\ncannot judge: {error!r}", file=sys.stderr)
        sys.exit(2)
    if found is None:
        print("no double vote and no two leaders of one term")
        sys.exit(0)
    print(found[0])
    for proof in found[1:]:
        print(f"  seq {proof['seq']}: {json.dumps(proof, sort_keys=True)}")
    sys.exit(1)
