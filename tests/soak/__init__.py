"""A soak: random runs beside a busy machine, with harm done to the harness itself, for as long as there is time."""
