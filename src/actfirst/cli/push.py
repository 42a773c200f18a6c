"""`actfirst push`: a run's newest checkpoint to the hub, with a model card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_note
from actfirst.terminal.visible import say


def push(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    model: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="The model's name on the hub.")],
    private: Annotated[bool, typer.Option("--private", help="Make it visible to its owner alone.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the model card and upload nothing.")
    ] = False,
) -> None:
    """Upload the newest checkpoint of a run to the Hugging Face hub, with its recipe and a model card.

    \b
    actfirst push runs/pocket-1 me/pocket-student --private
    actfirst push runs/pocket-1 me/pocket-student --dry-run

    Log in first: hf auth login
    """
    import shutil
    import tempfile

    from actfirst.errors import CheckpointError
    from actfirst.models.hub import upload
    from actfirst.runs.run import open_run
    from actfirst.runs.run_folder import saved_config
    from actfirst.terminal.card import model_card

    opened = open_run(run)
    checkpoints = opened.checkpoints()
    if not checkpoints:
        raise CheckpointError(f"{run} has no complete checkpoint yet; train it further")
    card = model_card(opened, checkpoints[-1])
    if dry_run:
        say(card, end="")
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        shutil.copytree(checkpoints[-1].model, folder)
        shutil.copyfile(saved_config(run), folder / "recipe.toml")
        (folder / "README.md").write_text(card, encoding="utf-8")
        message = f"After {checkpoints[-1].update} updates"
        address = upload(folder, model, private=private, message=message)
    print_note(f"uploaded to {address}")
