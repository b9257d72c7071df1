"""Retries, rate limits, deadlines and the ledger around a provider; time is planted."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from kernelwright.errors import InputError, ModelError, SpentError
from kernelwright.llm import (
    FREE,
    CallFailed,
    Completion,
    FailureKind,
    FlatPrice,
    Ledger,
    Limits,
    Message,
    Model,
    Models,
    Rate,
    Retry,
    Usage,
    check_models,
)
from kernelwright.records import Budget
from kernelwright.store import Store
from kernelwright.testing import Refuses, ScriptedModel, planted_task

HELLO = [Message("user", "Hello?")]
USAGE = Usage(input_tokens=10, output_tokens=5)


class Scripted:
    """A provider that gives out what it was given: failures and texts."""

    name = "scripted"

    def __init__(self, *turns, price=FREE, clock=None):
        self.turns, self.price, self.clock = list(turns), price, clock
        self.asked, self.times = [], []

    def at(self):
        return pytest.approx(self.times)

    def complete(self, messages, schema, limits):
        self.times.append(self.clock())
        self.asked.append((messages, schema, limits))
        turn = self.turns.pop(0)
        if isinstance(turn, CallFailed):
            raise turn
        return Completion(text=turn, usage=USAGE, cost_usd=self.price.cost_usd(USAGE))


class Time:
    """A clock that moves only when somebody sleeps."""

    def __init__(self):
        self.now_s = 0.0

    def clock(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def make(ledger, time):
    def make(*turns, rate=None, price=FREE):
        provider = Scripted(*turns, price=price, clock=time.clock)
        return provider, Model(
            provider, ledger, rate=rate, clock=time.clock, sleep=time.sleep, draw=lambda: 1.0
        )

    return make


def busy(after_s=None):
    return CallFailed("busy", FailureKind.BUSY, retry_after_s=after_s)


def test_it_backs_off_longer_each_time_and_then_answers(make, time):
    down = CallFailed("down", FailureKind.UNREACHABLE)
    provider, model = make(down, down, down, "at last")
    told = []
    assert model.complete(HELLO, limits=Limits(troubled=told.append), purpose="p").text == "at last"
    assert provider.at() == [0.0, 1.0, 3.0, 7.0]
    assert told == ["down"] * 3


def test_jitter_spreads_callers_over_half_of_the_wait():
    retry = Retry()
    waits = [retry.wait_s(3, busy(), draw) for draw in (0.0, 0.5, 1.0)]
    assert waits == [4.0, 6.0, 8.0] and retry.wait_s(20, busy(), 1.0) == 60.0


def test_it_waits_as_long_as_the_server_asks(make, time):
    provider, model = make(busy(after_s=17.0), "yes")
    model.complete(HELLO, purpose="p")
    assert provider.at() == [0.0, 17.0]


def test_what_the_server_asks_holds_for_the_other_threads_too(make):
    rate = Rate()
    _, model = make(busy(after_s=17.0), "yes", rate=rate)
    model.complete(HELLO, purpose="p")
    assert rate.wait_s(1, 5.0) == pytest.approx(12.0)


def test_it_gives_up_after_its_attempts(make):
    provider, model = make(*[busy()] * 9)
    with pytest.raises(CallFailed, match="busy"):
        model.complete(HELLO, purpose="p")
    assert len(provider.asked) == Retry().attempts


@pytest.mark.parametrize("kind", [FailureKind.REFUSED, FailureKind.KEY])
def test_what_no_attempt_can_repair_is_not_tried_again(make, time, kind):
    provider, model = make(CallFailed("no", kind), "never")
    with pytest.raises(CallFailed):
        model.complete(HELLO, purpose="p")
    assert provider.at() == [0.0]


def test_the_deadline_holds_over_all_attempts(make, time):
    provider, model = make(busy(after_s=4.0), busy(after_s=4.0), busy(after_s=4.0), "late")
    with pytest.raises(CallFailed):
        model.complete(HELLO, limits=Limits(deadline_s=10.0), purpose="p")
    assert provider.at() == [0.0, 4.0, 8.0]
    assert [limits.deadline_s for _, _, limits in provider.asked] == pytest.approx([10.0, 6.0, 2.0])


def test_a_call_is_given_up_while_it_waits(make, time):
    provider, model = make(busy(after_s=500.0), "never")
    limits = Limits(cancelled=lambda: time.now_s > 1.0)
    with pytest.raises(CallFailed) as caught:
        model.complete(HELLO, limits=limits, purpose="p")
    assert caught.value.kind is FailureKind.STOPPED and time.now_s < 2.0 and len(provider.asked) == 1


def test_the_same_question_is_paid_for_once(make, ledger):
    price = FlatPrice(1.0, 10.0)
    provider, model = make("one", "two", price=price)
    first = model.complete(HELLO, purpose="draft 0")
    spent = ledger.spent_usd
    assert model.complete(HELLO, purpose="draft 0") == first
    assert ledger.spent_usd == spent == price.cost_usd(USAGE) and len(provider.asked) == 1
    assert model.complete(HELLO, purpose="draft 1").text == "two", "another purpose is another question"


def test_every_attempt_is_charged_by_the_most_it_can_cost(make, ledger, calls, run):
    price = FlatPrice(1.0, 10.0)
    garbage = CallFailed("garbage", FailureKind.GARBAGE, billed=True)
    _, model = make(garbage, busy(), "yes", price=price)
    model.complete(HELLO, limits=Limits(output_tokens=1000), purpose="p")
    first, second, third = calls.of_run(run)
    assert first.usd == first.reserved_usd > 1000 * 10 / 1e6, "nobody knows what the garbage was billed at"
    assert (second.usd, third.usd) == (0.0, price.cost_usd(USAGE))


def test_a_question_that_could_cost_too_much_is_not_asked(make):
    provider, model = make("never", price=FlatPrice(0.0, 100.0))
    with pytest.raises(SpentError):
        model.complete(HELLO, limits=Limits(output_tokens=11_000), purpose="p")
    assert provider.asked == []


def test_rate_limits_by_requests_and_by_tokens():
    rate = Rate(requests_per_minute=2, tokens_per_minute=1000)
    assert [rate.wait_s(100, 0.0) for _ in range(3)] == [0.0, 0.0, 30.0]
    assert Rate(tokens_per_minute=1000).wait_s(5000, 0.0) == 0.0, "larger than a minute's worth: once, alone"
    tokens = Rate(tokens_per_minute=1000)
    assert [tokens.wait_s(600, 0.0) for _ in range(3)] == [0.0, pytest.approx(12.0), pytest.approx(48.0)]
    assert tokens.wait_s(600, 1000.0) == 0.0, "time heals"


def test_the_rate_limit_is_slept_for(make, time):
    provider, model = make("one", "two", rate=Rate(requests_per_minute=1))
    model.complete(HELLO, purpose="1")
    model.complete(HELLO, purpose="2")
    assert provider.at() == [0.0, 60.0]


def test_many_threads_on_one_model(calls, run):
    with ScriptedModel(lambda asked: f"answer to {asked.last}") as server:
        models = Models({"models": (server.name(),)}, calls, run, None)
        with ThreadPoolExecutor(8) as threads:
            answers = threads.map(
                lambda n: models.get().complete([Message("user", f"{n}")], purpose="p").text, range(24)
            )
            assert list(answers) == [f"answer to {n}" for n in range(24)]
        assert len(server.asked) == 24


def test_a_real_429_is_waited_for_and_answered(ledger, time):
    from kernelwright.llm._models import make_provider

    with ScriptedModel([Refuses(429, headers={"retry-after": "3"}), Refuses(500), "well"]) as server:
        provider = make_provider(server.name())
        model = Model(provider, ledger, clock=time.clock, sleep=time.sleep, draw=lambda: 1.0)
        assert model.complete(HELLO, purpose="p").text == "well"
    assert time.now_s == pytest.approx(5.0)


class TestModels:
    def test_without_any_model_it_says_how_to_name_one(self, calls, run):
        with pytest.raises(ModelError, match="--model"):
            Models({}, calls, run, None).get()

    def test_the_run_says_which_models_and_how_much(self, tmp_path):
        with Store(tmp_path) as store:
            options = {"models": ("local:a@http://127.0.0.1:1/v1",)}
            begun = store.create_run(
                planted_task(), device="cpu", budget=Budget(usd=0.25), seed=0, options=options
            )
        with Models.of_run(tmp_path, begun.id) as models:
            assert models.names == options["models"] and models.ledger.cap_usd == 0.25

    def test_each_is_made_once_and_the_first_is_the_default(self, calls, run):
        names = ("local:a@http://127.0.0.1:1/v1", "local:b@http://127.0.0.1:1/v1")
        models = Models({"models": names}, calls, run, None)
        assert models.get() is models.get(names[0]) and models.get(names[1]).name == names[1]

    def test_a_paid_model_needs_a_cap(self):
        options = {"models": ("local:a@http://127.0.0.1:1/v1",), "prices": ("1,2",)}
        with pytest.raises(InputError, match="--usd"):
            check_models(options, None)
        check_models(options, 0.5)
        check_models({"models": options["models"]}, None)

    def test_a_ledger_can_have_no_cap(self, calls, run):
        ledger = Ledger(calls, run, None)
        with ledger.charge("k", who="m", purpose="p", most_usd=1e6, request="") as charged:
            charged.completion = Completion(text="", usage=USAGE, cost_usd=1.0)
        assert ledger.spent_usd == 1.0


@pytest.mark.parametrize("retries", [0, 1])
def test_a_run_says_how_often_to_ask_again(calls, run, retries):
    options = {"retries": retries}
    with ScriptedModel([Refuses(503, headers={"retry-after-ms": "1"})]) as server:
        models = Models({"models": (server.name(),), **options}, calls, run, None)
        with pytest.raises(CallFailed, match="503"):
            models.get().complete([Message("user", "a")], purpose="draft")
        assert len(server.asked) == 1 + retries
