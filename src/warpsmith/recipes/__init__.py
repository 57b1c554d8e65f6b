"""Runs as Python functions, over the same pieces as the command line."""
