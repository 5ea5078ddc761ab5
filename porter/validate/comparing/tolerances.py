"""How much two runs may differ, each number with the measurement that it rests on.

Noise: the largest difference between correct pairs; mistake: the smallest difference that one of the seeded
mistakes of `tests/real/test_seeded_mistakes.py` makes in the same quantity. A tolerance lies between the two, nearer
to the noise. Measured on tiny random models of all families, 20 to 40 steps, 8 simulated CPU devices, TRL 1.16.0 on
torch 2.13 against Tunix 0.1.7.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerances:
    """Largest difference of each quantity; all relative except where said.

    `learning_rate`: share of the schedule's highest rate. `weights`: L2 norm of the difference of all trained
    tensors, as a share of the L2 norm of the change that training made. `devices`: loss of the same port on other
    meshes. `loss_mean`: mean over the steps, which a constant drift reaches before the largest one does. `metrics`:
    rewards and log-probabilities, as a share of the largest in the run.
    """

    learning_rate: float
    initial_loss: float
    loss: float
    loss_mean: float
    metrics: float
    grad_norm: float
    weights: float
    evaluation: float
    devices: float


FLOAT32 = Tolerances(
    # noise 3e-7 (a float32 schedule against Python's doubles); mistake: off by one step, 1e-2 and more
    learning_rate=2e-6,
    # noise 8e-7; mistake: mean of micro-batch means 1.5e-2
    initial_loss=1e-5,
    # noise 1.5e-6 over 40 steps; mistake: weight decay of 1e-4 for 0.01, 1.8e-5
    loss=1e-5,
    loss_mean=5e-6,
    # as the loss; a reward is a difference of log-probabilities a thousand times its size
    metrics=1e-5,
    # noise 5e-6; mistake: weight decay of 1e-4 for 0.01, 1.1e-4 after 20 steps
    grad_norm=5e-5,
    # noise 6e-6, and 7e-5 in the first steps of gemma4, where Adam divides tiny gradients by each other;
    # mistake: weight decay of 1e-4 for 0.01, 8e-4
    weights=2e-4,
    # as the loss of a step
    evaluation=1e-5,
    # noise 1.4e-6: sums in another order
    devices=1e-5,
)

BF16 = Tolerances(
    learning_rate=2e-6,
    # noise 4e-4 to 6e-4: torch's own bf16 differs from its float32 by as much
    initial_loss=1e-3,
    # noise 6e-4 with float32 adapters; mistake: bf16 adapters 0.9e-3 to 2e-3 (largest), mean above 3e-4
    loss=1e-3,
    loss_mean=3e-4,
    metrics=5e-2,
    grad_norm=5e-2,
    # noise 2e-2; mistake: bf16 adapters 0.53
    weights=1e-1,
    evaluation=1e-3,
    devices=1e-3,
)


def tolerances(dtype: str) -> Tolerances:
    """The set for `float32` or `bf16`."""
    return {"float32": FLOAT32, "bf16": BF16}[dtype]
