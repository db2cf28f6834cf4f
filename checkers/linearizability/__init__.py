"""Whether what clients saw can have happened one operation after another.

``decide`` is the door: columns of operations and a model in, an ``Answer`` out. Engines: ``zones`` (registers whose
values were written once: O(n log n)), ``queues`` and ``grow_sets`` (O(n log n) where values are unique), ``search``
(any model, bounded in time and memory). ``minimal`` makes the proof small. Out of scope: files, histories of runs and
reports.
"""
