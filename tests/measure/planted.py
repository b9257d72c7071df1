"""Simulated machines with a known truth: what a block would read on them."""

import math
import random
from collections.abc import Callable

from kernelwright.measure import decide, settled
from kernelwright.measure._decide import confirmed, refuted
from kernelwright.measure._noise import Noise
from kernelwright.measure._sequential import CONFIRM_BLOCKS, CONFIRM_LOOKS, LOOKS, is_look
from kernelwright.records import (
    Block,
    CheckStatus,
    Contract,
    Decision,
    Finding,
    Timing,
    Verdict,
)

Machine = Callable[[random.Random, int, str], float]
"""Gives the factor on a variant's time in the n-th visit."""
ACCEPTED = Verdict(candidate="c", findings=(Finding(check="correct", status=CheckStatus.PASS),))


def quiet(rng: random.Random, n: int, variant: str) -> float:
    return math.exp(rng.gauss(0, 0.01))


def realistic(rng: random.Random, n: int, variant: str) -> float:
    return math.exp(rng.gauss(0, 0.02)) * (1.5 if rng.random() < 0.03 else 1.0)


def drift(rng: random.Random, n: int, variant: str) -> float:
    return math.exp(rng.gauss(0, 0.02) + 0.01 * n + 0.1 * math.sin(n / 7))


def heavy(rng: random.Random, n: int, variant: str) -> float:
    return math.exp(rng.gauss(0, 0.015)) * (1 + 0.01 * min(50.0, rng.paretovariate(1.5) - 1))


def bimodal(rng: random.Random, n: int, variant: str) -> float:
    return math.exp(rng.gauss(0, 0.01)) * (1.15 if rng.random() < 0.3 else 1.0)


def neighbour(rng: random.Random, n: int, variant: str) -> float:
    busy = (n // 24) % 2 == 1
    return math.exp(rng.gauss(0, 0.02)) * ((1.0 + rng.random()) if busy and rng.random() < 0.5 else 1.0)


MACHINES: dict[str, Machine] = {f.__name__: f for f in (quiet, realistic, drift, heavy, bimodal, neighbour)}


def run(machine: Machine, speedup: float, seed: int, contract: Contract, workloads: int = 1) -> Decision:
    """Measure, stop as the bench stops, confirm and decide, on a simulated machine."""
    rng = random.Random(seed)
    clock = [rng.randrange(1000)]
    first = _blocks(rng, machine, speedup, clock, "measure", contract, workloads)
    timing = Timing(variants=(), blocks=tuple(first), cache="warm", device="simulated")
    again = _blocks(rng, machine, speedup, clock, "confirm", contract, workloads)
    confirmation = timing.model_copy(update={"blocks": tuple(again)})
    return decide(timing, ACCEPTED, (), contract, confirmation=confirmation)


def _blocks(rng, machine, speedup, clock, phase, contract, workloads):
    blocks: list[Block] = []
    noise = [Noise() for _ in range(workloads)]
    for number in range(1, (LOOKS[-1] if phase == "measure" else CONFIRM_BLOCKS) + 1):
        for w in range(workloads):
            while True:
                blocks.append(block(rng, machine, speedup, clock, f"w{w}", phase, noise[w]))
                if not blocks[-1].repeated:
                    break
        if phase == "measure" and is_look(number) and settled(blocks, contract):
            break
        at_look = phase == "confirm" and number in CONFIRM_LOOKS
        if at_look and any(over(blocks, {"w0", "w1"}, contract) for over in (confirmed, refuted)):
            break
    return blocks


def block(rng, machine, speedup, clock, workload, phase, noise) -> Block:
    order = rng.sample(["candidate", "eager", "compile"], 3)
    true = {"candidate": 1000.0 / speedup, "eager": 1000.0, "compile": 1000.0}
    times = {}
    for variant in order:
        clock[0] += 1
        times[variant] = true[variant] * machine(rng, clock[0], variant)
    return Block(
        workload=workload, order=tuple(order), calls=1, times_us=times, phase=phase,
        repeated=noise.disturbed(times),
    )  # fmt: skip
