"""Parts of the acceptance that are too long for one file."""
