"""Random small histories of clients on real objects, then lies: about half of them are linearizable.

    rows(model, rng) → list of dicts as ``linear_oracle`` wants them

Operations overlap, some never return, some cas fail, some answers are changed afterwards.
"""

from __future__ import annotations


class Thing:
    """The real objects, one step after another."""

    def __init__(self, model, initial):
        self.model, self.initial = model, initial
        self.cells, self.lines, self.bags, self.locks = {}, {}, {}, set()

    def do(self, f, key, value):
        """(status, output) of an operation that takes effect now."""
        if self.model == "multi-register":
            out = []
            for g, k, v in value:
                if g == "w":
                    self.cells[k] = v
                out.append([g, k, v if g == "w" else self.cells.get(k, self.initial)])
            return "ok", out
        if f == "read" and self.model != "set":
            return "ok", self.cells.get(key, self.initial)
        if f == "write":
            self.cells[key] = value
            return "ok", None
        if f == "cas":
            if self.cells.get(key, self.initial) != value[0]:
                return "fail", None
            self.cells[key] = value[1]
            return "ok", None
        if f == "acquire":
            if key in self.locks:
                return "fail", None
            self.locks.add(key)
            return "ok", None
        if f == "release":
            if key not in self.locks:
                return "fail", None
            self.locks.discard(key)
            return "ok", None
        line, bag = self.lines.setdefault(key, []), self.bags.setdefault(key, set())
        if f == "enqueue":
            line.append(value)
            return "ok", None
        if f == "dequeue":
            return "ok", line.pop(0) if line else None
        if f == "read":
            return "ok", sorted(bag)
        there = value in bag
        if f == "add":
            bag.add(value)
            return "ok", not there
        if f == "remove":
            bag.discard(value)
            return "ok", there
        return "ok", there


def rows(model, rng, *, most=12, initial=None):
    """A history of up to ``most`` operations. Some models of behaviour are drawn once a history."""
    keys = ["x", "y"][: rng.choice([1, 1, 2])]
    count = rng.randint(1, most)
    clients = rng.randint(1, 5)
    unique = rng.random() < 0.6
    lies = rng.choice([0, 1, 2, 3, 4])
    unknown = rng.choice([0, 0, 0.15, 0.4])
    told = rng.random() < 0.5
    whole = rng.random() < 0.5
    pool = rng.randint(1, 4)
    thing = Thing(model, initial)
    out, open_ops, fresh = [], [], [10]
    now = 0

    def new_value():
        if unique:
            fresh[0] += 1
            return fresh[0]
        return rng.randint(1, pool)

    def some_value():
        return (
            rng.choice([initial, *range(1, pool + 1)])
            if not unique
            else rng.choice([initial, *range(11, fresh[0] + 2)])
        )

    def question():
        key = rng.choice(keys)
        if model in ("register", "cas-register", "kv"):
            kinds = ["read", "read", "write"] + (["cas", "cas"] if model != "register" else [])
            f = rng.choice(kinds)
            value = None
            if f == "write":
                value = new_value()
            elif f == "cas":
                near = thing.cells.get(key, initial) if rng.random() < 0.7 else some_value()
                value = [near, new_value() if rng.random() < 0.95 else near]
            return f, key, value
        if model == "multi-register":
            micro = [
                rng.choice([["r", rng.choice("xyz"), None], ["w", rng.choice("xyz"), new_value()]])
                for _ in range(rng.randint(1, 3))
            ]
            return "txn", None, micro
        if model == "mutex":
            return rng.choice(["acquire", "release"]), key, None
        if model == "fifo-queue":
            f = (
                rng.choice(["enqueue", "enqueue", "dequeue"])
                if rng.random() < 0.5
                else rng.choice(["enqueue", "dequeue"])
            )
            return f, key, new_value() if f == "enqueue" else None
        if whole and unique:
            f = rng.choice(["add", "read"])
        else:
            f = rng.choice(["add", "remove", "contains", "read" if whole else "contains"])
        return f, key, None if f == "read" else (rng.randint(1, pool) if not (whole and unique) else new_value())

    while len(out) < count or open_ops:
        now += rng.choice([0, 1, 1, 1])
        choice = rng.random()
        waiting = [entry for entry in open_ops if not entry["applied"]]
        if len(out) < count and len(open_ops) < clients and choice < 0.5:
            f, key, value = question()
            op = {"f": f, "key": key, "value": value, "output": None, "call": now, "ret": None, "status": "info"}
            out.append(op)
            open_ops.append({"op": op, "applied": False})
        elif waiting and choice < 0.8:
            entry = rng.choice(waiting)
            op = entry["op"]
            entry["applied"] = True
            if rng.random() < unknown / 2:
                entry["result"] = ("info", None)
            else:
                entry["result"] = thing.do(op["f"], op["key"], op["value"])
        elif open_ops:
            entry = rng.choice(open_ops)
            open_ops.remove(entry)
            op = entry["op"]
            if not entry["applied"]:
                entry["result"] = (
                    (rng.choice(["info", "fail"]), None)
                    if rng.random() < 0.5
                    else thing.do(op["f"], op["key"], op["value"])
                )
            status, output = entry["result"]
            if rng.random() < unknown:
                status, output = "info", None
            op["status"], op["output"] = status, output
            if status != "info" or rng.random() < 0.5:
                op["ret"] = now
            if model == "set" and op["f"] in ("add", "remove") and not told:
                op["output"] = None
            if op["f"] == "cas" and status == "fail" and not entry["applied"]:
                op["status"] = "info"
    for _ in range(lies):
        lie(model, rng, rng.choice(out), out, some_value)
    return out


def lie(model, rng, op, out, some_value):
    """Change one answer, or one time."""
    if op["status"] == "info":
        return
    alike = [o for o in out if o["f"] == op["f"] and o["key"] == op["key"] and o["status"] == op["status"] == "ok"]
    if len(alike) > 1 and op["f"] in ("read", "dequeue", "contains") and rng.random() < 0.5:
        other = rng.choice(alike)
        op["output"], other["output"] = other["output"], op["output"]
        return
    if rng.random() < 0.3 and op["ret"] is not None:
        shift = rng.randint(0, op["ret"] - op["call"])
        if rng.random() < 0.5:
            op["ret"] -= shift
        else:
            op["call"] += shift
        return
    if op["f"] == "read" and model != "set":
        op["output"] = some_value()
    elif op["f"] == "read":
        op["output"] = [e for e in op["output"] if rng.random() < 0.7] if op["output"] is not None else None
        if op["status"] == "fail":
            op["output"] = None
    elif op["f"] == "txn":
        if op["status"] == "ok":
            op["output"] = [[f, k, v if f == "w" or rng.random() < 0.5 else some_value()] for f, k, v in op["output"]]
    elif op["f"] == "dequeue":
        if op["status"] == "ok":
            seen = [o["value"] for o in out if o["f"] == "enqueue"]
            op["output"] = rng.choice([None, *seen])
    elif op["f"] in ("acquire", "release"):
        op["status"] = rng.choice(["ok", "fail"])
    elif (op["f"] == "contains" and op["status"] == "ok") or (
        op["f"] in ("add", "remove") and op["status"] == "ok" and op["output"] is not None
    ):
        op["output"] = not op["output"]
    elif op["f"] == "cas":
        op["status"] = rng.choice(["ok", "fail"])
