"""The guide for agents: one page with all they need to do the whole job."""

from importlib.resources import files

_HOME = files("kernelwright")


def guide() -> str:
    """Return the guide as Markdown.

    Example:
        >>> guide().splitlines()[0]
        '# Kernelwright: a guide for agents'
    """
    writing = _HOME.joinpath("propose", "agent", "writing.md").read_text(encoding="utf-8")
    return _HOME.joinpath("server", "guide.md").read_text(encoding="utf-8").replace("{writing}", writing)
