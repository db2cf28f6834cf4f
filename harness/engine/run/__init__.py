"""One run in either world: options to plan, the director, its threads, the judge."""
