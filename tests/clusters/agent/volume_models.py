"""What a directory holds now and after a loss of power: two models that copy everything. Each draws its own steps."""

from __future__ import annotations

NAMES = (b"a", b"b", b"c", b"d/a", b"d/b")
SIZE_MAX = 40
DEPTH_MAX = 3


class ModelFile:
    """What a file holds, and what of it is durable."""

    def __init__(self):
        self.data, self.durable, self.emptied = b"", b"", False

    def write(self, at, data):
        old = self.data.ljust(at, b"\0")
        self.data = old[:at] + data + old[at + len(data) :]


def what_is_written(rng):
    return rng.below(SIZE_MAX), bytes([65 + rng.below(26)]) * rng.between(1, 12)


def new_length(rng):
    return rng.choice((0, rng.below(SIZE_MAX)))


class JournalModel:
    """Names and files. Changes of names, lengths and replaced contents are listed until any sync carries all of them
    out on the durable side, in their order."""

    STEPS = 25
    VERBS = ("write", "write", "write", "cut", "sync", "sync", "rename", "link", "unlink", "lose_power")

    def __init__(self):
        self.names, self.durable = {}, {}
        self.listed = []

    def image(self):
        """Name → content, of directories None."""
        return {b"d": None, **{name: file.data for name, file in self.names.items()}}

    def step(self, rng):
        """A step that can be done, or None."""
        verb, name, other = rng.choice(self.VERBS), rng.choice(NAMES), rng.choice(NAMES)
        if verb == "lose_power":
            return (verb,)
        if verb == "write":
            return verb, name, *what_is_written(rng)
        if not self.names:
            return None
        name = rng.choice(sorted(self.names))
        if verb == "cut":
            return verb, name, new_length(rng)
        if verb == "link":
            return None if other in self.names else (verb, name, other)
        if verb == "rename":
            return None if self.names.get(other) is self.names[name] else (verb, name, other)
        return verb, name

    def write(self, name, at, data):
        if name not in self.names:
            self.names[name] = ModelFile()
            self.listed.append(("name", name, self.names[name]))
        self.names[name].write(at, data)

    def cut(self, name, length):
        file = self.names[name]
        if length != len(file.data):
            self.listed.append(("cut", file, length))
        if length == 0 and file.data:
            file.emptied = True
        file.data = file.data[:length].ljust(length, b"\0")
        self.close(file)

    def close(self, file):
        if file.emptied:
            self.listed.append(("flush", file, None))
            file.emptied = False

    def sync(self, name):
        file = self.names[name]
        for what, one, value in self.listed:
            if what == "name":
                self.durable[one] = value
            elif what == "gone":
                del self.durable[one]
            elif what == "cut":
                one.durable = one.durable[:value].ljust(value, b"\0")
        for what, one, _ in self.listed:
            if what == "flush":
                one.durable = one.data
        self.listed.clear()
        file.durable = file.data

    def rename(self, old, new):
        file = self.names.pop(old)
        if new in self.names:
            self.listed.append(("flush", file, None))
        self.names[new] = file
        self.listed += [("name", new, file), ("gone", old, None)]

    def link(self, old, new):
        self.names[new] = self.names[old]
        self.listed.append(("name", new, self.names[old]))

    def unlink(self, name):
        del self.names[name]
        self.listed.append(("gone", name, None))

    def lose_power(self):
        self.names = dict(self.durable)
        self.listed.clear()
        for file in self.names.values():
            file.data, file.emptied = file.durable, False


class ModelDirectory:
    """What a directory holds, and what of that is durable. ``fresh``: it was never durable itself."""

    def __init__(self):
        self.now, self.durable, self.fresh = {}, {}, True


