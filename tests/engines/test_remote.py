"""A teacher on servers that somebody else runs: scores, failures, routing, bounds."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack

import pytest

from actfirst.config.engine_sections import ServerSection
from actfirst.engines.base import Sampling
from actfirst.engines.remote import RemoteEngine, client
from actfirst.engines.remote.replicas import Replicas
from actfirst.engines.remote.wire import Malformed, PromptLogprobs, read_completion
from actfirst.errors import EngineError, TeacherError
from actfirst.records import StopReason
from tests.engines.scripted_server import MALFORMED, MODEL, Script, ScriptedServer

UNTRUSTED = ("deep", "bomb", "no gzip", "unasked encoding", "redirect", "echo the key")
Open = Callable[..., RemoteEngine]
Serve = Callable[..., ScriptedServer]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_PAUSE", 0.01)


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:
        yield lambda **script: stack.enter_context(ScriptedServer(Script(**script)))


@pytest.fixture
async def remote() -> AsyncIterator[Open]:
    engines: list[RemoteEngine] = []

    def make(
        servers: Sequence[ScriptedServer] | Sequence[str], max_concurrency: int = 256, **options: object
    ) -> RemoteEngine:
        urls = tuple(server if isinstance(server, str) else server.url for server in servers)
        chosen = ServerSection(**{"urls": urls, "deadline": 5.0, "retries": 2, **options})  # type: ignore[arg-type]
        engines.append(RemoteEngine(chosen, MODEL, max_concurrency))
        return engines[-1]

    yield make
    for engine in engines:
        await engine.close()


async def ready(engine: RemoteEngine, *servers: ScriptedServer) -> RemoteEngine:
    """After the questions that come once; servers count from here."""
    await engine.served()
    for server in servers:
        server.completions = server.most = 0
        server.bodies.clear()
    return engine


class TestScores:
    @pytest.mark.parametrize("dialect", ["prompt_logprobs", "echo"])
    async def test_they_are_the_servers_one_per_token(self, serve: Serve, remote: Open, dialect: str) -> None:
        server = serve(dialects=(dialect,))
        engine = remote([server])
        assert (await engine.served()).dialect.name == dialect
        scores = await engine.score([3, 4, 5], [6, 7])
        assert scores == pytest.approx(server.model.logprobs([5, 6, 7]))
        assert await engine.score([3], []) == ()

    async def test_the_request_holds_ids_and_asks_for_the_models_own_distribution(
        self, serve: Serve, remote: Open
    ) -> None:
        server = serve()
        engine = await ready(remote([server]), server)
        await engine.score([3, 4], [5])
        (body,) = server.bodies
        assert body["prompt"] == [3, 4, 5]
        assert (body["temperature"], body["top_p"], body["top_k"]) == (1.0, 1.0, -1)

    async def test_statistics_count_tokens_and_requests(self, serve: Serve, remote: Open) -> None:
        engine = remote([serve()])
        await asyncio.gather(engine.score([1, 2], [3, 4, 5]), engine.generate([1, 2], Sampling(max_tokens=3)))
        stats = engine.stats()
        assert (stats.requests, stats.scored_tokens, stats.generated_tokens) == (2, 3, 3)
        assert (stats.running, stats.waiting) == (0, 0)
        assert stats.busy_seconds > 0

    async def test_a_completion_comes_with_token_ids_and_a_reason(self, serve: Serve, remote: Open) -> None:
        engine = remote([serve()])
        done = await engine.generate([1, 2], Sampling(max_tokens=3, temperature=0.4, seed=2**64 - 1))
        assert (done.token_ids, done.logprobs) == ((5, 6, 7), (-0.5, -0.25, -1.0))
        assert done.stop_reason is StopReason.LENGTH
        stopped = await engine.generate([1, 2], Sampling(max_tokens=3, stop=("</action>",)))
        assert stopped.stop_reason is StopReason.STOP_STRING

    async def test_its_weights_are_not_ours_to_change(self, serve: Serve, remote: Open) -> None:
        engine = remote([serve()])
        with pytest.raises(EngineError, match="not ours"):
            await engine.load_weights({}, 1)
        with pytest.raises(EngineError, match="empty"):
            await engine.score([], [1])
        await engine.close()
        with pytest.raises(EngineError, match="closed"):
            await engine.score([1], [2])


class TestFailures:
    @pytest.mark.parametrize(
        "failure", ["500", "503", "429", "drop", "no json", "huge", *UNTRUSTED, *MALFORMED]
    )
    async def test_what_may_pass_is_tried_again(
        self, serve: Serve, remote: Open, failure: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server = serve()
        monkeypatch.setattr(client, "_MOST_BYTES", 200_000)
        engine = await ready(remote([server]), server)
        server.script.failures = deque([failure, failure])
        assert await engine.score([3], [4, 5]) == pytest.approx(server.model.logprobs([3, 4, 5]))
        assert server.completions == 3

    @pytest.mark.parametrize("failure", ["500", "drop", "no json", "too few"])
    async def test_a_server_that_never_answers_well_is_one_clear_error(
        self, serve: Serve, remote: Open, failure: str
    ) -> None:
        server = serve()
        engine = await ready(remote([server]), server)
        server.script.always = failure
        with pytest.raises(EngineError, match=rf"{server.url}.* in 3 attempts; the last one: .*--resume"):
            await engine.score([3], [4])
        assert server.completions == 3

    @pytest.mark.parametrize(
        ("failure", "cause"),
        [
            ("above 0", r"'50\.0' where a log-prob was expected"),
            ("below everything", "too large"),
            ("infinite", "Infinity is no number"),
            ("deep", "nested deeper than 64"),
            ("bomb", "unpacks to more than"),
            ("redirect", "redirects are not followed"),
        ],
    )
    async def test_an_answer_that_is_not_to_be_trusted_is_never_used(
        self, serve: Serve, remote: Open, failure: str, cause: str
    ) -> None:
        server = serve()
        engine = await ready(remote([server], retries=1), server)
        server.script.always = failure
        with pytest.raises(EngineError, match=rf"in 2 attempts; the last one: .*{cause}"):
            await engine.score([3], [4, 5])

    async def test_log_probs_that_rounding_lifts_above_0_are_0(self) -> None:
        answer = {"choices": [{"prompt_logprobs": [None, {"4": {"logprob": 1e-6}}]}]}
        assert PromptLogprobs().read(answer, [3, 4]).logprobs == (0.0,)

    @pytest.mark.parametrize("ids", [[1.5], [-1], [True], ["7"], [2**40], [1, 2, 3]])
    def test_a_completion_of_other_things_than_tokens_is_refused(self, ids: list[object]) -> None:
        choice = {"token_ids": ids, "logprobs": {"token_logprobs": [-1.0] * len(ids)}}
        with pytest.raises(Malformed):
            read_completion({"choices": [choice]}, most=2)

    async def test_a_key_that_a_server_sends_back_is_not_shown(
        self, serve: Serve, remote: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("THE_KEY", "open sesame")
        server = serve(key="open sesame")
        engine = await ready(remote([server], key="THE_KEY", retries=0), server)
        server.script.always = "echo the key"
        with pytest.raises(EngineError, match="no such key: Bearer <the key>") as told:
            await engine.score([3], [4])
        assert "sesame" not in str(told.value)

    async def test_a_server_that_is_not_there_is_one_clear_error(self, remote: Open) -> None:
        with ScriptedServer() as gone:
            pass
        with pytest.raises(EngineError, match=rf"{gone.url}.* in 3 attempts.*Connect"):
            await remote([gone]).score([3], [4])

    async def test_a_server_that_hangs_meets_its_deadline(self, serve: Serve, remote: Open) -> None:
        server = serve()
        engine = await ready(remote([server], deadline=0.1, retries=1), server)
        server.script.always = "hang"
        with pytest.raises(EngineError, match=r"2 attempts.*no answer within 0\.1 s"):
            await engine.score([3], [4])
        assert server.completions == 2

    async def test_a_refused_request_is_that_requests_failure_and_not_repeated(
        self, serve: Serve, remote: Open
    ) -> None:
        server = serve()
        engine = await ready(remote([server]), server)
        server.script.failures = deque(["refuse"])
        with pytest.raises(TeacherError, match="this prompt is too long"):
            await engine.score([3], [4])
        assert server.completions == 1
        assert await engine.score([3], [4]) == pytest.approx(server.model.logprobs([3, 4]))

    async def test_a_key_is_sent_and_its_lack_is_named(
        self, serve: Serve, remote: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server = serve(key="open sesame")
        monkeypatch.setenv("THE_KEY", "open sesame")
        assert await remote([server], key="THE_KEY").score([3], [4])
        with pytest.raises(EngineError, match=r"401.*teacher\.server\.key"):
            await remote([server]).score([3], [4])

    async def test_an_answer_that_is_too_large_is_not_kept(
        self, serve: Serve, remote: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        server = serve()
        monkeypatch.setattr(client, "_MOST_BYTES", 100_000)
        engine = await ready(remote([server]), server)
        server.script.always = "huge"
        with pytest.raises(EngineError, match="exceeds 100000 bytes"):
            await engine.score([3], [4])

    async def test_cancelling_frees_the_place(self, serve: Serve, remote: Open) -> None:
        server = serve()
        engine = await ready(remote([server], max_concurrency=1), server)
        server.script.failures = deque(["hang"])
        hanging = asyncio.create_task(engine.score([3], [4]))
        while not engine.stats().running:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        hanging.cancel()
        assert await engine.score([3], [4]) == pytest.approx(server.model.logprobs([3, 4]))
        assert engine.stats().running == engine.stats().waiting == 0


class TestRouting:
    def test_the_least_loaded_server_is_chosen_and_equal_ones_in_turn(self) -> None:
        replicas = Replicas(["http://a", "http://b/", "http://c"], clock=lambda: 0.0)
        a, b, c = replicas.all
        assert b.url == "http://b"
        a.running, b.running, c.running = 2, 1, 1
        assert [replicas.choose() for _ in range(4)] == [b, c, b, c]

    def test_a_server_that_failed_rests_longer_each_time_and_is_not_forgotten(self) -> None:
        now = [0.0]
        replicas = Replicas(["http://dead", "http://busy"], clock=lambda: now[0])
        dead, busy = replicas.all
        busy.running = 9
        for failures, rest in ((1, 1.0), (2, 2.0), (3, 4.0)):
            replicas.failed(dead)
            assert dead.failures == failures
            assert replicas.choose() is busy
            now[0] += rest
            assert replicas.choose() is dead
        replicas.succeeded(dead)
        assert replicas.choose() is dead

    def test_another_server_is_preferred_for_a_second_attempt(self) -> None:
        replicas = Replicas(["http://a", "http://b"], clock=lambda: 0.0)
        a, b = replicas.all
        b.running = 5
        assert replicas.choose(avoid=[a]) is b
        assert replicas.choose(avoid=[a, b]) is a

    async def test_work_goes_where_it_is_done_sooner(self, serve: Serve, remote: Open) -> None:
        quick, slow = serve(), serve()
        engine = await ready(remote([quick, slow], max_concurrency=4), quick, slow)
        slow.script.delay = 0.15
        await asyncio.gather(*(engine.score([3], [4]) for _ in range(40)))
        assert quick.completions + slow.completions == 40
        assert quick.completions > 2 * slow.completions

    async def test_a_dead_server_costs_a_few_attempts_and_no_request(self, serve: Serve, remote: Open) -> None:
        good, bad = serve(), serve()
        engine = await ready(remote([good, bad], max_concurrency=4), good, bad)
        bad.script.always = "500"
        scores = await asyncio.gather(*(engine.score([3], [4]) for _ in range(40)))
        assert len(scores) == 40
        assert good.completions == 40
        assert bad.completions <= 8

    async def test_no_more_requests_are_under_way_than_allowed(self, serve: Serve, remote: Open) -> None:
        server = serve()
        engine = await ready(remote([server], max_concurrency=3), server)
        server.script.together, server.script.delay = 3, 0.01
        await asyncio.gather(*(engine.score([3], [4]) for _ in range(20)))
        assert server.most == 3


class TestWhatIsServed:
    async def test_another_model_is_refused_with_what_is_there(self, serve: Serve) -> None:
        engine = RemoteEngine(ServerSection(urls=(serve().url,), retries=0), "another")
        with pytest.raises(TeacherError, match=rf"'another'.*models\.teacher.*{MODEL}"):
            await engine.score([1], [2])
        await engine.close()

    async def test_a_server_without_log_probs_of_prompts_is_refused(self, serve: Serve, remote: Open) -> None:
        with pytest.raises(TeacherError, match="returns no log-probs of prompts"):
            await remote([serve(dialects=())]).score([1], [2])

    async def test_positions_are_those_of_the_smallest(self, serve: Serve, remote: Open) -> None:
        assert (await remote([serve(positions=900), serve(positions=None)]).served()).positions == 900
