"""The ``attach`` backend: containers that another user started are broken, healed, judged and left running."""
