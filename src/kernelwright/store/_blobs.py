"""Content-addressed files: written once, whole or not at all."""

import hashlib
import os
import tempfile
from pathlib import Path

from ..errors import NotFoundError, StoreError


class Blobs:
    """A folder of immutable files, each named by the SHA-256 of its content.

    Example:
        >>> import tempfile
        >>> blobs = Blobs(Path(tempfile.mkdtemp()))
        >>> name = blobs.put(b"kernel")
        >>> blobs.get(name), blobs.put(b"kernel") == name
        (b'kernel', True)
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes) -> str:
        """Keep the bytes and return their name; a second time costs one look."""
        name = hashlib.sha256(data).hexdigest()
        path = self.path(name)
        if not path.exists():
            try:
                write_atomically(path, data)
            except OSError as error:
                raise StoreError(_sentence(self.folder, error)) from error
        return name

    def get(self, name: str) -> bytes:
        """Return the bytes of that name; raises `NotFoundError` where there are none."""
        try:
            return self.path(name).read_bytes()
        except FileNotFoundError:
            raise NotFoundError(f"the store has no blob {name!r} in {self.folder}") from None
        except OSError as error:
            raise StoreError(_sentence(self.folder, error)) from error

    def path(self, name: str) -> Path:
        """Return where a blob of that name lies or would lie."""
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
        "free some space, mend its permissions, or choose another with --store"
    )
