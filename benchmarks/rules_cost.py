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

from benchmarks.record import record
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


def minibatch(sequences: int, steps: int) -> tuple[Any, ...]:
    """Parameters of v and h, and sequences of random transitions."""
    keys = jax.random.split(jax.random.key(0), 2)
    params = tuple(tanh_mlp(OBSERVATION, 1, output_gain=1.0, key=key) for key in keys)
    rng = np.random.default_rng(0)
    return (
        params,
        rng.normal(size=(sequences, steps + 1, OBSERVATION)).astype(np.float32),
        rng.normal(size=(sequences, steps)).astype(np.float32),
        np.where(rng.random((sequences, steps)) < 0.02, 0, 0.99).astype(np.float32),
        rng.random((sequences, steps)) < 0.02,
    )


def main() -> None:
    batch = minibatch(SEQUENCES, STEPS)
    functions = {name: minibatch_gradient(name) for name in rules.names()}
    for function in functions.values():
        jax.block_until_ready(function(*batch))
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            began = time.perf_counter()
            jax.block_until_ready([function(*batch) for _ in range(CALLS)])
            times[name].append((time.perf_counter() - began) / CALLS)
    base = statistics.median(times["td"])
    print(
        f"{SEQUENCES} × {STEPS} transitions, {jax.devices()[0].device_kind}, jax {jax.__version__}"
    )
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        title = rules.get(name).title
        record("rules", title, 1e6 * middle, "µs", ratio=middle / base, to="TD(λ)")
    print("goal: TDRC(λ) at most 2.2")


if __name__ == "__main__":
    main()
