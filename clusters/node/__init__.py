"""A real process around a protocol core: its transport, its files, its status, its trace and its journal."""
