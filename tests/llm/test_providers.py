"""Both wire formats against the scripted server: what is sent, what is read, and every way it can fail."""

from types import SimpleNamespace

import pytest

from kernelwright.config import Settings
from kernelwright.errors import InputError, MissingToolError, NotFoundError
from kernelwright.llm import CallFailed, FailureKind, FlatPrice, Limits, Message, Usage, parse_name
from kernelwright.llm._models import make_provider
from kernelwright.llm._wire import retry_after_s
from kernelwright.llm.anthropic import Messages
from kernelwright.llm.openai import ChatCompletions
from kernelwright.testing import Hangs, Refuses, Says, ScriptedModel, Sends

KEY = "sk-planted-0123456789"
PRICE = FlatPrice(1.0, 10.0)
TALK = [Message("system", "You are terse.", stable=True), Message("user", "Hello?")]
FORMATS = ["chat", "messages"]


def make(server, form, clock=None):
    clocked = {} if clock is None else {"clock": clock}
    if form == "chat":
        return ChatCompletions(parse_name("openai:m"), PRICE, key=KEY, base_url=f"{server.url}/v1", **clocked)
    return Messages(parse_name("anthropic:m"), PRICE, key=KEY, base_url=server.url, **clocked)


def fails(turn, form, **limits):
    with ScriptedModel([turn]) as server, pytest.raises(CallFailed) as caught:
        make(server, form).complete(TALK, None, Limits(**limits))
    assert KEY not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("form", FORMATS)
def test_an_answer_with_its_tokens_and_its_cost(form):
    said = Says("The answer is 42.", input_tokens=1000, output_tokens=200, cached_tokens=600)
    with ScriptedModel([said]) as server:
        got = make(server, form).complete(TALK, None, Limits(output_tokens=77))
        (asked,) = server.asked
    assert got.text == "The answer is 42." and got.stop == "end"
    assert got.usage == Usage(input_tokens=1000, cached_tokens=600, output_tokens=200)
    assert got.cost_usd == pytest.approx(1000e-6 + 200e-5)
    assert asked.body["stream"] is True and asked.body["max_tokens"] == 77
    assert KEY in (asked.headers.get("authorization") or asked.headers["x-api-key"])
    assert "You are terse." in asked.text and asked.last == "Hello?"


def test_what_is_stable_is_marked_for_anthropics_cache():
    with ScriptedModel(["yes"]) as server:
        make(server, "messages").complete(TALK, None, Limits())
        body = server.asked[0].body
    assert body["system"] == [
        {"type": "text", "text": "You are terse.", "cache_control": {"type": "ephemeral"}}
    ]
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Hello?"}]}]


def test_openai_itself_is_told_the_limit_by_its_newer_name():
    settings = Settings.from_environment({"OPENAI_API_KEY": KEY})
    assert make_provider("openai:gpt-5", {}, settings)._most == "max_completion_tokens"


@pytest.mark.parametrize("form", FORMATS)
def test_a_schema_is_asked_for_and_left_out_where_it_is_refused(form):
    schema = {"type": "object", "properties": {}, "additionalProperties": False}

    def script(asked):
        return Refuses(400) if {"response_format", "output_config"} & set(asked.body) else "{}"

    with ScriptedModel(script) as server:
        provider = make(server, form)
        assert provider.complete(TALK, schema, Limits()).text == "{}"
        provider.complete(TALK, schema, Limits())
        bodies = [asked.body for asked in server.asked]
    sent = bodies[0].get("response_format", bodies[0].get("output_config"))
    assert sent.get("json_schema", sent.get("format"))["schema"] == schema
    assert len(bodies) == 3, "once with it, once without, and never with it again"


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, "busy"), (529, "busy"), (500, "server"), (404, "refused"), (401, "key"), (402, "key")],
)
def test_an_http_error_is_not_billed_and_keeps_what_the_server_asks(form, status, kind):
    failure = fails(Refuses(status, f"no {KEY} here", headers={"retry-after": "7"}), form)
    assert (failure.kind, failure.billed, failure.retry_after_s) == (kind, False, 7.0)
    assert "no *** here" in str(failure)


