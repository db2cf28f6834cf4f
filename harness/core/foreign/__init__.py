"""Histories that other tools recorded, as operations of clients.

One module a format; each reads pieces of a file as they come, keeps a bounded number of operations, and reports what is
wrong with the line where it is. Out of scope: opening files, and judging.
"""
