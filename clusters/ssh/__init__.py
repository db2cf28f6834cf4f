"""The ``ssh`` world: hosts are machines that somebody lends to a run."""
