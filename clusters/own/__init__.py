"""Systems that a TOML file describes: no Python of the user's own."""
