"""What start-up proves of a teacher on servers, and a whole run with one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from actfirst.config.config import Config
from actfirst.config.load import dump_toml, resolve
from actfirst.engines.open import open_teacher
from actfirst.engines.remote import RemoteEngine, client
from actfirst.errors import ConfigError, EngineError, TeacherError
from actfirst.runs.run_folder import read_metrics
from actfirst.training.open import train
from actfirst.training.proofs import prove_served
from tests.engines.scripted_server import MODEL, Script, ScriptedServer
from tests.support.tiny_models import make_tiny_tokenizer
from tests.support.tiny_run import tiny_config


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_PAUSE", 0.01)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def served_by(models: Path, *servers: ScriptedServer, more: tuple[str, ...] = ()) -> Config:
    urls = ", ".join(f'"{server.url}"' for server in servers)
    overrides = ("teacher.kind=server", f"teacher.server.urls=[{urls}]", "teacher.server.retries=1")
    return tiny_config(models, *overrides, *more, f"models.teacher={MODEL}")


async def prove(models: Path, *servers: ScriptedServer, more: tuple[str, ...] = ()) -> None:
    """Raises TeacherError unless the servers prove themselves."""
    config = served_by(models, *servers, more=more)
    teacher = open_teacher(config.teacher, config.models.teacher)
    assert isinstance(teacher, RemoteEngine)
    try:
        await prove_served(config, models / "student", teacher)
    finally:
        await teacher.close()


def with_two_tokens_exchanged() -> PreTrainedTokenizerFast:
    tokenizer = make_tiny_tokenizer()
    core = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = core["model"]["vocab"]
    vocabulary["a"], vocabulary["e"] = vocabulary["e"], vocabulary["a"]
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(core)))


class TestProofs:
    @pytest.mark.parametrize("temperature", ["ignored", "honoured"])
    @pytest.mark.parametrize("dialect", ["prompt_logprobs", "echo"])
    async def test_a_server_that_scores_with_the_students_tokenizer_is_accepted(
        self, models: Path, temperature: str, dialect: str
    ) -> None:
        script = Script(temperature=temperature, dialects=(dialect,))
        with ScriptedServer(script) as one, ScriptedServer(script) as other:
            await prove(models, one, other)
            assert one.completions > 0
            assert other.completions > 0

    async def test_texts_of_tokens_are_enough_where_there_is_no_route_to_tokenise(self, models: Path) -> None:
        with ScriptedServer(Script(tokenizes=False)) as server:
            await prove(models, server)
            assert server.completions > 0

    @pytest.mark.parametrize("tokenizes", [True, False])
    async def test_another_tokenizer_is_refused(self, models: Path, tokenizes: bool) -> None:
        server = ScriptedServer(Script(tokenizes=tokenizes), with_two_tokens_exchanged())
        with server, pytest.raises(TeacherError, match="token-level distillation needs one tokenizer"):
            await prove(models, server)

    async def test_log_probs_at_another_temperature_are_refused(self, models: Path) -> None:
        server = ScriptedServer(Script(temperature="wrong"))
        with server, pytest.raises(TeacherError, match="neither the same nor half"):
            await prove(models, server)

    async def test_a_distribution_that_is_cut_off_is_refused(self, models: Path) -> None:
        server = ScriptedServer(Script(top_k=5))
        with server, pytest.raises(TeacherError, match="cuts unlikely tokens off"):
            await prove(models, server)

    async def test_servers_of_different_weights_are_refused(self, models: Path) -> None:
        with (
            ScriptedServer(Script(seed=1)) as one,
            ScriptedServer(Script(seed=2)) as other,
            pytest.raises(TeacherError, match=rf"{other.url} and {one.url} .*do not serve the same weights"),
        ):
            await prove(models, one, other)

    async def test_sequences_that_do_not_fit_are_refused_with_the_limit(self, models: Path) -> None:
        # Prompt 1,400, response 48, and one token that a server generates while it scores.
        with (
            ScriptedServer(Script(positions=1448)) as server,
            pytest.raises(ConfigError, match=r"takes 1449 positions.* has 1448;.*prompt_limit to at most 1399"),
        ):
            await prove(models, server)
        with ScriptedServer(Script(positions=1449)) as server:
            await prove(models, server)


class TestRuns:
    def test_a_run_learns_from_a_server(self, models: Path, tmp_path: Path) -> None:
        with ScriptedServer() as server:
            train(served_by(models, server, more=("run.updates=2",)), tmp_path / "run")
        lines = list(read_metrics(tmp_path / "run"))
        assert [line["update"] for line in lines if line["type"] == "update"] == [1, 2]
        batch = next(line for line in lines if line["type"] == "batch")
        assert (
            batch["teacher_engine"]["scored_tokens"] == batch["full_tokens"] + 16
        )  # the proof scores 16 tokens

    def test_a_server_that_dies_ends_the_run_with_one_error(self, models: Path, tmp_path: Path) -> None:
        server = ScriptedServer(Script(dies_after=20))
        with server, pytest.raises(EngineError, match=f"teacher's server .{server.url}. in 2 attempts"):
            train(served_by(models, server), tmp_path / "run")


class TestConfiguration:
    def test_servers_need_addresses_and_addresses_servers(self) -> None:
        with pytest.raises(ConfigError, match=r"set server\.urls"):
            resolve("pocket", ["teacher.kind=server"])
        with pytest.raises(ConfigError, match='set kind = "server"'):
            resolve("pocket", ["teacher.server.urls=['http://localhost:8000']"])

    def test_a_key_that_is_not_set_is_named(self, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("TEACHER_KEY", raising=False)
        overrides = ["teacher.kind=server", "teacher.server.urls=['http://localhost:8000']"]
        config = resolve("pocket", [*overrides, "teacher.server.key=TEACHER_KEY"])
        with pytest.raises(ConfigError, match="export TEACHER_KEY="):
            open_teacher(config.teacher, config.models.teacher)

    def test_the_resolved_recipe_keeps_what_was_asked(self, tmp_path: Path) -> None:
        overrides = [
            "teacher.kind=server",
            "teacher.server.urls=['http://a:1', 'http://b:2']",
            "engine.kind=vllm",
        ]
        config = resolve("pocket", [*overrides, "engine.vllm.tensor_parallel=2"])
        (tmp_path / "again.toml").write_text(dump_toml(config))
        assert resolve(tmp_path / "again.toml") == config

    def test_an_engine_that_is_not_installed_is_refused_before_the_run(
        self, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("actfirst.training.proofs.find_spec", lambda name: None)
        with pytest.raises(ConfigError, match=r'engine\.kind = "vllm".*actfirst\[vllm\]'):
            train(tiny_config(models, "engine.kind=vllm"), tmp_path / "run")
        assert not (tmp_path / "run").exists()
