"""actfirst: on-policy distillation of multi-turn language agents in which reasoning never blocks acting."""

__version__ = "0.1.0"
