"""Where a cluster is: what `--cluster` takes."""

import re
from importlib.util import find_spec

from ..errors import InputError, MissingToolError

_ADDRESS = re.compile(r"(ray://)?(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}")


def check_address(address: str) -> str:
    """Return the address of a cluster.

    Raises:
        InputError: it cannot be one.
        MissingToolError: Ray is not installed.
    """
    if address != "auto" and not _ADDRESS.fullmatch(address):
        raise InputError(
            f"{address!r} is no address of a cluster; expected `auto` for the one that this machine is part of, "
            "HOST:PORT of its head, or ray://HOST:PORT"
        )
    if find_spec("ray") is None:
        raise MissingToolError(
            "--cluster needs Ray, which is not installed; install it with `pip install 'kernelwright[ray]'` here and "
            "on every node"
        )
    return address
