"""Berthold: a compute control plane whose server-group policies hold at every instant."""

__version__ = "0.1.0"
