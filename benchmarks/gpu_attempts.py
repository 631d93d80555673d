"""What might make a streaming step faster on a GPU, each change by itself and together.

    python -m benchmarks.gpu_attempts --agents 48 150 1200 --games Breakout Seaquest

- `each`: the game plays every action, and the result of the chosen one is picked. So no kernel of
  the game waits for the network that chooses: the game runs beside it.
- `sum`: a convolution is a sum of shifted images, each times its weight. So it is one kernel, and
  not three (patches of the image, product, bias).

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
from jaxtyping import Array, PRNGKeyArray

from benchmarks import gpu_chain
from benchmarks.streaming_speed import begin, seconds
from eligrad.engines import stream
from eligrad.envs import Discrete, core
from eligrad.nets import cnn
from eligrad.nets.layers import Affine, patches


def play_each(
    env: core.Environment, key: PRNGKeyArray, state: Any, action: Array, params: Any
) -> core.Transition:
    """The result of `stream.play`, picked from those of all actions."""
    assert isinstance(env.action_space, Discrete)
    each = jax.vmap(lambda action: core.step_autoreset(env, key, state, action, params))(
        jnp.arange(env.action_space.n, dtype=jnp.int32)
    )
    pick = functools.partial(lax.select_n, action.astype(jnp.int32))
    picked = jax.tree.map(lambda leaf: pick(*leaf), each._replace(next_state=None))
    return lax.optimization_barrier(picked)  # for the same reason as in `play`


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
    matmul = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)
    windows = functools.partial(patches, size=window.size, stride=window.stride)
    # The gradient in the weights stays a product of matrices, with patches that nothing waits for.
    along = matmul(lax.optimization_barrier(windows(image)), along_weight)
    along += matmul(windows(along_image), weight) + jnp.broadcast_to(along_bias, along.shape)
    return _convolution(*primals, window), along


PLAY, CONVOLVE = stream.play, cnn.convolve
WAYS: dict[str, tuple[Any, Any]] = {
    "as it is": (PLAY, CONVOLVE),
    "each": (play_each, CONVOLVE),
    "sum": (PLAY, convolve_by_sum),
    "both": (play_each, convolve_by_sum),
}


@contextlib.contextmanager
def changed(way: str) -> Iterator[None]:
    """Programs of the stream that are made within have this change."""
    try:
        stream.play, cnn.convolve = WAYS[way]
        yield
    finally:
        stream.play, cnn.convolve = PLAY, CONVOLVE


def measure(game: str, agents: int, steps: int, repeats: int) -> list[float]:
    """µs a step, all ways in turn."""
    runs = dict[str, stream.Runs]()
    for way in WAYS:
        with changed(way):
            runs[way], _ = begin(game, "qrc", agents, steps)
    rounds = [[seconds(each, steps) for each in runs.values()] for _ in range(repeats)]
    return [1e6 * min(times) / steps for times in zip(*rounds, strict=True)]


def count(game: str, agents: int) -> list[float]:
    """Kernels of a step that wait for each other, all ways."""
    longest = list[float]()
    for way in WAYS:
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
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=6)
    given = parser.parse_args()
    timed = jax.default_backend() != "cpu"
    what = "µs a step" if timed else "kernels in a chain"
    print(f"jax {jax.__version__}, {jax.devices()[0].device_kind}; {what}")
    print(f"{'game':<14}{'runs':>6}{''.join(f'{way:>10}' for way in WAYS)}")
    for game in given.games:
        for agents in given.agents:
            each = (
                measure(game, agents, given.steps, given.repeats) if timed else count(game, agents)
            )
            print(f"{game:<14}{agents:>6}{''.join(f'{x:>10.1f}' for x in each)}", flush=True)


if __name__ == "__main__":
    main()
