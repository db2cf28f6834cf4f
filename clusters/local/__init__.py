"""The ``local`` backend: hosts out of namespaces on this machine, no daemon and no image."""
