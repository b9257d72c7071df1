"""How a kernel is written and what the judge refuses: the page that every agent reads."""

from importlib.resources import files


def writing() -> str:
    """Return the page as Markdown."""
    return files(__package__).joinpath("writing.md").read_text(encoding="utf-8")