def test_retry_after_as_a_date_is_counted_from_the_servers_own_clock():
    dates = {"date": "Tue, 03 Mar 2026 10:00:00 GMT", "retry-after": "Tue, 03 Mar 2026 10:00:09 GMT"}
    assert retry_after_s(dates) == 9.0
    assert retry_after_s({"retry-after-ms": "1500"}) == 1.5
    assert retry_after_s({"retry-after": "soon"}) is None and retry_after_s({}) is None


@pytest.mark.parametrize("form", FORMATS)
def test_nobody_there(form):
    with ScriptedModel(["x"]) as server:
        gone = make(server, form)
    with pytest.raises(CallFailed) as caught:
        gone.complete(TALK, None, Limits())
    assert (caught.value.kind, caught.value.billed) == (FailureKind.UNREACHABLE, False)


@pytest.mark.parametrize("form", FORMATS)
def test_silence_ends_at_the_deadline_and_may_have_been_billed(form):
    failure = fails(Hangs(), form, deadline_s=0.5)
    assert (failure.kind, failure.billed) == (FailureKind.TIMEOUT, True)


@pytest.mark.parametrize("form", FORMATS)
def test_a_slow_stream_ends_at_the_deadline(form):
    times = iter([0.0, 1.0, 5.0, 11.0])
    with ScriptedModel([Says("a slow answer", pieces=13)]) as server:
        provider = make(server, form, clock=lambda: next(times))
        with pytest.raises(CallFailed, match="no answer within 10 s") as caught:
            provider.complete(TALK, None, Limits(deadline_s=10))
    assert caught.value.billed


@pytest.mark.parametrize("form", FORMATS)
def test_a_call_is_given_up_in_mid_stream(form):
    with ScriptedModel(["answer"]) as server, pytest.raises(CallFailed) as caught:
        make(server, form).complete(TALK, None, Limits(cancelled=lambda: True))
    assert caught.value.kind is FailureKind.STOPPED and caught.value.billed


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "turn",
    [
        Sends(b"\x00\xff not an event at all"),
        Sends(b"data: {not json}\n\n"),
        Sends(b'data: {"surprise": [1, 2]}\n\ndata: 7\n\n'),
        Sends(b"<html>gateway</html>", "text/html"),
        Sends(b""),
        Says("cut in the middle of the stream" * 20, breaks_off=True),
    ],
    ids=["bytes", "no json", "other json", "html", "empty", "cut"],
)
def test_garbage_is_a_failure_worth_another_attempt(form, turn):
    failure = fails(turn, form)
    assert failure.again and failure.billed


@pytest.mark.parametrize("form", FORMATS)
def test_cut_off_by_its_limit_is_an_answer_that_says_so(form):
    with ScriptedModel([Says("half an ans", stop="length")]) as server:
        assert make(server, form).complete(TALK, None, Limits()).stop == "length"


@pytest.mark.parametrize("form", FORMATS)
def test_an_answer_is_whole_where_the_server_ends_nothing(form):
    with ScriptedModel([Says("whole", stays_open=True), "next"]) as server:
        provider = make(server, form)
        got = provider.complete(TALK, None, Limits(deadline_s=60))
        assert provider.complete(TALK, None, Limits()).text == "next"
    assert (got.text, got.stop, got.usage.output_tokens) == ("whole", "end", 50)


@pytest.mark.parametrize("form", FORMATS)
def test_one_connection_serves_many_questions(form):
    with ScriptedModel(["answer"]) as server:
        provider = make(server, form)
        for _ in range(3):
            provider.complete(TALK, None, Limits())
        assert server.connections == 1


def test_one_timer_serves_many_answers(monkeypatch):
    timers = []
    monkeypatch.setattr(
        "kernelwright.llm._stream.Timer", lambda *a: timers.append(a) or SimpleNamespace(start=int)
    )
    with ScriptedModel(["answer"]) as server:
        provider = make(server, "chat")
        for _ in range(3):
            provider.complete(TALK, None, Limits())
    assert len(timers) == 1, "it has not looked yet"


@pytest.mark.parametrize("form", FORMATS)
def test_an_error_in_mid_stream_is_told_and_worth_another_attempt(form):
    event = f'event: error\ndata: {{"type": "error", "error": {{"message": "overloaded, {KEY}"}}}}\n\n'
    failure = fails(Sends(event.encode()), form)
    assert (failure.kind, failure.billed, failure.again) == (FailureKind.SERVER, True, True)
    assert "overloaded, ***" in str(failure)


