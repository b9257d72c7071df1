"""Where a benchmark's data is: a checkout of the user's, never downloaded; a suite of our own is written here."""

from pathlib import Path

from ..config import Settings
from ..errors import InputError, MissingToolError
from ..registry import Registry
from ._protocol import Suite
from .own import Written, written

_SUITES = Registry("suites", "benchmark")


def suite_names() -> tuple[str, ...]:
    """Return the names of all known benchmarks."""
    return _SUITES.names()


def get_suite(name: str) -> Suite:
    """Return the benchmark of that name.

    Raises:
        NotFoundError: no installed package registers the name.
        InputError: the registered object is no `Suite`.

    Example:
        >>> get_suite("kernelbench").repository
        'ScalingIntelligence/KernelBench'
    """
    suite = _SUITES.load(name)()
    if not isinstance(suite, Suite):
        raise InputError(
            f"the entry point of benchmark {name!r} makes a {type(suite).__name__!r}, which lacks a part of `Suite`"
        )
    return suite


def how_to_get(suite: Suite) -> str:
    """Return the command that gets the benchmark's data.

    Example:
        >>> how_to_get(get_suite("kernelbench"))
        'git clone https://github.com/ScalingIntelligence/KernelBench'
    """
    if not suite.repository:
        return f"kernelwright suite write {suite.name} DIR --seed N"
    return f"git clone https://github.com/{suite.repository}"


def fits(suite: Suite, folder: Path) -> bool:
    """Tell whether a folder has a checkout's layout."""
    return all((folder / part).exists() for part in suite.layout)


def find_checkout(suite: Suite, data: Path | None = None) -> Path | None:
    """Return the checkout: `data`, else the folder of the repository's name in KERNELWRIGHT_SUITES; None if neither.

    Raises:
        InputError: `data` is no checkout of the benchmark.
    """
    if data is not None:
        if not fits(suite, data):
            lacking = ", ".join(part for part in suite.layout if not (data / part).exists())
            raise InputError(
                f"{str(data)!r} is no checkout of {suite.name}: it lacks {lacking}; get one with `{how_to_get(suite)}`"
            )
        return data
    if isinstance(suite, Written):
        return written(suite, Settings.from_environment().cache / "suites")
    home = Settings.from_environment().suites
    found = home / suite.repository.partition("/")[2] if home else None
    return found if found is not None and fits(suite, found) else None


def checkout_of(suite: Suite, data: Path | None = None) -> Path:
    """Return the checkout.

    Raises:
        InputError: `data` is no checkout of the benchmark.
        MissingToolError: there is none; the message has the command that gets it.
    """
    found = find_checkout(suite, data)
    if found is None:
        raise MissingToolError(
            f"there is no checkout of {suite.name} here; get one with `{how_to_get(suite)}` and pass its folder with "
            "--data, or set KERNELWRIGHT_SUITES to the folder that holds your checkouts"
        )
    return found


def commit_of(folder: Path) -> str:
    """Return the commit that a checkout is at; empty where the folder is not a clone of its own.

    Example:
        >>> commit_of(Path("nosuch"))
        ''
    """
    git = folder / ".git"
    try:
        head = (git / "HEAD").read_text().strip()
        if not (ref := head.removeprefix("ref: ")).startswith("refs/"):
            return head
        if (git / ref).is_file():
            return (git / ref).read_text().strip()
        packed = (line.partition(" ") for line in (git / "packed-refs").read_text().splitlines())
        return next((commit for commit, _, name in packed if name == ref), "")
    except (OSError, UnicodeDecodeError):
        return ""
