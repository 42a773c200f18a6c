"""Everything that reads what others wrote, with good inputs to start from. `share` is its part of 1,000 inputs."""

from __future__ import annotations

import gzip
import json
import lzma
import math
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

from actfirst.config.load import parse_overrides, resolve
from actfirst.config.recipe_files import recipe_text
from actfirst.engines.remote import wire
from actfirst.environments.alfworld.game import load_game
from actfirst.environments.normalize import normalize
from actfirst.environments.pocket.generate import make_file
from actfirst.environments.pocket.layout import Size
from actfirst.environments.scienceworld.normalize import normalize_scienceworld
from actfirst.environments.webshop import rules
from actfirst.environments.webshop.json_stream import stream_list, stream_object
from actfirst.environments.webshop.kind import rewrite
from actfirst.environments.webshop.search.tokenizer import tokenize
from actfirst.environments.webshop.session import parse_action
from actfirst.lab.report.cells import in_markdown
from actfirst.learning.samples import load_samples, save_samples
from actfirst.models.folder import read_config
from actfirst.models.shapes import read_shape
from actfirst.policy.parsing import extract_action, reached_by
from actfirst.reading import clean, parse_json, parse_object, parse_toml, unpacked
from actfirst.records import Observation, Reference, ReferenceStep, Task, TurnContext, TurnSample
from actfirst.references.build.demonstrations import marked_action
from actfirst.references.sources import ImportedSource
from actfirst.references.store import ReferenceStore
from actfirst.runs.manifest import is_complete, verify
from actfirst.runs.run import open_run
from actfirst.terminal.visible import visible
from tests.environments.webshop.shop import ITEM
from tests.support import episode_lines, run_folders
from tests.support.report_sources import write_evaluation

Call = Callable[[bytes, Path], object]
"""Reads one input; the folder is for files."""


@dataclass(frozen=True)
class Target:
    name: str
    call: Call
    seeds: list[bytes]
    share: int


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _lines(*values: object) -> bytes:
    return b"".join(_json(value) + b"\n" for value in values)


def _file(name: str, read: Callable[[Path], object], data: bytes, folder: Path) -> object:
    path = folder / name
    path.write_bytes(data)
    return read(path)


def _recipe(path: Path) -> object:
    return resolve(path, ["run.updates=3"])


def _overrides(data: bytes, folder: Path) -> object:
    return parse_overrides(data.decode("utf-8", "surrogateescape").split("\n"))


def _answer(data: bytes, folder: Path) -> None:
    answer = parse_object(data)
    ids = (3, 4, 5)
    for read in (
        *(partial(dialect.read, ids=ids) for dialect in wire.DIALECTS),
        partial(wire.read_completion, most=4),
        wire.read_models,
        wire.read_tokens,
    ):
        try:
            found = read(answer)
        except wire.Malformed:
            continue
        if isinstance(found, wire.ScoredPrompt):
            assert len(found.logprobs) == len(ids) - 1
            assert all(math.isfinite(value) and value <= 0 for value in found.logprobs)


def _import(path: Path) -> object:
    return list(
        ImportedSource(path, [Task("train/a", "train", "k")]).candidates(Task("train/a", "train", "k"), "x")
    )


def _store(path: Path) -> object:
    return list(ReferenceStore.read(path).attempts())


def _run(name: str, data: bytes, folder: Path) -> None:
    (folder / "config.toml").write_text("[run]\nseed = 1\n")
    for other in ("metrics.jsonl", "episodes.jsonl", "utilisation.jsonl", "summary.json"):
        (folder / other).unlink(missing_ok=True)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    run = open_run(folder)
    match name:
        case "config.toml":
            _ = run.seed
        case "metrics.jsonl":
            _ = (run.curve, run.alignment, run.updates, run.final_success)
        case "episodes.jsonl":
            list(run.episodes())
        case "utilisation.jsonl":
            _ = run.utilisation
        case "summary.json":
            _ = run.summary
        case _:
            _ = run.evaluations


def _manifest(path: Path) -> None:
    is_complete(path.parent)
    verify(path.parent)


