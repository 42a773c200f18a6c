"""What the processes of `ranks.py` find already imported."""

import contextlib
from importlib import import_module

for name in (
    "transformers.models.llama.modeling_llama",
    "transformers.models.qwen3.modeling_qwen3",
    "actfirst.learning.sharded_checkpoint",
    "tests.learning.making",
    "peft",
):
    with contextlib.suppress(ImportError):
        import_module(name)
