"""Hosts in Docker containers: the engine, the image, and the backend that deploys and destroys them."""
