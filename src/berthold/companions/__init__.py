"""The companions: identity, image, block storage and network, embedded.

Each implements a protocol of `berthold.neighbours` on tables of its own and, for bytes, a
directory, and speaks its service's HTTP (`app.companions_app`). `build` makes the four,
`embedded` gives them as moves see them, `bootstrap` makes what a new cloud needs before
anybody can use it. Processes that share a database share the directory too.
"""

from berthold.companions.embedded import TOKEN_KEY_BYTES, Companions, bootstrap, build, embedded

__all__ = ["TOKEN_KEY_BYTES", "Companions", "bootstrap", "build", "embedded"]
