"""The loopback service refuses, books and delays what the real one does, seen by the real SDK."""

from __future__ import annotations

import anthropic
import pytest
from fake_anthropic import KEY, FakeAnthropic

USER = [{"role": "user", "content": "What?"}]


@pytest.fixture
def server():
    with FakeAnthropic() as running:
        yield running


@pytest.fixture
def client(server):
    with anthropic.Anthropic(api_key=KEY, base_url=server.url, max_retries=0) as made:
        yield made


def create(client, **body):
    body = {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": USER, **body}
    return client.messages.create(**body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"extra_body": {"temperature": 0}}, "temperature: Extra inputs are not permitted"),
        ({"extra_body": {"seed": 1}}, "seed: Extra inputs are not permitted"),
        ({"messages": [*USER, {"role": "assistant", "content": "{"}]}, "prefill"),
        ({"messages": []}, "at least one message"),
        ({"thinking": {"type": "disabled"}}, "disabled is not supported by this model"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "use adaptive"),
        ({"model": "claude-opus-5-5", "thinking": {"type": "between_tools"}}, "between_tools"),
        (
            {
                "model": "claude-haiku-5-5",
                "thinking": {"type": "disabled"},
                "output_config": {"effort": "max"},
            },
            "disabled is not supported at this effort",
        ),
        ({"output_config": {"effort": "huge"}}, "output_config.effort"),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            "additionalProperties",
        ),
        ({"max_tokens": 500_000, "timeout": 5}, "max_tokens"),
        (
            {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5},
            "maximum of 4 blocks",
        ),
    ],
)
def test_what_the_service_refuses(client, body, message):
    with pytest.raises(anthropic.BadRequestError, match=message):
        create(client, **body)


def test_the_key_the_version_and_the_model_are_checked(server, client):
    with pytest.raises(anthropic.AuthenticationError):
        create(anthropic.Anthropic(api_key="sk-other-key", base_url=server.url, max_retries=0))
    with pytest.raises(anthropic.BadRequestError, match="anthropic-version"):
        create(client, extra_headers={"anthropic-version": "2020-01-01"})
    with pytest.raises(anthropic.NotFoundError, match="claude-next"):
        create(client, model="claude-next")
    plain = {"x-api-key": KEY, "authorization": ""}
    assert create(client, extra_headers=plain).type == "message"


def test_the_cache_is_booked_by_prefix_length_and_life():
    now = [0.0]
    mark = {"cache_control": {"type": "ephemeral"}}
    long = [{"type": "text", "text": "word " * 2000, **mark}]
    with FakeAnthropic(clock=lambda: now[0]) as server:
        client = anthropic.Anthropic(api_key=KEY, base_url=server.url, max_retries=0)

        def booked(**body):
            used = create(client, **body).usage
            return used.cache_creation_input_tokens, used.cache_read_input_tokens

        wrote, read = booked(system=long)
        assert wrote == 2500 and read == 0  # 10,000 characters, four a token
        assert booked(system=long) == (0, 2500)
        now[0] = 290.0
        assert booked(system=long) == (0, 2500)  # reading it made it live on
        now[0] = 589.0
        assert booked(system=long) == (0, 2500)
        now[0] = 900.0
        assert booked(system=long) == (2500, 0)
        assert booked(system=long, model="claude-opus-5-5") == (2500, 0)  # apart for each model
        assert booked(system=long, model="claude-haiku-4-5") == (0, 0)  # below 4,096 tokens
        more = [*long, {"type": "text", "text": "tail " * 100, **mark}]
        assert booked(system=more) == (125, 2500)
        hour = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
        used = create(client, system=[{**long[0], "text": "else " * 2000, **hour}]).usage
        assert used.cache_creation.ephemeral_1h_input_tokens == 2500
        client.close()


def requests(*names, **params):
    body = {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": USER, **params}
    return [{"custom_id": name, "params": body} for name in names]


def test_a_batch_goes_through_its_states_and_returns_out_of_order():
    fates = {"n3": "expired", "n5": "errored", "n7": "refusal"}
    with FakeAnthropic(batch_polls=2, batch_faults=lambda name: fates.get(name, "ok")) as server:
        client = anthropic.Anthropic(api_key=KEY, base_url=server.url, max_retries=0)
        names = [f"n{i}" for i in range(30)]
        rows = requests(*names) + requests("bad", temperature=0)
        batch = client.messages.batches.create(requests=rows)
        assert (batch.processing_status, batch.results_url) == ("in_progress", None)
        assert batch.request_counts.processing == 31
        with pytest.raises(anthropic.AnthropicError, match=r"No `results_url`|results_url"):
            client.messages.batches.results(batch.id)
        done = client.messages.batches.retrieve(batch.id)
        assert done.processing_status == "ended"
        assert (done.request_counts.succeeded, done.request_counts.expired) == (28, 1)
        assert done.request_counts.errored == 2
        found = list(client.messages.batches.results(batch.id))
        assert [row.custom_id for row in found] != names
        by_name = {row.custom_id: row.result for row in found}
        assert by_name["n3"].type == "expired"
        assert by_name["n5"].error.error.type == "api_error"
        assert by_name["bad"].error.error.type == "invalid_request_error"
        assert by_name["n7"].message.stop_reason == "refusal"
        assert by_name["n1"].message.usage.service_tier == "batch"
        assert [b.id for b in client.messages.batches.list()] == [batch.id]
        client.close()
