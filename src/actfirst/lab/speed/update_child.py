"""One trainer in a process of its own, for `actfirst bench update`: `python -m ... actfirst|trl JOB`.

It makes itself ready, then makes one optimiser step for each line "step" it reads, and answers with one line of JSON.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actfirst.lab.speed.update import ANSWER, Job
from actfirst.records import TurnSample

Step = Callable[[], dict[str, float]]
_LEARNING_RATE = 1e-5


def main() -> None:
    import torch

    trainer, job = sys.argv[1], Job(**json.loads(sys.argv[2]))
    torch.set_num_threads(job.threads)
    run = _actfirst if trainer == "actfirst" else _trl
    run(job)


def _serve(step: Step) -> None:
    """Answer until the input ends."""
    ready = _held()
    for line in sys.stdin:
        if line.strip() == "step":
            begun, used = time.perf_counter(), time.process_time()
            answer = step()
            answer |= {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - used}
        else:
            answer = {"memory": float(_peak() - ready)}
        _say(answer)


def _say(answer: dict[str, float]) -> None:
    print(ANSWER + json.dumps(answer), flush=True)


def _held() -> int:
    """The memory of the process now, in bytes: model, optimiser, libraries."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def _peak() -> int:
    """The most memory the process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


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
    learner = Learner(Path(job.model), settings)
    samples = _samples(job)

    def step() -> dict[str, float]:
        done = learner.update(samples)
        return {"tokens": float(done.tokens), "gradient": done.grad_norm}

    _serve(step)


def _samples(job: Job) -> list[TurnSample]:
    """The batch for the learner, behaviour log-probs from a plain forward pass of the model."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(job.model, dtype=torch.float32).eval()
    made = []
    for number, (prompt, response) in enumerate(sequences(job)):
        with torch.no_grad():
            logits = model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
        own = torch.log_softmax(logits, -1).gather(1, torch.tensor(response).unsqueeze(1)).squeeze(1)
        made.append(
            TurnSample(
                id=str(number),
                episode_id="",
                task_id="",
                turn=1,
                prompt_ids=tuple(prompt),
                token_ids=tuple(response),
                mask=(1,) * len(response),
                behaviour_logprobs=tuple(own.tolist()),
                teacher_logprobs=tuple((own + 1.0).tolist()),
                version=0,
            )
        )
    return made


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

    class Turns(TrainerCallback):  # type: ignore[misc]
        """Waits for a line before each step, and answers after it."""

        ready = 0

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            self.ready = _held()

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            while (line := sys.stdin.readline().strip()) != "step":
                if not line:
                    control.should_training_stop = True
                    raise EOFError
                _say({"memory": float(_peak() - self.ready)})
            self.begun, self.used = time.perf_counter(), time.process_time()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> Any:
            if logs and "grad_norm" in logs:
                counted = {"gradient": float(logs["grad_norm"]), "tokens": float(tokens)}
                _say(counted | {"seconds": self.seconds, "cpu": self.cpu})

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            self.seconds, self.cpu = time.perf_counter() - self.begun, time.process_time() - self.used

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
            model, args=config, train_dataset=data, processing_class=_tokenizer(), callbacks=[Turns()]
        )
        with contextlib.suppress(EOFError):
            trainer.train()


def _tokenizer() -> Any:
    """The trainer insists on one, though the batch has ids already."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 1}, unk_token="<pad>"))
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<eos>")


if __name__ == "__main__":
    main()
