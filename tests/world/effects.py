"""What a list of effects says, in the words of a test."""

from __future__ import annotations

from dethrone.harness.core.machine import Halt, Note, Reply, Send, SetTimer


def sent(out, kind=object):
    """(to, body) of the sends."""
    return [(e.to, e.body) for e in out if isinstance(e, Send) and isinstance(e.body, kind)]


def bodies(out, kind=object):
    """The bodies sent, in order."""
    return [body for _, body in sent(out, kind)]


def answer(out, kind=object):
    """The one body sent."""
    (body,) = bodies(out, kind)
    return body


def replies(out):
    """The answers to clients."""
    return [e.body for e in out if isinstance(e, Reply)]


def answers(out):
    """Request → the answer to its client."""
    return {e.id: e.body for e in out if isinstance(e, Reply)}


def names(out):
    """The names of the notes."""
    return [e.name for e in out if isinstance(e, Note)]


def notes(out, name):
    """The data of the notes of that name."""
    return [e.data for e in out if isinstance(e, Note) and e.name == name]


def note(out, name):
    """The data of the one note of that name."""
    (data,) = notes(out, name)
    return data


def timers(out):
    """Timer → the moment it was last set to."""
    return {e.name: e.at for e in out if isinstance(e, SetTimer)}


def halted(out):
    """Why the node stopped."""
    return [e.reason for e in out if isinstance(e, Halt)]
