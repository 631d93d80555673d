"""What might make a streaming step faster on a GPU, each change by itself and together.

    python -m benchmarks.gpu_attempts --agents 48 150 1200 --games Breakout Seaquest

- `sum`: a convolution is a sum of shifted images, each times its weight. So it is one kernel, and
  not three (patches of the image, product, bias).
- `ahead`: the game plays every action, and q is evaluated at all that may follow together with the
  observation that the agent acts in. So a step reads the weights of q once in place of twice, and
  the game waits for no network. Each output of the hidden layer is a sum of its own, and the
  compiler makes one kernel of these sums. (As a product of matrices it gains nothing.)
- `fewer`: the compiler may merge the small kernels that `kernels.apart` keeps apart. So there are
  fewer, and more of them wait for each other.

Prints µs a step of QRC(λ) with each change, in turn, the best of some rounds. Without an
accelerator it prints the length of the chain of kernels, as `gpu_chain` does.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PRNGKeyArray, PyTree

from benchmarks import gpu_chain
from benchmarks.streaming_speed import begin, seconds
from eligrad import rules
from eligrad._base import kernels
from eligrad.agents import q_lambda
from eligrad.agents.protocol import Transition
from eligrad.agents.streaming import best_action, epsilon_greedy, normalize_transition
from eligrad.engines import stream
from eligrad.envs import Discrete, core
from eligrad.nets import cnn, layers
from eligrad.nets.layers import Affine, patches


def convolve_by_sum(image: Array, filters: Affine, window: cnn.Window) -> Array:
    """The result of `cnn.convolve`, up to rounding."""
    return _convolution(image, filters.weight, filters.bias, window)


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def _convolution(image: Array, weight: Array, bias: Array, window: cnn.Window) -> Array:
    # `patches` would be a kernel of its own.
    size, stride = window.size, window.stride
    rows, columns = ((side - size) // stride + 1 for side in image.shape[:2])
    shifted = [
        image[i : i + stride * rows : stride, j : j + stride * columns : stride, channel, None]
        for i in range(size)
        for j in range(size)
        for channel in range(image.shape[2])
    ]
    products = [x * row[None, None] for x, row in zip(shifted, weight, strict=True)]
    return functools.reduce(jnp.add, products, jnp.broadcast_to(bias, products[0].shape))


@_convolution.defjvp
def _(window: cnn.Window, primals: Any, tangents: Any) -> tuple[Array, Array]:
    image, weight, _ = primals
    along_image, along_weight, along_bias = tangents
    windows = functools.partial(patches, size=window.size, stride=window.stride)
    # The gradient in the weights stays a product of matrices, with patches that nothing waits for.
    along = MATMUL(lax.optimization_barrier(windows(image)), along_weight)
    along += MATMUL(windows(along_image), weight) + jnp.broadcast_to(along_bias, along.shape)
    return _convolution(*primals, window), along


def step_ahead(
    agent: q_lambda.QLambda,
    env: core.Environment,
    params: Any,
    state: stream.RunState,
    act_key: PRNGKeyArray,
    update_key: PRNGKeyArray,
    env_key: PRNGKeyArray,
) -> tuple[stream.RunState, stream.Record]:
    """The result of the stream's step, for the target "max", up to rounding."""
    del update_key
    assert isinstance(env.action_space, Discrete)
    config, critic, mine = agent.config, agent._critic, state.agent

    def normalized(transition: Transition) -> Any:
        return normalize_transition(mine.normalizer, transition, config.gamma)

    def play(action: Array) -> tuple[core.Transition, Array]:
        reached = core.step_autoreset(env, env_key, state.env, action, params)
        _, seen = normalized(Transition.of(reached))
        return reached._replace(next_state=None), seen.next_observation

    each, may_follow = jax.vmap(play)(jnp.arange(env.action_space.n, dtype=jnp.int32))
    each, may_follow = lax.optimization_barrier(each), kernels.apart(may_follow)
    observations = jnp.concatenate([mine.observation[None], may_follow])
    values = jax.vmap(functools.partial(critic.evaluate, mine.w))(observations)
    before = jax.tree.map(lambda leaf: leaf[0], values)
    choice = epsilon_greedy(act_key, before.values, agent.epsilon(mine.step))
    after = pick(jax.tree.map(lambda leaf: leaf[1:], values), choice.action)
    reached = lax.optimization_barrier(pick(each, choice.action))
    normalizer, seen = normalized(Transition.of(reached))
    ended, step = reached.terminated | reached.truncated, mine.step + 1
    rho, reset = rules.trace_cut(config.trace_cut, choice.greedy, ended)
    taken, best = (
        jax.nn.one_hot(action, before.values.size)
        for action in (choice.action, best_action(after.values))
    )
    learned, metrics = critic.learn(
        mine._replace(action=choice.action, greedy=choice.greedy),
        (before, taken),
        (after, best),
        seen.reward,
        jnp.where(reached.terminated, 0.0, jnp.asarray(config.gamma, jnp.float32)),
        values="action",
        reset=reset,
        rho=rho,
    )
    learned = learned._replace(
        normalizer=normalizer, observation=seen.observation, planned=~ended, step=step
    )
    state, episode = stream.count(state, reached, choice.action)
    metrics |= {"epsilon": agent.epsilon(step)}
    return state._replace(agent=learned), stream.Record(*episode, metrics)