def _catalogue(name: str, data: bytes, folder: Path) -> object:
    good = {"items_shuffle.json": _ITEMS, "items_ins_v2.json": _ANNOTATIONS, "items_human_ins.json": _HUMAN}
    for other, content in {**good, name: data}.items():
        (folder / other).write_bytes(content)
    from actfirst.environments.registry import open_world
    from actfirst.environments.webshop.section import WebshopSection

    catalogue = open_world(
        WebshopSection(
            name="webshop", folder=str(folder), goals="human", nouns="simple", train=(0, 1), eval=(1, 2)
        )
    )
    return catalogue.tasks("train")


def _texts(data: bytes, folder: Path) -> None:
    text = (
        data.decode("utf-8", "surrogatepass" if data[:1] != b"\xff" else "replace")
        if _utf8(data)
        else data.decode("latin-1")
    )
    seen = Observation(text, (text, "click[b1]"), (), ())
    seen.text.encode()
    TurnContext(text, (), seen, 1).instruction.encode()
    visible(text).encode()
    for read in (
        clean,
        normalize,
        normalize_scienceworld,
        tokenize,
        extract_action,
        reached_by,
        marked_action,
        parse_action,
        rules.parse_action,
        in_markdown,
    ):
        read(text)
    list(rewrite(text, seen))
    rules.WebshopRules().valid(text, seen)


def _utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


_ITEMS = _json([ITEM, {**ITEM, "asin": "B2", "pricing": "$1.00 to $5", "customization_options": None}])
_ANNOTATIONS = _json(
    {
        "B1": {
            "attributes": ["dishwasher safe"],
            "instruction": "i want a cup",
            "instruction_attributes": ["dishwasher safe"],
        }
    }
)
_WRITTEN = {
    "instruction": "a red cup",
    "instruction_attributes": ["dishwasher safe"],
    "instruction_options": ["red"],
}
_HUMAN = _json({"B1": [_WRITTEN, {**_WRITTEN, "instruction": "another red cup"}]})
_SCORES = {
    "choices": [
        {
            "prompt_logprobs": [None, {"4": {"logprob": -1.0, "decoded_token": "a"}}, {"5": {"logprob": -0.5}}],
            "logprobs": {"tokens": ["a", "b", "c"], "token_logprobs": [None, -1.0, -0.5]},
            "token_ids": [3, 4, 5],
            "finish_reason": "stop",
        }
    ],
    "data": [{"id": "m", "max_model_len": 4096}],
    "tokens": [1, 2, 3],
}
_CHAT = [
    {"role": "user", "content": "find the cup"},
    {"role": "assistant", "content": "<think>x</think><action>go</action>"},
]
_DEMONSTRATIONS = [
    {"task_id": "train/a", "actions": ["go", "look"], "score": 1.0},
    {"id": 3, "messages": _CHAT, "instruction": "x"},
]
_EPISODE = episode_lines.episode(
    [episode_lines.turn(1, response=episode_lines.response("hm")), episode_lines.turn(2)]
)


@cache
def _samples() -> bytes:
    sample = TurnSample("s", "e", "t", 1, (1, 2), (3, 4), (1, 0), (-0.5, 0.0), (0.1, 0.0), 3)
    with tempfile.TemporaryDirectory() as folder:
        save_samples(Path(folder) / "samples.npz", [sample, sample])
        return (Path(folder) / "samples.npz").read_bytes()


def _store_lines() -> bytes:
    seen = Observation("a", ("go",))
    reference = Reference("train/a", seen, (ReferenceStep("go", seen),), "x", 100.0)
    header = {
        "format": "actfirst-references-2",
        "world": "w",
        "fingerprint": "f",
        "turn_limit": 5,
        "tasks": {"train": 1},
        "configuration": {},
        "actfirst": "0",
    }
    attempt = {
        "task_id": "train/a",
        "split": "train",
        "kind": "k",
        "tried": ["x"],
        "reference": asdict(reference),
    }
    return _lines(header, attempt, {**attempt, "task_id": "b", "reference": None})


def _evaluation() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write_evaluation(Path(folder) / "one.json", "pocket:student", 2).read_bytes()


def _game() -> bytes:
    return make_file(7, Size(), "train", 0).to_json().encode()


