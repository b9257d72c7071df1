"""Of functions with many variants, some run each time: one at least for each value of each parameter."""

from pathlib import Path
from zlib import crc32

import pytest

MANY = 20
"""Variants from which on a function's are thinned out."""
ONE_IN = 4
"""Of variants whose values others have too, about as many run each time; the others are `long`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark the others, before pytest looks for marks; none where kernels are built with sanitisers."""
    if config.pluginmanager.has_plugin("tests.ops.sanitised"):
        return
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if hasattr(item, "callspec") and item.path.is_relative_to(Path(__file__).parent):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for variants in functions.values():
        if len(variants) > MANY:
            thin_out([item for item in variants if not item.get_closest_marker("long")])


def thin_out(variants):
    """Mark as `long` those that are not drawn by their names and whose every value was there before."""
    seen: set[tuple[str, int]] = set()
    for item in variants:
        values = {(name, id(value)) for name, value in item.callspec.params.items()}
        if values <= seen and crc32(item.nodeid.encode()) % ONE_IN:
            item.add_marker(pytest.mark.long)
        seen |= values
