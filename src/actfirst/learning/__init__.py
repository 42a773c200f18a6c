"""The learner: samples in, new weights out.

    samples -> packing -> forward -> loss -> update -> checkpoint

It sees `TurnSample`s and nothing else: no method, environment, rollout or prompt is known here. Paper, appendix
"OPD Optimization" and Table "Training hyperparameters". Modules are imported by name; this package imports none
of them, so that a command that never trains never loads torch.
"""