class PosixModel:
    """A tree of files and directories. Each has what it holds now and what is durable of that; a sync copies the one
    over the other, in that file or directory alone, but for directories that have moved."""

    STEPS = 50
    VERBS = (
        *("write", "write", "write", "cut", "sync", "sync", "rename", "rename", "link", "unlink", "unlink"),
        *("make", "make", "sync_names", "sync_names", "sync_names", "lose_power"),
    )

    def __init__(self):
        self.root, self.directories = ModelDirectory(), []
        self.root.durable = {b"d": ModelDirectory()}
        self.lose_power()

    def walk(self):
        """Path → file or directory, of all that is there now."""
        found, left = {}, [(b"", self.root)]
        while left:
            path, directory = left.pop()
            for name, one in directory.now.items():
                found[path + name] = one
                if isinstance(one, ModelDirectory):
                    left.append((path + name + b"/", one))
        return found

    def image(self):
        """Path → content, of directories None."""
        return {path: getattr(one, "data", None) for path, one in self.walk().items()}

    def at(self, path):
        return self.walk()[path] if path else self.root

    def inside(self, path):
        """What its directory holds now, and its name there."""
        place, _, name = path.rpartition(b"/")
        return self.at(place).now, name

    def step(self, rng):
        """A step that can be done, or None."""
        there = self.walk()
        folders = sorted(path for path, one in there.items() if isinstance(one, ModelDirectory))
        files = sorted(set(there) - set(folders))
        verb, place = rng.choice(self.VERBS), rng.choice((b"", *folders))
        new = place + b"/" * bool(place) + rng.choice((b"a", b"b", b"d"))
        if verb == "lose_power":
            return (verb,)
        if verb == "sync_names":
            return verb, place
        if verb == "write":
            return None if new in folders else (verb, new, *what_is_written(rng))
        if verb == "make":
            return None if new in there or new.count(b"/") >= DEPTH_MAX else (verb, new)
        old = rng.choice(files or [b""]) if verb in {"cut", "sync", "link"} else rng.choice(sorted(there) or [b""])
        if not old or (verb == "unlink" and getattr(there[old], "now", None)):
            return None
        if verb == "cut":
            return verb, old, new_length(rng)
        if verb == "link":
            return None if new in there else (verb, old, new)
        if verb == "rename":
            return (verb, old, new) if self.can_rename(there, old, new) else None
        return verb, old

    @staticmethod
    def can_rename(there, old, new):
        """Whether the rename is possible, and does something."""
        one, other = there[old], there.get(new)
        if one is other or new.startswith(old + b"/"):
            return False
        return other is None or (type(one) is type(other) and not getattr(other, "now", None))

    def write(self, path, at, data):
        directory, name = self.inside(path)
        directory.setdefault(name, ModelFile()).write(at, data)

    def cut(self, path, length):
        file = self.at(path)
        file.data = file.data[:length].ljust(length, b"\0")

    def sync(self, path):
        file = self.at(path)
        file.durable = file.data

    def make(self, path):
        directory, name = self.inside(path)
        directory[name] = ModelDirectory()
        self.directories.append(directory[name])

    def rename(self, old, new):
        directory, name = self.inside(old)
        other, other_name = self.inside(new)
        other[other_name] = directory.pop(name)

    def link(self, old, new):
        directory, name = self.inside(new)
        directory[name] = self.at(old)

    def unlink(self, path):
        directory, name = self.inside(path)
        del directory[name]

    def sync_names(self, path):
        directory, moved = self.at(path), False
        for name in {*directory.now, *directory.durable}:
            ends = (directory.now.get(name), directory.durable.get(name))
            moved |= ends[0] is not ends[1] and any(isinstance(end, ModelDirectory) and not end.fresh for end in ends)
        directory.durable = dict(directory.now)
        for one in self.directories if moved else ():
            files = {name: file for name, file in one.durable.items() if isinstance(file, ModelFile)}
            one.durable = files | {name: inner for name, inner in one.now.items() if isinstance(inner, ModelDirectory)}
        for one in self.directories:
            for inner in one.durable.values():
                inner.fresh = False

    def lose_power(self):
        self.directories, left = [], [self.root]
        while left:
            directory = left.pop()
            assert directory not in self.directories, "a directory in two places"
            self.directories.append(directory)
            directory.now, directory.fresh = dict(directory.durable), False
            for one in directory.now.values():
                if isinstance(one, ModelDirectory):
                    left.append(one)
                else:
                    one.data = one.durable
