"""The claim sheet: what is claimed, under which conditions, how to check it, what was not tested."""

from ..records import ALLOWED, Candidate, Contract, Decision, Record, Task

JUDGED = "judged.json"
"""Name of the file with what was judged."""


class Judged(Record):
    """What an exported kernel was judged as: enough to judge it again, on another machine or after an upgrade."""

    task: Task
    """The task."""
    candidates: tuple[Candidate, ...]
    """Those behind the guard."""


class Claim(Record):
    """What an exported kernel's owner may rely on."""

    task: str
    """The task's name."""
    task_key: str
    """The task's key."""
    run: str
    """The run that found it."""
    reproduce: str
    """The command that repeats the search and the decision."""
    decisions: tuple[Decision, ...]
    """One for each specialisation."""
    serves: dict[str, str] = {}
    """Which candidate serves each search workload, by names."""
    native: tuple[str, ...] = ()
    """Search workloads that stay with the native op, because no kernel was accepted on them."""
    sizes: tuple[str, ...] = ()
    """Ranges of sizes that the kernels serve besides those, with the evidence, and where the native op is kept."""
    contract: Contract
    """What the kernels were held to."""
    environment: dict[str, str]
    """Device, versions, isolation layers."""
    verified: tuple[str, ...]
    """Names of the workloads that passed, all splits."""
    not_tested: tuple[str, ...]
    """What nobody should conclude from this sheet."""

    @property
    def baselines(self) -> tuple[str, ...]:
        """The native forms that the kernels were timed against."""
        return tuple(dict.fromkeys(name for d in self.decisions for name in d.against))

    def to_markdown(self) -> str:
        """Render the sheet for people."""
        rows = [
            f"| {w.workload} | {d.candidate} | {w.baseline} | {w.baseline_us:.1f} | {w.time_us:.1f} | "
            f"{w.speedup} | "
            f"{f'{w.bound_us / w.time_us:.0%}' if w.bound_us else 'no bound'} |"
            for d in self.decisions
            for w in d.workloads
        ]
        c = self.contract
        return "\n".join(
            [
                f"# Claim: {self.task}",
                "",
                "| workload | specialisation | against | baseline µs | kernel µs | speedup (interval) | of the bound |",
                "|---|---|---|---|---|---|---|",
                *rows,
                "",
                *(f"{told}\n" for told in dict.fromkeys(map(_against, self.decisions)) if told),
                *(
                    [f"The native op runs on {', '.join(self.native)}: no kernel was accepted there.", ""]
                    if self.native
                    else []
                ),
                *(["## Sizes", *(f"- {line}" for line in self.sizes), ""] if self.sizes else []),
                f"Intervals are at {c.confidence:.0%}; a gain counts from {c.least_effect:.0%}. Errors are held "
                f"against float64: at most {c.error_factor:g} times the native op's own, or {c.error_floor:g} "
                f"epsilon of the output's scale, and never above {c.error_cap:g} of it"
                f"{f' (numerics {c.numerics}: {ALLOWED[c.numerics]})' if c.numerics else ''}.",
                "",
                *(
                    ["## Caveats", *(f"- {d.candidate}: {c}" for d in self.decisions for c in d.caveats), ""]
                    if any(d.caveats for d in self.decisions)
                    else []
                ),
                "## Conditions",
                *(f"- {name}: {value}" for name, value in sorted(self.environment.items())),
                f"- task `{self.task_key}`, run `{self.run}`",
                f"- verified on: {', '.join(self.verified)}",
                *(
                    f"- first answer of {d.candidate} in a fresh process, built before: {d.start_up}"
                    for d in self.decisions
                    if d.start_up
                ),
                "",
                "## Not tested",
                *(f"- {line}" for line in self.not_tested),
                "",
                "## Reproduce",
                f"```\n{self.reproduce}\n```",
                "",
            ]
        )


def _against(decision: Decision) -> str:
    """Name every baseline, the fastest first; empty where nothing was timed."""
    if not decision.against:
        return ""
    ratios = sorted(decision.against.items(), key=lambda item: item[1])
    told = ", ".join(f"{ratio:.2f} times as fast as {name}" for name, ratio in ratios)
    return f"{decision.candidate} against each baseline, in the median: {told}."
