"""A run's choices, such as languages, baselines and proposers, checked before anything is spent."""

import json
from collections.abc import Sequence

from ...cluster import Cluster, Job, Workplace
from ...devices import Device, detect
from ...errors import InputError, MissingToolError
from ...languages import get_language, language_names
from ...llm import Options, check_models
from ...propose.agent import check_agent
from ...records import Space, Task
from ...tasks import Problem, keeps_weights
from ..editing._editing import check_strategy
from ..evaluation.acceptance import BASELINES
from ..evaluation.remote import measure_on
from ..proposals._proposals import make_proposers
from ..tuners import make_tuner

_COMPILED = frozenset({"cpp", "cuda", "triton"})
_STAND_INS = frozenset({"opencl", "wgsl"})
"""Languages used by default only if no compiled language is available."""


def device_of(name: str | None, cluster: Cluster | None) -> Device:
    """Return the device of that name here, or that of a cluster's first evaluator, which has measured it by then.

    So a run on a cluster begins with a warm evaluator, however long that took to come.
    """
    if cluster is None:
        return detect(name)
    device = cluster.wait()[0].device
    measure_on(cluster, device)
    return device


def usable_languages(asked: Sequence[str], device: Device, cluster: Cluster | None = None) -> tuple[str, ...]:
    """Return the languages to use: those requested, else all that are available and can be timed on the device.

    OpenCL and WGSL are used if nothing else compiles: on the same device they are not faster than the others.

    Raises:
        NotFoundError: no language of that name.
        MissingToolError: a requested language lacks its tools; the message explains how to install them.
    """
    if cluster is not None:
        job = Job(f"languages {asked}", f"{__name__}:languages_here", json.dumps(asked), device.fingerprint)
        return tuple(json.loads(cluster.submit(job).result()))
    for name in asked:
        found = get_language(name).available()
        if not found.ok:
            raise MissingToolError(f"language {name!r} cannot be used: {found.what}; {found.remedy}")
    if asked:
        return tuple(asked)
    here = [name for name in language_names() if name not in _STAND_INS and _fits(name, device)]
    if not _COMPILED.intersection(here):
        here += [name for name in language_names() if name in _STAND_INS and _fits(name, device)]
    return tuple(sorted(here))


def languages_here(text: str, here: Workplace) -> str:
    """On a node: return the languages to use there."""
    return json.dumps(usable_languages(json.loads(text), here.place.device))


def _fits(name: str, device: Device) -> bool:
    language = get_language(name)
    return language.available().ok and language.timeable(device.kind)


def check_choices(
    task: Task,
    baselines: Sequence[str],
    proposers: Sequence[str] = (),
    tuner: str = "",
    strategy: str = "",
    editors: Sequence[str] = (),
    *,
    more: Options | None = None,
    usd: float | None = None,
) -> tuple[str, ...]:
    """Check names before anything is spent.

    Returns:
        The baselines that a kernel must beat: those named, else eager, torch.compile and the existing
        kernel where there is one.

    Raises:
        NotFoundError: no proposer, tuner, strategy or editor of that name.
        InputError: no baseline of that name, or none that uses updated weights; a strategy without an editor; a model
            whose name, price or cap is missing.
        MissingToolError: a model's SDK or key, or an agent's program, is missing.
    """
    make_proposers(proposers)
    check_models(more or {}, usd)
    if "agent" in {*proposers, *editors}:
        check_agent(more or {}, usd)
    check_strategy(strategy, editors, more or {})
    if tuner:
        make_tuner(tuner, Space(), 0)
    beaten = tuple(baselines) or ((*BASELINES, "start") if task.start else BASELINES)
    for baseline in beaten:
        Problem(task).baseline(baseline, task.workloads[0])
    if all(map(keeps_weights, beaten)):
        raise InputError(
            f"baseline {beaten[0]!r} keeps the weights that it is given first, so that answers in timed calls "
            "cannot be compared with its own; name another one as well, such as 'eager'"
        )
    return beaten
