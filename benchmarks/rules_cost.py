"""What a gradient critic costs beside a semi-gradient one: loss and gradient, in one process.

    python -m benchmarks.rules_cost

A minibatch of Gradient PPO: 8 sequences of 32 transitions, tanh networks of 2 × 64. TD(λ) needs v
alone; the gradient rules differentiate through the TD(λ) errors and have h's network beside it.
The rules take turns, so that a busy machine slows all of them; the ratio is of medians.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from eligrad import rules
from eligrad.nets import tanh_mlp

SEQUENCES, STEPS, OBSERVATION = 8, 32, 17
CALLS, ROUNDS = 50, 40


def minibatch_gradient(name: str) -> Any:
    """One pass over 33 states of each sequence for v, over 32 for h, and back."""
    rule = rules.get(name)

    def loss(params: Any, obs: Any, reward: Any, discount: Any, truncated: Any) -> Any:
        v_net, h_net = params
        v = jax.vmap(jax.vmap(v_net))(obs)[..., 0]
        options: dict[str, Any] = {"lam": 0.95}
        if rule.has_auxiliary:
            options["h_tm1"] = jax.vmap(jax.vmap(h_net))(obs[:, :-1])[..., 0]
            options["theta"] = h_net
        per_sequence = jax.vmap(
            lambda v, r, g, end, h: rule.loss(
                v[:-1], r, g, v[1:], truncated_t=end, **{**options, **h}
            )
        )
        h = {"h_tm1": options.pop("h_tm1")} if rule.has_auxiliary else {}
        return jnp.mean(per_sequence(v, reward, discount, truncated, h))

    return jax.jit(jax.grad(loss))


def main() -> None:
    keys = jax.random.split(jax.random.key(0), 2)
    params = tuple(tanh_mlp(OBSERVATION, 1, output_gain=1.0, key=key) for key in keys)
    rng = np.random.default_rng(0)
    batch = (
        rng.normal(size=(SEQUENCES, STEPS + 1, OBSERVATION)).astype(np.float32),
        rng.normal(size=(SEQUENCES, STEPS)).astype(np.float32),
        np.where(rng.random((SEQUENCES, STEPS)) < 0.02, 0, 0.99).astype(np.float32),
        rng.random((SEQUENCES, STEPS)) < 0.02,
    )
    functions = {name: minibatch_gradient(name) for name in rules.names()}
    for function in functions.values():
        jax.block_until_ready(function(params, *batch))
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            began = time.perf_counter()
            jax.block_until_ready([function(params, *batch) for _ in range(CALLS)])
            times[name].append((time.perf_counter() - began) / CALLS)
    base = statistics.median(times["td"])
    print(
        f"{SEQUENCES} × {STEPS} transitions, {jax.devices()[0].device_kind}, jax {jax.__version__}"
    )
    print(f"{'rule':<10}{'µs':>8}{'ratio to TD(λ)':>18}")
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        print(f"{rules.get(name).title:<10}{1e6 * middle:>8.0f}{middle / base:>18.2f}")
    print("goal: TDRC(λ) at most 2.2")


if __name__ == "__main__":
    main()
