"""PySyncObj, a Raft library in pure Python with a journal, and the release of it that forgot its term.

Up to 0.3.14 term and vote lived in memory only; 0.3.17 stores them in the journal (``setCurrentTerm`` in
``pysyncobj/journal.py`` of that release). Each node is ``node.py``: replicated lists behind HTTP.
"""

from __future__ import annotations

from dethrone.clusters.gallery import packaged

SYSTEM = packaged(__name__, "pysyncobj")
OLDER = SYSTEM.beginning_with("0.3.14")
