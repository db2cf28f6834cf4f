"""Bully election, classic and with MongoDB's vote leases: no terms, and in the classic form no quorum."""
