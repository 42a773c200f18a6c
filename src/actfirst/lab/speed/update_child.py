"""One trainer in a process of its own, for `actfirst bench update`: `python -m ... actfirst|trl JOB`.

It makes itself ready, then makes one optimiser step for each line that it reads, and answers with one line of JSON.
Only this module knows TRL; the extra `bench` installs it.
"""

from __future__ import annotations

import contextlib
import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from actfirst.lab.speed.update import ANSWER, Job
from actfirst.models.plain import open_plain, plain_logprobs
from actfirst.reading import parse_json
from actfirst.records import TurnSample

_LEARNING_RATE = 1e-5


def main() -> None:
    import torch

    trainer, job = sys.argv[1], Job(**parse_json(sys.argv[2]))
    torch.set_num_threads(job.threads)
    (_actfirst if trainer == "actfirst" else _trl)(job)


class _Turns:
    """Answers the parent, from the moment at which the trainer is ready."""

    def __init__(self) -> None:
        import psutil

        self._ready = int(psutil.Process().memory_info().rss)
        self._begun, self._used = 0.0, 0.0
        self._took: dict[str, float] = {}

    def wait(self) -> bool:
        """Wait for the next request of a step and start its time; False when the input ends."""
        asked = sys.stdin.readline() != ""
        self._begun, self._used = time.perf_counter(), time.process_time()
        return asked

    def stop(self) -> None:
        """The step is over."""
        self._took = {"seconds": time.perf_counter() - self._begun, "cpu": time.process_time() - self._used}

    def answer(self, tokens: int, gradient: float) -> None:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - self._ready
        found = {"tokens": tokens, "gradient": gradient, "memory": memory, **self._took}
        print(ANSWER + json.dumps(found), flush=True)


def sequences(job: Job) -> list[tuple[list[int], list[int]]]:
    """Random prompts of different and responses of equal lengths."""
    rng = random.Random(job.seed)

    def tokens(count: int) -> list[int]:
        return [rng.randrange(job.vocabulary) for _ in range(count)]

    return [
        (tokens(rng.randint(job.prompt // 2, job.prompt)), tokens(job.response)) for _ in range(job.samples)
    ]


def _actfirst(job: Job) -> None:
    from actfirst.config.sections import LearnerSection
    from actfirst.learning.update import Learner

    settings = LearnerSection(
        learning_rate=_LEARNING_RATE,
        weight_decay=0.0,
        token_budget=job.micro * (job.prompt + job.response),
        precision="bfloat16" if job.precision == "bfloat16" else "float32",
        threads=job.threads,
    )
    learner, samples, turns = Learner(Path(job.model), settings), _samples(job), _Turns()
    while turns.wait():
        done = learner.update(samples)
        turns.stop()
        turns.answer(done.tokens, done.grad_norm)


def _samples(job: Job) -> list[TurnSample]:
    """The batch for the learner, behaviour log-probs from a plain forward pass of the model."""
    model = open_plain(Path(job.model))
    return [
        TurnSample(
            id=str(number),
            episode_id="",
            task_id="",
            turn=1,
            prompt_ids=tuple(prompt),
            token_ids=tuple(response),
            mask=(1,) * len(response),
            behaviour_logprobs=tuple(plain_logprobs(model, prompt, response)),
            advantages=(1.0,) * len(response),
            version=0,
        )
        for number, (prompt, response) in enumerate(sequences(job))
    ]


def _trl(job: Job) -> None:
    try:
        from datasets import Dataset
        from trl import SFTConfig, SFTTrainer
    except ImportError as error:
        sys.exit(f"TRL cannot be imported ({error}): install actfirst[bench], or give --trl-python")
    import torch
    from transformers import AutoModelForCausalLM, TrainerCallback

    rows = sequences(job)
    data = Dataset.from_dict(
        {
            "input_ids": [prompt + response for prompt, response in rows],
            "labels": [[-100] * len(prompt) + response for prompt, response in rows],
        }
    )
    model = AutoModelForCausalLM.from_pretrained(job.model, dtype=torch.float32)
    tokens = sum(len(prompt) + len(response) for prompt, response in rows)

    class Steps(TrainerCallback):  # type: ignore[misc]
        """Waits before each step until it is asked for, and answers after it."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            self.turns = _Turns()

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            if not self.turns.wait():
                control.should_training_stop = True
                raise EOFError

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            self.turns.stop()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> Any:
            if logs and "grad_norm" in logs:
                self.turns.answer(tokens, float(logs["grad_norm"]))

    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            output_dir=folder,
            per_device_train_batch_size=job.micro,
            gradient_accumulation_steps=-(-job.samples // job.micro),
            learning_rate=_LEARNING_RATE,
            lr_scheduler_type="constant",
            weight_decay=0.0,
            max_grad_norm=1.0,
            max_steps=10_000,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            bf16=job.precision == "bfloat16",
            use_cpu=True,
            gradient_checkpointing=False,
            disable_tqdm=True,
            max_length=None,
            dataset_kwargs={"skip_prepare_dataset": True},
        )
        trainer = SFTTrainer(
            model, args=config, train_dataset=data, processing_class=_tokenizer(), callbacks=[Steps()]
        )
        with contextlib.suppress(EOFError):
            trainer.train()


def _tokenizer() -> Any:
    """The trainer requires one, although the batch consists of ids."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1}, unk_token="<pad>"))
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<eos>")


if __name__ == "__main__":
    main()
