"""Search spaces recorded from this project's own kernels, for tests that need real times and no device."""

from importlib.resources import as_file, files

from ..errors import NotFoundError
from ..search.replay.simulation import RecordedSpace

_SPACES = files(__package__) / "spaces"


def recorded_space_names() -> tuple[str, ...]:
    """Name the recorded spaces that come with the package."""
    return tuple(
        sorted(p.name.removesuffix(".csv.gz") for p in _SPACES.iterdir() if p.name.endswith(".csv.gz"))
    )


def recorded_space(name: str) -> RecordedSpace:
    """Load a recorded space that comes with the package.

    Raises:
        NotFoundError: there is none of that name.
    """
    if name not in recorded_space_names():
        raise NotFoundError(
            f"no recorded space is called {name!r}; there are {', '.join(recorded_space_names())}"
        )
    with as_file(_SPACES / f"{name}.csv.gz") as path:
        return RecordedSpace.load(path)
