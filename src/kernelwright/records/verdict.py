"""Verdict: is the candidate correct and honest? One finding per check."""

from enum import StrEnum

from ._record import Record


class CheckStatus(StrEnum):
    """Outcome of a check. `unknown`: it could not run; an unknown candidate never ships."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Finding(Record):
    """What one check found."""

    check: str
    """Name of the check: `correct`, `inputs-unchanged`, `deferred-work` ..."""
    status: CheckStatus
    """Its outcome."""
    message: str = ""
    """One sentence for people; reveals little about hidden workloads."""
    workload: str = ""
    """Name of the workload it ran on; empty if it belongs to none."""
    figures: dict[str, float] = {}
    """The figures behind it: `error`, `allowed` ..."""


class VerdictStatus(StrEnum):
    """The verdict."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class Verdict(Record):
    """All findings on one candidate and the result that follows from them."""

    candidate: str
    """The candidate's key."""
    findings: tuple[Finding, ...]
    """In the order the checks ran."""
    unsupported: tuple[str, ...] = ()
    """Workloads that it declares it does not serve; the guard sends them to the native op."""
    failure: str = ""
    """Kind of the first failure, for counting: the check's name; empty if none failed."""
    seeds: tuple[int, ...] = ()
    """The secret seeds drawn, for replay."""

    @property
    def status(self) -> VerdictStatus:
        """Rejected if any finding failed, unknown if any could not run or none ran, else accepted."""
        statuses = {f.status for f in self.findings}
        if CheckStatus.FAIL in statuses:
            return VerdictStatus.REJECTED
        if CheckStatus.UNKNOWN in statuses or not statuses:
            return VerdictStatus.UNKNOWN
        return VerdictStatus.ACCEPTED

    @property
    def in_float32(self) -> bool:
        """Whether errors were held against the reference in float32, for want of a float64 form."""
        return any("in_float32" in f.figures for f in self.findings)
