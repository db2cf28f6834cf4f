"""This machine: what it can do, what killed runs left on it, and descriptions of systems."""
