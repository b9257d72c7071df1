"""`kernelwright suites`: the benchmarks that are known, and which of them are here."""

from pathlib import Path

from ._common import Common, print_json, table


def suites(*, data: Path | None = None, common: Common | None = None) -> int:
    """List the benchmarks that are known, whether a checkout is here, and the command that gets one.

    A checkout is looked for in the folder that KERNELWRIGHT_SUITES names, under the repository's name.

    Args:
        data: A checkout; the benchmark that it fits is listed as here.
        common: Flags of every command.
    """
    from ..suites import find_checkout, fits, get_suite, how_to_get, suite_names

    common = common or Common()
    rows = []
    for name in suite_names():
        suite = get_suite(name)
        found = data if data is not None and fits(suite, data) else find_checkout(suite)
        count = len(suite.problems(found)) if found else None
        rows.append({
            "suite": name, "here": str(found or ""), "problems": "" if count is None else str(count),
            "read at": suite.commit[:7] or "our own", "get": how_to_get(suite),
        })  # fmt: skip
        if common.json:
            print_json(
                "suite", suite=name, title=suite.title, here=str(found) if found else None, problems=count,
                repository=suite.repository, commit=suite.commit, get=how_to_get(suite),
            )  # fmt: skip
    if common.json:
        print_json("result", suites=len(rows))
    else:
        table(rows, empty="no installed package registers a benchmark")
    return 0
