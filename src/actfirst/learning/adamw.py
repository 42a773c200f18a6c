"""AdamW by torch's fused kernel: the one that `torch.optim.AdamW(fused=True)` calls, with the same state.

Only the class around it is missing: the first call of any method of torch's optimisers imports the compiler, which
takes a second and a half that a run of minutes feels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

_EPS = 1e-8


class AdamW:
    """`rate` may change from step to step. `state` holds what each parameter that had a gradient carries on: the number
    of its steps, and the moving means of its gradient and of its square."""

    def __init__(
        self, parameters: Iterable[Tensor], rate: float, betas: tuple[float, float], weight_decay: float
    ) -> None:
        self._parameters = list(parameters)
        self._betas, self._weight_decay = betas, weight_decay
        self.rate = rate
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    def zero_grad(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    def restore(self, parameter: Tensor, state: Mapping[str, Tensor]) -> None:
        """Carry on from a state of this parameter."""
        self.state[parameter] = {name: tensor.to(parameter.device) for name, tensor in state.items()}

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients."""
        moved = [(parameter, parameter.grad) for parameter in self._parameters if parameter.grad is not None]
        if not moved:
            return
        for parameter, _ in moved:
            if parameter not in self.state:
                self.state[parameter] = {
                    "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        states = [self.state[parameter] for parameter, _ in moved]
        steps, means, squares = (
            [state[name] for state in states] for name in ("step", "exp_avg", "exp_avg_sq")
        )
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            [parameter for parameter, _ in moved],
            [gradient for _, gradient in moved],
            means,
            squares,
            [],
            steps,
            amsgrad=False,
            lr=self.rate,
            beta1=self._betas[0],
            beta2=self._betas[1],
            weight_decay=self._weight_decay,
            eps=_EPS,
            maximize=False,
        )
