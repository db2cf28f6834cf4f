"""A night of many systems out of one file: what is run, in which order, and which findings are new."""
