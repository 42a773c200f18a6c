"""The frozen teacher as a scorer of responses.

Scores the very token ids that the student's engine returned, under the student's prompt. Inserted tokens are
scored too (they are context) and masked later. In-process: an engine that only scores.
"""

from __future__ import annotations

from dataclasses import dataclass

from actfirst.engines.base import Engine, Listing
from actfirst.errors import TeacherError
from actfirst.records import Response, Scores


@dataclass(frozen=True)
class EngineTeacher:
    """A teacher behind an engine of this process. If the engine dies, so does the run: its error passes through.

    With `alternatives`, an engine that can list the most likely tokens does so; from all others none are asked.
    """

    engine: Engine
    alternatives: int = 0

    def busy_seconds(self) -> float:
        """How long the teacher has computed so far."""
        return self.engine.stats().busy_seconds

    async def score(self, response: Response) -> Scores:
        asked = response.prompt_ids, response.token_ids
        if self.alternatives and isinstance(self.engine, Listing):
            scores = await self.engine.scores(*asked, self.alternatives)
        else:
            scores = Scores(await self.engine.score(*asked))
        if len(scores.logprobs) != len(response.token_ids):
            raise TeacherError(
                f"the teacher returned {len(scores.logprobs)} log-probs for {len(response.token_ids)} tokens"
            )
        return scores
