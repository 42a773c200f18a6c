"""The Ray runtime: the parts of a run as actors on one machine or many. The loop is that of the local runtime.

    cluster       joins or starts a cluster, and says what an actor may use
    transfer      weights on their way: arrays for the object store, or a broadcast between processes
    desk, line    requests and answers between the driver and an actor, many in one call
    engine_actor  one engine in a process of its own
    fleet         several of them behind the engine contract: routing, weights, replacement
    environments  environments in processes of their own
    learner       the learner's ranks behind the interface that the loop knows

`training/open.py` puts them together.

What is lost: an engine or an environment worker is replaced and what it was doing is done again elsewhere; a learner
takes the run back to its last checkpoint, exactly as `--resume` would. Nothing is trained on twice either way.
"""