def pick(tree: PyTree, index: Array) -> PyTree:
    """One entry of the leading axis of each array; not a gather, which is a kernel of its own."""
    return jax.tree.map(lambda leaf: lax.select_n(index, *leaf), tree)


@jax.custom_jvp
def _product(x: Array, weight: Array) -> Array:
    return _products(x, weight)


_product.defjvps(
    lambda tangent, _, x, weight: MATMUL(tangent, weight),
    lambda tangent, _, x, weight: MATMUL(x, tangent),
)


@jax.custom_batching.custom_vmap
def _products(x: Array, weight: Array) -> Array:
    return MATMUL(x, weight)


@_products.def_vmap
def _(size: int, batched: list[bool], x: Array, weight: Array) -> tuple[Array, bool]:
    if batched == [True, False]:  # some observations, and one network
        return jnp.stack([_products(x[i], weight) for i in range(size)]), True
    axes = [0 if each else None for each in batched]
    return jax.vmap(MATMUL, axes)(x, weight), True


def matmul_by_rows(x: Array, weight: Array) -> Array:
    """A product; if it is a large one, its `vmap` over vectors is a product for each of them."""
    large = x.ndim == 1 and weight.size > kernels.MOST_NUMBERS
    return _product(x, weight) if large else MATMUL(x, weight)


STEP, CONVOLVE, MATMUL, APART = stream._step, cnn.convolve, layers._matmul, kernels.apart
WAYS: dict[str, tuple[Any, Any, Any, Any]] = {
    "as it is": (STEP, CONVOLVE, MATMUL, APART),
    "sum": (STEP, convolve_by_sum, MATMUL, APART),
    "sum, fewer": (STEP, convolve_by_sum, MATMUL, lambda tree: tree),
    "ahead": (step_ahead, CONVOLVE, matmul_by_rows, APART),
    "sum, ahead": (step_ahead, convolve_by_sum, matmul_by_rows, APART),
}


@contextlib.contextmanager
def changed(way: str) -> Iterator[None]:
    """Programs of the stream that are made within have this change."""
    try:
        stream._step, cnn.convolve, layers._matmul, kernels.apart = WAYS[way]
        yield
    finally:
        stream._step, cnn.convolve, layers._matmul, kernels.apart = STEP, CONVOLVE, MATMUL, APART


def measure(game: str, agents: int, ways: list[str], steps: int, repeats: int) -> list[float]:
    """µs a step, the ways in turn."""
    runs = list[stream.Runs]()
    for way in ways:
        with changed(way):
            runs.append(begin(game, "qrc", agents, steps)[0])
    rounds = [[seconds(each, steps) for each in runs] for _ in range(repeats)]
    return [1e6 * min(times) / steps for times in zip(*rounds, strict=True)]


def count(game: str, agents: int, ways: list[str]) -> list[float]:
    """Kernels of a step that wait for each other, by way."""
    longest = list[float]()
    for way in ways:
        with changed(way):
            program = gpu_chain.program(game, "qrc", agents)
        longest.append(gpu_chain.chain(program)[1] / stream.UNROLL)
    return longest


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agents", nargs="+", type=int, default=[48])
    parser.add_argument("--games", nargs="+", default=["Breakout", "Seaquest"])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=6)
    given = parser.parse_args()
    timed = jax.default_backend() != "cpu"
    what = "µs a step" if timed else "kernels in a chain"
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}; {what}")
    print(f"{'game':<14}{'runs':>6}{''.join(f'{way:>12}' for way in given.ways)}")
    for game in given.games:
        for agents in given.agents:
            each = (
                measure(game, agents, given.ways, given.steps, given.repeats)
                if timed
                else count(game, agents, given.ways)
            )
            print(f"{game:<14}{agents:>6}{''.join(f'{x:>12.1f}' for x in each)}", flush=True)


if __name__ == "__main__":
    main()