def test_an_endless_answer_is_cut_and_counted_in_bytes(monkeypatch):
    monkeypatch.setattr("kernelwright.llm._wire._MOST_CHARACTERS", 50)
    with ScriptedModel([Says("word " * 100, pieces=20)]) as server:
        got = make(server, "chat").complete(TALK, None, Limits())
    assert got.stop == "length" and 50 < len(got.text) < 120
    assert got.usage.output_tokens == len(got.text), "no usage came: a byte is a token at most"


def test_empty_is_an_answer():
    with ScriptedModel([""]) as server:
        assert make(server, "chat").complete(TALK, None, Limits()).text == ""


@pytest.mark.parametrize("form", FORMATS)
def test_an_answer_that_repeats_the_key_is_told_without_it(form):
    with ScriptedModel([f"your key is {KEY}"]) as server:
        assert make(server, form).complete(TALK, None, Limits()).text == "your key is ***"


class TestMaking:
    def test_a_local_model_is_free_and_is_sent_no_key_of_others(self):
        with ScriptedModel(["hi"]) as server:
            settings = Settings.from_environment({"OPENAI_API_KEY": KEY})
            provider = make_provider(server.name("qwen"), {}, settings)
            assert provider.complete(TALK, None, Limits()).cost_usd == 0.0
            assert KEY not in str(server.asked[0].headers) and server.asked[0].model == "qwen"

    def test_a_missing_key_names_its_variable(self):
        nothing = Settings.from_environment({})
        for name, variable in (
            ("openai:gpt-5", "OPENAI_API_KEY"),
            ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
            ("openrouter:anthropic/claude-sonnet-4.5", "OPENROUTER_API_KEY"),
        ):
            with pytest.raises(MissingToolError, match=variable):
                make_provider(name, {}, nothing)

    def test_an_unknown_price_refuses_to_start(self):
        settings = Settings.from_environment({"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY})
        for name in ("openai:no-such-model", "anthropic:no-such-model", "openai:gpt-5@http://10.0.0.1/v1"):
            with pytest.raises(InputError, match="--price IN,OUT"):
                make_provider(name, {}, settings)
            assert make_provider(name, {"prices": ("3,15",)}, settings).price == FlatPrice(3.0, 15.0)

    def test_the_settings_address_is_used_and_its_price_must_be_said(self):
        env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "http://10.0.0.1/v1"}
        with pytest.raises(InputError, match="--price"):
            make_provider("openai:gpt-5", {}, Settings.from_environment(env))

    def test_a_paid_host_is_not_local(self):
        with pytest.raises(InputError, match="not local"):
            make_provider("local:gpt-5@https://api.openai.com/v1", {}, Settings.from_environment({}))
        with pytest.raises(InputError, match="does not say where it is"):
            make_provider("local:qwen", {}, Settings.from_environment({}))

    def test_an_unknown_provider_names_those_there_are(self):
        with pytest.raises(NotFoundError, match=r"anthropic, local, openai, openrouter"):
            make_provider("nosuch:model", {}, Settings.from_environment({}))

    @pytest.mark.parametrize("price", ["3", "a,b", "3,-1", "nan,1", "1,2,3"])
    def test_a_wrong_price_is_told(self, price):
        with pytest.raises(InputError, match="expected IN,OUT"):
            make_provider(
                "local:m@http://127.0.0.1:1/v1", {"prices": (price,)}, Settings.from_environment({})
            )

    def test_a_price_of_one_of_several_models(self):
        name, other = "local:a@http://127.0.0.1:1/v1", "local:b@http://127.0.0.1:1/v1"
        prices = {"prices": (f"{name}=1,2",)}
        nothing = Settings.from_environment({})
        assert make_provider(name, prices, nothing).price == FlatPrice(1.0, 2.0)
        assert make_provider(other, prices, nothing).price == FlatPrice(0.0, 0.0)

    def test_keys_do_not_show_in_the_settings(self):
        assert KEY not in repr(Settings.from_environment({"OPENAI_API_KEY": KEY}))

    @pytest.mark.parametrize("text", ["", "gpt", ":m", "p:", "p:m@http://"])
    def test_what_is_no_name(self, text):
        with pytest.raises(InputError, match="expected PROVIDER:MODEL"):
            parse_name(text)
