"""Kinds of faults, one module each: it declares everything about its kind, and no other place lists kinds by name.

A module has ``FAULT``, with the methods of ``dethrone.harness.core.interfaces.Fault`` and its declaration ``traits``
(``FaultTraits``); an entry point in ``dethrone.faults`` names it. What it declares, and what follows from which answer,
is in ``docs/new-fault.md``; a whole kind in one file of another distribution is ``tests/plugged/site/deafen.py``.

``processes``, ``downfall`` and ``afflicted`` are what several kinds share: faults of the node process, those that also
harm its disk, and those under which it runs on. Out of scope: which kinds a strategy prefers, and which ones a system
promises to bear.
"""
