"""What raw blocks give away."""

from kernelwright.measure import gates
from kernelwright.measure._noise import Noise
from kernelwright.records import Block, Contract, Timing, Variant


def timing(candidate_us, fetch_us, cpu_us, n=12, fetch_cpu_us=100.0):
    return Timing(
        variants=(), cache="warm", device="d",
        blocks=tuple(
            Block(
                workload="w", order=("candidate", "eager"), calls=1,
                times_us={"candidate": candidate_us, "eager": 1000.0 + i},
                fetch_us={"candidate": fetch_us, "eager": 100.0},
                cpu_us={"candidate": cpu_us, "eager": 1000.0},
                fetch_cpu_us={"candidate": fetch_cpu_us, "eager": 100.0},
            )
            for i in range(n)
        ),
    )  # fmt: skip


def status(found, check):
    return next(f.status for f in found if f.check == check)


def test_honest_gain_passes():
    found = gates(timing(500.0, 100.0, 500.0), cores=2, contract=Contract())
    assert {f.status for f in found} == {"pass"}


def test_work_that_comes_back_at_the_fetch_fails():
    assert (
        status(gates(timing(100.0, 1000.0, 100.0), cores=2, contract=Contract()), "deferred-work") == "fail"
    )


def test_what_a_busy_machine_hides_from_the_wall_clock_shows_in_cpu_time():
    slow = timing(1000.0, 100.0, 100.0, fetch_cpu_us=1000.0)
    assert status(gates(slow, cores=2, contract=Contract()), "deferred-work") == "fail"
    cheap = timing(1000.0, 100.0, 100.0)
    assert status(gates(cheap, cores=2, contract=Contract()), "deferred-work") == "pass"


def test_more_cpu_than_cores_fails():
    assert (
        status(gates(timing(10_000.0, 100.0, 50_000.0), cores=2, contract=Contract()), "two-clocks") == "fail"
    )


def on_gpu(wall_us, device_us):
    blocks = timing(wall_us, 100.0, 100.0).blocks
    told = tuple(b.model_copy(update={"device_us": {"candidate": device_us}}) for b in blocks)
    return Timing(variants=(), cache="warm", device="d", blocks=told)


def test_a_gpu_s_clock_must_agree_with_the_judge_s():
    found = [
        status(gates(on_gpu(wall, device), cores=2, contract=Contract()), "two-clocks")
        for wall, device in ((500.0, 20.0), (9000.0, 8500.0), (9000.0, 4000.0), (900.0, 9000.0))
    ]
    assert found == ["pass", "pass", "fail", "fail"]


def test_what_a_busy_machine_adds_to_every_variant_is_no_sign():
    def told(eager_device_us, candidate_device_us):
        blocks = timing(9000.0, 100.0, 100.0).blocks
        device_us = {"eager": eager_device_us, "candidate": candidate_device_us}
        busy = tuple(
            b.model_copy(update={"times_us": {"eager": 9500.0, "candidate": 9000.0}, "device_us": device_us})
            for b in blocks
        )
        measured = Timing(variants=(), cache="warm", device="d", blocks=busy)
        return status(gates(measured, cores=2, contract=Contract()), "two-clocks")

    assert told(4500.0, 4000.0) == "pass"
    assert told(9400.0, 4000.0) == "fail"
    assert told(4500.0, 14000.0) == "fail"


def test_microsecond_kernels_raise_no_alarm_by_the_channel_s_own_cpu_time():
    found = gates(timing(5.0, 5.0, 40.0), cores=2, contract=Contract())
    assert status(found, "two-clocks") == "pass"


def test_cpu_time_that_cannot_be_read_is_unknown():
    assert status(gates(timing(5000.0, 100.0, 0.0), cores=2, contract=Contract()), "two-clocks") == "unknown"


def test_a_disturbed_block_is_repeated_whichever_variant_was_hit():
    for variant in ("candidate", "eager"):
        noise = Noise()
        usual = {"candidate": 100.0, "eager": 100.0}
        assert not any(noise.disturbed(usual) for _ in range(10))
        assert noise.disturbed({**usual, variant: 500.0})


def test_repeats_are_limited():
    noise = Noise()
    for _ in range(10):
        noise.disturbed({"candidate": 100.0})
    assert sum(noise.disturbed({"candidate": 500.0}) for _ in range(20)) <= 6


