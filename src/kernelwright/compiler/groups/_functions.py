"""Helper functions that a language lacks: those that a text calls, callees first."""

import re
from collections.abc import Mapping

from ..printers import Unprintable


def needed(text: str, functions: Mapping[str, str], language: str) -> list[str]:
    """Return the definitions that a text needs, callees first; then an empty line.

    Args:
        text: The kernels; they call functions of ours as `kw_name`.
        functions: `kw_name` → its definition, which may call others.
        language: What to call the language in an error.

    Raises:
        Unprintable: there is none of a name.

    Example:
        >>> needed("kw_b(x)", {"kw_a": "f kw_a", "kw_b": "f kw_b: kw_a(x)"}, "C")
        ['f kw_a', 'f kw_b: kw_a(x)', '']
    """
    found: dict[str, str] = {}

    def need(within: str, by: str = "") -> None:
        for name in re.findall(r"\bkw_\w+", within):
            if name not in functions:
                raise Unprintable(f"{language} has no {name.removeprefix('kw_')}")
            if name not in found and name != by:
                need(functions[name], name)
                found[name] = functions[name]

    need(text)
    return [*found.values(), ""] if found else []
