"""Averaged weights (`learner.average`): beside the trained ones, so that training does not notice them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

AVERAGE = "average"
"""The moment that holds the averaged weights."""


class Average:
    """A running mean of `parameters`, which it reads and never changes; without a decay it holds nothing."""

    def __init__(self, parameters: Mapping[str, Tensor], decay: float) -> None:
        self._parameters, self._decay = parameters, decay
        self.weights: dict[str, Tensor] = {}
        self.begin({})

    def begin(self, stored: Mapping[str, Tensor]) -> None:
        """Go on with a stored average; without one, from the weights as they are."""
        if self._decay:
            own = ((name, stored.get(name, parameter)) for name, parameter in self._parameters.items())
            self.weights = {name: tensor.detach().clone() for name, tensor in own}

    @torch.no_grad()
    def follow(self, version: int) -> None:
        """The first weights are not good ones, so they are soon forgotten: the decay rises to its value."""
        decay = min(self._decay, (1 + version) / (10 + version))
        for name, average in self.weights.items():
            average.lerp_(self._parameters[name], 1 - decay)

    def moments(self) -> dict[str, Tensor]:
        return {f"{AVERAGE}.{name}": value for name, value in self.weights.items()}
