"""Many runs of one system: seeds, rows in files, work over processes."""
