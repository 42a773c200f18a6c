"""The training loop. Everything else in this package exists so that this fits on one screen.

Paper, Section 4.3 and "OPD Optimization": rollout batches fill a FIFO buffer while the learner updates; an update
takes responses of the current or the previous policy version; weights reach the engine after every update.
"""

from __future__ import annotations

from actfirst.errors import RunStopped
from actfirst.runs.lines import Summary
from actfirst.training.run import Training


async def train(run: Training) -> Summary:
    """Run to the configured number of updates; returns the summary. RunStopped is raised if the end is asked for."""
    try:
        await run.begin()
        while run.learner.version < run.updates:
            run.stop.check()
            while (samples := run.buffer.take(run.batch_size, run.learner.version)) is None:
                with run.clock.stage("rollout"):
                    batch = await run.stop.unless(run.rollouts.next())
                run.receive(batch)
            with run.clock.stage("update"):
                stats = await run.learner.update(samples)  # rollouts go on meanwhile
            with run.clock.stage("sync"):
                await run.arrival.settle()
                await run.engine.load_weights(run.learner.weights(), run.learner.version)
                await run.arrival.begin(samples, run.learner.version)
            run.record(samples, stats)
            await run.evaluate_if_due()
            await run.checkpoint_if_due()
        await run.arrival.settle()
        return await run.finish()
    except RunStopped:
        await run.checkpoint_before_the_end()
        raise
    finally:
        await run.close()
