"""Histories that other tools recorded, as operations of clients.

One module a format; each reads pieces of a file as they come, keeps a bounded number of operations, and tells what is
wrong with the line where it is. Leaves out opening files, and judging.
"""
