"""The ``ssh`` world: hosts are machines that their owners lend to a run."""