def targets() -> list[Target]:
    model = Path(str(files("actfirst.models") / "pocket" / "student" / "config.json")).read_bytes()
    metrics = [run_folders.batch(0), run_folders.update(1, 2.0), run_folders.evaluation(1, 3.0, 50.0)]
    found = [
        Target("json", lambda data, _: parse_json(data), [_json(_SCORES), _json(_DEMONSTRATIONS)], 190),
        Target(
            "toml",
            lambda data, _: parse_toml(data.decode(errors="surrogateescape")),
            [recipe_text("pocket").encode(), b'a = 1\nb.c = [1, {d = "e"}]'],
            120,
        ),
        Target(
            "overrides", _overrides, [b"run.updates=3", b'teacher.server.urls=["http://a"]\na.b={c=1}'], 100
        ),
        Target(
            "recipe",
            partial(_file, "recipe.toml", _recipe),
            [
                b'extends = "pocket"\n[run]\nupdates = 5\nseed = 2\n[teacher]\nkind = "server"\n'
                b'[teacher.server]\nurls = ["http://a"]\n'
            ],
            5,
        ),
        Target("server answer", _answer, [_json(_SCORES)], 200),
        Target(
            "demonstrations",
            partial(_file, "demos", _import),
            [
                _lines(*_DEMONSTRATIONS),
                _json(_DEMONSTRATIONS),
                _json({"train/a": ["go"]}),
                gzip.compress(_lines(*_DEMONSTRATIONS)),
                _json(_DEMONSTRATIONS[0]),
            ],
            80,
        ),
        Target(
            "packed",
            partial(_file, "packed", partial(unpacked, most=1 << 20)),
            [gzip.compress(b"a" * 99), lzma.compress(b"b" * 99)],
            30,
        ),
        Target("reference store", partial(_file, "store.jsonl", _store), [_store_lines()], 40),
        Target("metrics", partial(_run, "metrics.jsonl"), [_lines(*metrics), *map(_json, metrics)], 30),
        Target("episodes", partial(_run, "episodes.jsonl"), [_lines(_EPISODE), _json(_EPISODE)], 30),
        Target("summary", partial(_run, "summary.json"), [_json(run_folders.summary(5.0))], 20),
        Target(
            "utilisation",
            partial(_run, "utilisation.jsonl"),
            [_lines({"seconds": 1.0, "gpus": [50.0], "parts": {"other": 3.0}})],
            10,
        ),
        Target("evaluation file", partial(_run, "evaluations/update-000001.json"), [_evaluation()], 10),
        Target("run configuration", partial(_run, "config.toml"), [b"[run]\nseed = 1\n"], 10),
        Target(
            "manifest",
            partial(_file, "manifest.json", _manifest),
            [_json({"format": 1, "files": {"a": {"bytes": 1, "sha256": "x"}}})],
            20,
        ),
        Target("samples", partial(_file, "samples.npz", load_samples), [_samples()], 10),
        Target(
            "model configuration",
            partial(_file, "config.json", lambda path: (read_config(path.parent), read_shape(path.parent))),
            [model],
            20,
        ),
        Target("game", partial(_file, "game.tw-pddl", load_game), [_game()], 5),
        Target("products", partial(_catalogue, "items_shuffle.json"), [_ITEMS], 3),
        Target("attributes", partial(_catalogue, "items_ins_v2.json"), [_ANNOTATIONS], 2),
        Target("written goals", partial(_catalogue, "items_human_ins.json"), [_HUMAN], 2),
        Target(
            "streams",
            partial(
                _file,
                "large.json",
                lambda path: (
                    list(stream_list(path)) if path.read_bytes()[:1] == b"[" else list(stream_object(path))
                ),
            ),
            [_ITEMS, _HUMAN],
            33,
        ),
        Target(
            "texts",
            _texts,
            [
                "<think>a</think><action>click[Buy \U0001f44d]</action>\nAction: go [SEP] x".encode(),
                b"search[red cup]",
                b"a, b (containing c, d), and e",
            ],
            30,
        ),
    ]
    assert sum(target.share for target in found) == 1000, sum(target.share for target in found)
    return found
