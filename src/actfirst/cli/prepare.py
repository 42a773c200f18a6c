"""`actfirst prepare`: everything before distillation, from a base model to a teacher and references."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import print_note, write_result
from actfirst.cli.options import Overrides, ResultFile
from actfirst.cli.train import RUNS
from actfirst.terminal.visible import say

if TYPE_CHECKING:
    from actfirst.training.prepare import PrepareWatcher


def prepare(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or a .toml file with a section `prepare`.")],
    overrides: Overrides = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Where results go. Default: runs/RECIPE-prepared.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say which stages would run, start nothing.")
    ] = False,
    json_file: ResultFile = None,
) -> None:
    """Make a teacher and references: the stages that the recipe's section `prepare` names.

    A stage whose result is there is skipped, one that was stopped goes on: give the same command again. Where a result
    is gone or the model before a stage has changed, the stage and all that was built on it are made again.

    \b
    actfirst prepare pocket-prepare
    actfirst prepare paper/teacher-alfworld-sft --dry-run
    actfirst train pocket models.teacher=runs/pocket-prepare-prepared/gigpo/checkpoints/...
    """
    from actfirst.config.load import resolve
    from actfirst.config.recipe_files import short_name

    place = folder or RUNS / f"{short_name(recipe)}-prepared"
    if dry_run:
        section = resolve(recipe, overrides or []).prepare
        for name in section.stages:
            settings = " ".join(getattr(section, name, ()))
            say(f"{name}: {settings}".rstrip(": "))
        print_note(f"results go to {place}")
        return
    from actfirst.errors import RunStopped
    from actfirst.training.prepare import PAGE, STATE
    from actfirst.training.prepare import prepare as run_stages

    try:
        record = run_stages(recipe, overrides or [], place, _watcher())
    except (KeyboardInterrupt, RunStopped) as stopped:
        print_note("stopped; the same command goes on")
        raise typer.Exit(stopped.code if isinstance(stopped, RunStopped) else 130) from None
    say((place / PAGE).read_text(encoding="utf-8"), end="")
    print_note(f"written to {place / PAGE} and {place / STATE}")
    write_result(json_file, record.to_json())


def _watcher() -> PrepareWatcher:
    from actfirst.config.teacher_sections import StageName
    from actfirst.terminal.console import Console
    from actfirst.terminal.panel import choose_watcher
    from actfirst.terminal.sft import SftProgress
    from actfirst.training.prepare import PrepareWatcher, StageRecord
    from actfirst.training.sft import SftWatcher
    from actfirst.training.watch import Watcher

    class Told(PrepareWatcher):
        """Says on stderr which stage is at work, and lets runs show themselves as they always do."""

        def skipped(self, stage: StageRecord) -> None:
            print_note(f"{stage.name}: done already")

        def again(self, name: StageName, reason: str, kept: Path | None) -> None:
            old = f"; the old result is kept as {kept.name}" if kept else ""
            print_note(f"{name}: made again, because {reason}{old}")

        def began(self, name: StageName, model: Path) -> None:
            print_note(f"{name}: begins with {model}")

        def ended(self, stage: StageRecord) -> None:
            print_note(f"{stage.name}: {stage.seconds:.1f} s")

        def progress(self, done: int, of: int) -> None:
            if done == of or done % max(1, of // 10) == 0:
                print_note(f"{done} of {of}")

        def sft(self) -> SftWatcher:
            return SftProgress(Console())

        def training(self, folder: Path) -> Watcher:
            return choose_watcher(Console(), folder)

    return Told()
