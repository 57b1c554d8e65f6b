"""The kernel keeps keys for each user beside all namespaces: what one judgement puts there, a later one finds."""

import ctypes
import os

from warpsmith.types.users import OWN_UIDS, UID

_KEYCTL = 250
"""The system call's number on x86-64."""
_JOIN_SESSION_KEYRING, _CLEAR = 1, 7
_USER_KEYRING, _USER_SESSION_KEYRING = -4, -5


def forget() -> None:
    """Leave the session's keyring and empty those of the user that isolated processes run as; any other's are kept.

    Where the kernel refuses (containers often do), it refuses a submission as well.
    """
    if os.getuid() != UID and os.getuid() not in OWN_UIDS:
        return
    call = ctypes.CDLL(None).syscall
    call(_KEYCTL, _JOIN_SESSION_KEYRING, None)
    for keyring in (_USER_KEYRING, _USER_SESSION_KEYRING):
        call(_KEYCTL, _CLEAR, keyring)