def test_a_first_answer_later_than_the_contract_allows_is_refused():
    late = Variant(
        name="candidate", content="", symbol="", worker=1, load_us=2e6, prepare_us=3e6, first_call_us=4e6
    )
    measured = timing(500.0, 100.0, 500.0).model_copy(update={"variants": (late,)})
    assert status(gates(measured, cores=2, contract=Contract(start_up_s=8.9)), "start-up") == "fail"
    assert status(gates(measured, cores=2, contract=Contract(start_up_s=9.1)), "start-up") == "pass"


def held(taken_us, left_us, n=12, taken_in=12, shared_us=0.0, usual_us=160.0):
    """Blocks of which the GPU was looked at, taken before the candidate's calls in the first so many."""
    blocks = timing(3000.0, 100.0, 100.0, n=n).blocks
    told = tuple(
        b.model_copy(
            update={
                "taken_us": {"candidate": taken_us * (i < taken_in), "eager": 0.0},
                "left_us": {"candidate": left_us, "eager": usual_us},
            }
        )
        for i, b in enumerate(blocks)
    )
    return Timing(variants=(), cache="warm", device="d", blocks=told, shared_us=shared_us)


def of_gpu(measured):
    return next(f for f in gates(measured, cores=2, contract=Contract()) if f.check == "gpu-held")


def test_nothing_is_said_of_a_gpu_that_was_not_held():
    assert "gpu-held" not in {f.check for f in gates(on_gpu(900.0, 800.0), cores=2, contract=Contract())}


def test_a_gpu_that_was_the_judges_passes():
    assert of_gpu(held(0.0, 170.0)).status == "pass"


def test_work_before_the_clock_started_fails_where_it_comes_again_and_again():
    found = of_gpu(held(600.0, 160.0))
    assert (found.status, found.message) == (
        "fail",
        "something had the GPU for 600 us before the clock started",
    )
    assert of_gpu(held(600.0, 160.0, taken_in=4)).status == "fail"
    assert of_gpu(held(600.0, 160.0, taken_in=3)).status == "pass"


def test_work_during_another_s_visit_counts_too():
    measured = held(0.0, 160.0)
    others = tuple(
        b.model_copy(update={"taken_us": {"candidate": 0.0, "eager": 900.0}}) for b in measured.blocks
    )
    assert of_gpu(measured.model_copy(update={"blocks": others})).status == "fail"


def test_work_after_the_reply_fails():
    found = of_gpu(held(0.0, 460.0))
    assert (found.status, found.message) == ("fail", "the GPU was at work for 300 us after the reply")
    assert of_gpu(held(0.0, 460.0, usual_us=400.0)).status == "pass"


def test_a_gpu_that_others_use_decides_nothing():
    assert of_gpu(held(600.0, 160.0, shared_us=900.0)).status == "unknown"
    assert of_gpu(held(0.0, 160.0, shared_us=900.0)).status == "pass"


def test_where_others_have_the_gpu_open_what_speaks_against_a_candidate_decides_nothing():
    found = of_gpu(held(600.0, 160.0).model_copy(update={"others": 3}))
    assert found.status == "unknown"
    assert found.message.endswith("; 3 other processes have it open, which may have done that")
    assert of_gpu(held(0.0, 160.0).model_copy(update={"others": 3})).status == "pass"
    for others, said in ((0, "fail"), (1, "unknown")):
        measured = on_gpu(9000.0, 4000.0).model_copy(update={"others": others})
        assert status(gates(measured, cores=2, contract=Contract()), "two-clocks") == said


def test_outputs_that_the_judge_could_read_of_all_but_the_candidate_are_no_reason_to_trust_it():
    def measured(unread):
        blocks = timing(500.0, 100.0, 500.0).blocks
        fetched = ({"candidate": 100.0} if i < unread else {} for i in range(len(blocks)))
        told = tuple(b.model_copy(update={"fetch_us": f}) for b, f in zip(blocks, fetched, strict=True))
        return Timing(variants=(), cache="warm", device="d", blocks=told)

    assert status(gates(measured(3), cores=2, contract=Contract()), "deferred-work") == "pass"
    assert status(gates(measured(4), cores=2, contract=Contract()), "deferred-work") == "unknown"
