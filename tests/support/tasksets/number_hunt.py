"""A taskset of verifiers, written with its public classes: find a number between 1 and 7 by guessing.

The environment answers "higher" or "lower"; who finds it within four guesses gets the reward 1, later ones half.
"""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf


class HuntData(vf.TaskData):
    number: int


class HuntConfig(vf.TasksetConfig):
    tasks: int = 21


class HuntTask(vf.Task[HuntData, vf.State, vf.TaskConfig]):
    @vf.reward(weight=0.5)
    async def named_it(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.number))


class HuntEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class HuntEnv(vf.Env[HuntEnvConfig]):
    async def run(self, task, agents):  # type: ignore[no-untyped-def]
        guesses = 0
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn("Which number is it?")
            while not segment.terminated and segment.last_reply != str(task.data.number):
                guesses += 1
                if not segment.last_reply.isdigit():
                    segment = await interaction.turn("Say a number.")
                    continue
                way = "higher" if int(segment.last_reply) < task.data.number else "lower"
                segment = await interaction.turn(f"It is {way} than {segment.last_reply}.")
        interaction.trace.record_reward("soon", float(guesses < 4), 0.5)


class HuntTaskset(vf.Taskset[HuntTask, HuntConfig]):
    def load(self) -> Iterator[HuntTask]:
        for place in range(self.config.tasks):
            data = HuntData(
                name=f"hunt {place}",
                system_prompt="Find a number between 1 and 7.",
                number=place * 5 % 7 + 1,
            )
            yield HuntTask(data, self.config.task)


__all__ = ["HuntEnv", "HuntTaskset"]
