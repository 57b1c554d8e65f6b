"""Whom isolated processes run as: for those who make sandboxes, and for who is in one. Loads no pydantic."""

UID = 65534
"""The user that isolated processes share, and the group of all of them."""

OWN_UIDS = range(2_000_000_000, 2_000_000_000 + (1 << 22))
"""As root, users of one isolated tree each: this range's start plus a process id (at most 2^22 on Linux)."""
