"""Models of the Hugging Face hub: `owner/name`, or `owner/name@revision`, through huggingface_hub and its cache.

A run writes down the commit that it used (`pinned`). The variables of huggingface_hub hold: HF_HOME is the cache,
HF_HUB_OFFLINE=1 asks nobody, HF_ENDPOINT is another hub, HF_TOKEN opens what is not public.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actfirst.errors import ConfigError

_ID = re.compile(r"[\w.-]+/[\w.-]+(?:@[\w.-]+)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_FILES = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model", "*.txt"]


def is_hub_id(name: str) -> bool:
    """Whether `name` can only mean a model of the hub: it reads like one, and no such folder exists."""
    path = Path(name).expanduser()
    return bool(_ID.fullmatch(name)) and not name.startswith(".") and not path.exists()


def pinned(name: str, key: str) -> str:
    """`owner/name@commit` of what `name` means now; nothing is downloaded. Other names stay as they are."""
    if not is_hub_id(name):
        return name
    model, revision = _parts(name)
    if revision is not None and _COMMIT.fullmatch(revision):
        return name
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_OFFLINE

    with _explained(name, key):
        if HF_HUB_OFFLINE:
            return f"{model}@{_cached(model, revision).name}"
        commit = HfApi().model_info(model, revision=revision, timeout=30).sha
    return f"{model}@{commit}"


def fetch(name: str, key: str) -> Path:
    """The folder of a model in the cache; what is missing there is downloaded."""
    from huggingface_hub import snapshot_download

    model, revision = _parts(name)
    with _explained(name, key):
        return Path(str(snapshot_download(model, revision=revision, allow_patterns=_FILES)))


def cached(name: str) -> Path | None:
    """The folder of a model if the cache holds it."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return _cached(*_parts(name))
    except LocalEntryNotFoundError:
        return None


def upload(folder: Path, model: str, *, private: bool, message: str) -> str:
    """Put all files of a folder into the hub's `model`, which is made if it does not exist; returns its address."""
    from huggingface_hub import HfApi

    if not _ID.fullmatch(model) or "@" in model:
        raise ConfigError(f"{model!r} is no name of a model on the hub; write OWNER/NAME")
    hub = HfApi()
    with _explained(model, "push"):
        address = hub.create_repo(model, private=private, exist_ok=True)
        hub.upload_folder(repo_id=model, folder_path=folder, commit_message=message)
    return str(address)


def _parts(name: str) -> tuple[str, str | None]:
    model, _, revision = name.partition("@")
    return model, revision or None


def _cached(model: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download

    return Path(str(snapshot_download(model, revision=revision, local_files_only=True, allow_patterns=_FILES)))


@contextmanager
def _explained(name: str, key: str) -> Iterator[None]:
    """Say what is wrong with a model of the hub, and what helps."""
    import httpx2
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    model, revision = _parts(name)
    try:
        yield
    except GatedRepoError as error:
        raise ConfigError(
            f"{key} = {name!r}: its owner asks you to accept terms; accept them on the page of {model}, then log in "
            "with `hf auth login`"
        ) from error
    except RepositoryNotFoundError as error:
        raise ConfigError(
            f"{key} = {name!r}: there is no such folder here and no such model on the hub, or it is not public; "
            "correct the name, or log in with `hf auth login`"
        ) from error
    except RevisionNotFoundError as error:
        raise ConfigError(
            f"{key} = {name!r}: {model} has no revision {revision!r}; name a branch, a tag or a commit"
        ) from error
    except (LocalEntryNotFoundError, OfflineModeIsEnabled, httpx2.TransportError) as error:
        raise ConfigError(
            f"{key} = {name!r}: there is no such folder here, the hub cannot be asked, and its cache does not hold the "
            f"model; connect, or run `hf download {model}` where there is a connection and copy the cache (HF_HOME)"
        ) from error
    except HfHubHTTPError as error:
        raise ConfigError(f"{key} = {name!r}: the hub refused: {error}; log in with `hf auth login`") from error
