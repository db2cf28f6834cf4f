"""The ``attach`` backend: containers that somebody else started are broken, healed, judged and left running."""
