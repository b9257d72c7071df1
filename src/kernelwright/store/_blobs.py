"""Content-addressed storage: written once, atomically; short blobs in the database, long ones in files."""

import hashlib
import os
import tempfile
from pathlib import Path

from ..errors import NotFoundError, StoreError
from ._database import Database

_MOST_INSIDE = 100_000
"""Size in bytes up to which SQLite is faster than the file system.
Source: sqlite.org, "Internal Versus External BLOBs in SQLite"."""


class Blobs:
    """Immutable blobs, each named by the SHA-256 of its content.

    A blob stored in a transaction exists if the transaction was committed, so it is never partial.

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
        """Store the bytes, in the caller's transaction if there is one, and return their name."""
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
        """Return the bytes of that name; raises `NotFoundError` if there are none."""
        for row in self._database.read("SELECT data FROM blobs WHERE name = ?", (name,)):
            return bytes(row["data"])
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            raise NotFoundError(f"the store has no blob {name!r} in {self.folder.parent}") from None
        except OSError as error:
            raise StoreError(_sentence(self.folder, error)) from error

    def _path(self, name: str) -> Path:
        """Return the path of a long blob of that name, whether it exists or not."""
        return self.folder / name[:2] / name[2:]


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary file in the same folder, flush it to disk, and rename it into place.

    Raises:
        OSError: the disk is full or cannot be written; no temporary file is left.
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
