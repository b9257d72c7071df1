"""The state that the stages of a run share."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ...cluster import Cluster
from ...config import Settings
from ...devices import Device
from ...errors import InputError
from ...records import Budget, Run
from ...store import DeviceLock, Store
from ...system.deadline import deadline
from ._budget import Meter
from ._ending import ended_in_words
from ._events import Log, OnEvent
from ._metadata import opening
from ._quiet import Quiet


def check_resumable(run: Run) -> None:
    """Raise an `InputError` where a run searched nothing that could go on."""
    if "judged" in run.options:
        raise InputError(f"run {run.id} judged candidates that were given; judge them again instead")
    if "words" in run.options:
        raise InputError(f"run {run.id} wrote a task from words and searched nothing; optimize that task")


@dataclass(frozen=True)
class Search:
    """A run in progress: its store, its device and budget, what it has spent."""

    run: Run
    """The run, new or resumed."""
    store: Store
    """Where it is stored."""
    device: Device
    """The device that is timed."""
    meter: Meter
    """Counts what it has spent."""
    emit: Log
    """Where it reports events."""
    lock: DeviceLock
    """Held while something is timed."""
    cluster: Cluster | None = None
    """What evaluates, if not this process."""
    finish: bool = False
    """Whether nobody is asked any more: the best so far is accepted, whatever of the run's time is left."""
    quiet: Quiet = field(default_factory=Quiet)
    """Keeps builds from running while something is timed."""

    @classmethod
    def of(
        cls, store: Store, run: Run, device: Device, on_event: OnEvent | None, passed_s: float = 0.0,
        *, cluster: Cluster | None = None, finish: bool = False,
    ) -> "Search":  # fmt: skip
        """Take up a run where it stands; `passed_s` seconds of its time went before."""
        spent = store.spent(run.id)
        meter = Meter(
            Budget() if finish else run.budget, replace(spent, elapsed_s=spent.elapsed_s + passed_s)
        )
        lock = DeviceLock(Settings.from_environment().cache / "locks", device.fingerprint)
        return cls(run, store, device, meter, Log(store, run.id, meter, on_event), lock, cluster, finish)

    def names(self, option: str) -> tuple[str, ...]:
        """Return one of the run's options that is a list of names."""
        chosen = self.run.options.get(option, ())
        return tuple(str(name) for name in chosen) if isinstance(chosen, tuple) else ()

    @contextmanager
    def timing(self) -> Iterator[None]:
        """Hold the device's lock, with an event if another run holds it first, and builds of this one back.

        On a cluster its evaluators do.

        Raises:
            BusyError: another run holds it until this one's time is up.
        """
        if self.cluster is not None:
            yield
            return
        with (
            self.lock.hold(lambda message: self.emit("wait", message=message), left_s=self.meter.left_s),
            self.quiet.timing(),
        ):
            yield

    @contextmanager
    def in_time(self, what: str, *, grace_s: float = 0.0) -> Iterator[None]:
        """Stop the work inside when the run's time is up, whatever it is.

        Raises:
            TimeoutError: time was up; the message names what was cut off.
        """
        try:
            with deadline(max(self.meter.left_s(), 0.0) + grace_s):
                yield
        except TimeoutError:
            raise TimeoutError(
                f"time was up {what}; where one call of the reference takes long, make its sizes smaller "
                "(--max-elements N), else allow more --minutes"
            ) from None

    @contextmanager
    def supervised(self) -> Iterator[None]:
        """Hold the run's lock, and record how it ended if it does not end normally.

        Raises:
            InputError: the run belongs to a device other than this one.
        """
        run, device = self.run, self.device
        if device.fingerprint != run.device:
            raise InputError(
                f"run {run.id} is of device {run.device}, and {device.torch_device} here is {device.fingerprint}; "
                "its times mean nothing here: start a new run with `kernelwright optimize`"
            )
        with ended_in_words(self.store, run):
            self.emit("run", **opening(self.store.task(run.task), run, device))
            yield
