"""Many runs at once: the corpus they are kept in, and PySpark to ask it. Imported lazily; nothing below imports it."""
