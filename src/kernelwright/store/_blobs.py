"""Content-addressed bytes: written once, whole or not at all; short ones in the database, long ones in files."""

import hashlib
import os
import tempfile
from pathlib import Path

from ..errors import NotFoundError, StoreError
from ._database import Database

_MOST_INSIDE = 100_000
"""Bytes up to which SQLite reads and writes faster than the file system.
Source: sqlite.org, "Internal Versus External BLOBs in SQLite"."""


class Blobs:
    """Immutable bytes, each named by the SHA-256 of its content.

    What is kept in a transaction is there if the transaction is, and so is never torn.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> database = Database(folder / "kernelwright.db")
        >>> blobs = Blobs(database, folder / "blobs")
        >>> name = blobs.put(b"kernel")
        >>> blobs.get(name), blobs.put(b"kernel") == name
        (b'kernel', True)
        >>> database.close()
    """

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self.folder = folder

    def put(self, data: bytes) -> str:
        """Keep the bytes, in the caller's transaction if there is one, and return their name."""
        name = hashlib.sha256(data).hexdigest()
        if len(data) <= _MOST_INSIDE:
            self._database.write("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (name, data))
        elif not (path := self._path(name)).exists():
            try:
                write_atomically(path, data)
            except OSError as error:
                raise StoreError(_sentence(self.folder, error)) from error
        return name

    def get(self, name: str) -> bytes:
        """Return the bytes of that name; raises `NotFoundError` where there are none."""
        for row in self._database.read("SELECT data FROM blobs WHERE name = ?", (name,)):
            return bytes(row["data"])
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            raise NotFoundError(f"the store has no blob {name!r} in {self.folder.parent}") from None
        except OSError as error:
            raise StoreError(_sentence(self.folder, error)) from error

    def _path(self, name: str) -> Path:
        """Return where a long blob of that name lies or would lie."""
        return self.folder / name[:2] / name[2:]


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary neighbour, flush it to the disk, and rename it into place.

    Raises:
        OSError: the disk is full or cannot be written; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _sentence(folder: Path, error: OSError) -> str:
    return (
        f"the store at {folder.parent} could not be read or written ({error.strerror or error}); "
        "free some space, fix its permissions, or choose another with --store"
    )
