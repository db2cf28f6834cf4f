"""The smallest dose of a fault that breaks a property: search, trials, rows."""
