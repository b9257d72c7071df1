"""The scripted model server on the wire."""

import http.client
import json

import pytest

from kernelwright.testing import Says, ScriptedModel


def ask(connection, **body):
    connection.request("POST", "/v1/chat/completions", json.dumps({"model": "m", "messages": [], **body}))
    return connection.getresponse().read().decode()


def test_one_connection_serves_many_requests():
    with ScriptedModel(["one", "two", "three"]) as server:
        connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]))
        answers = [ask(connection), ask(connection, stream=True), ask(connection)]
    assert ["one" in answers[0], "data: [DONE]" in answers[1], "three" in answers[2]] == [True] * 3
    assert server.connections == 1
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        ask(connection)
    connection.close()


def test_a_stream_that_breaks_off_takes_its_connection_with_it():
    with ScriptedModel([Says("a long answer", breaks_off=True)]) as server:
        connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]))
        with pytest.raises(http.client.IncompleteRead):
            ask(connection, stream=True)
        connection.close()
