"""The harness tested by planted bugs, and the matrix of what holds where."""
