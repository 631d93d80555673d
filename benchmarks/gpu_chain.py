"""How many GPU kernels a step of a streaming agent has, and how many wait for each other in turn.

    pip install jax-cuda13-plugin jax-cuda13-pjrt nvidia-cuda-nvcc nvidia-nvvm
    export JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1  # there is no driver to ask
    python -m benchmarks.gpu_chain --agents 48 --games Breakout Seaquest

With few agents a step takes as long as its longest chain of kernels, most of them small. This
compiles the program for an H200, which the machine need not have, and counts. Nothing runs, so
the compiler chooses the shapes of its matrix products without trying them.
"""

from __future__ import annotations

import argparse
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies

from benchmarks.learning import config_of, variant
from eligrad.agents import QLambda, default_network
from eligrad.engines.devices import OPTIONS
from eligrad.engines.stream import UNROLL, advance, begin
from eligrad.envs import Discrete, Environment, make

H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048
  shared_memory_per_block: 49152 shared_memory_per_core: 233472
  shared_memory_per_block_optin: 232448 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000 l2_cache_size: 62914560 device_memory_size: 150754820096
  clock_rate_ghz: 1.98 registers_per_core_limit: 65536 registers_per_block_limit: 65536
  cuda_compute_capability { major: 9 }
}
platform_name: "CUDA" device_description_str: "NVIDIA H200"
dnn_version_info { major: 9 minor: 12 } runtime_version { major: 13 }
"""
KERNELS = ("fusion", "custom-call", "copy", "while", "dynamic-slice", "dynamic-update-slice")


def program(game: str, variant: str, agents: int) -> str:
    """The compiled program of many agents, as text."""
    env = make(f"MinAtar/{game}-v1")
    assert isinstance(env, Environment)
    assert isinstance(env.action_space, Discrete)
    network = default_network(env.observation_space.shape, env.action_space.n)
    agent = QLambda(config_of(variant, 1_000_000), network)

    def spread(tree: Any) -> Any:
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (agents, *jnp.shape(x))), tree)

    def start() -> Any:
        settings, seeds = spread((agent, env.default_params())), jnp.arange(agents)
        state = jax.vmap(lambda *run: begin(run[0], env, *run[1:]))(*settings, seeds, seeds)
        return *settings, state

    def steps(*arguments: Any) -> Any:
        return jax.vmap(lambda a, p, state: advance(a, env, p, state, 1000, UNROLL))(*arguments)

    chip = topologies.get_topology_desc(platform="cuda", target_config=H200, topology="1x1x1")
    mesh = jax.sharding.Mesh(np.array(chip.devices), "chip")
    here = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    compiled = jax.jit(steps, in_shardings=here, out_shardings=here, donate_argnums=2)
    text = compiled.lower(*jax.eval_shape(start)).compile(OPTIONS["gpu"][0]).as_text()
    assert text is not None
    return text


def chain(text: str) -> tuple[int, int]:
    """The number of kernels in a round of the loop, and in its longest chain."""
    loops = (part for part in re.split(r"\n(?=%|ENTRY)", text) if not part.startswith("ENTRY"))
    body = max(loops, key=lambda part: part.count(" fusion("))
    source: dict[str, str | list[str]] = {}
    """Of what is no kernel: the array it is, or the arrays of a tuple."""
    depth: dict[str, int] = {}

    def origin(name: str) -> str | list[str]:
        while name in source:
            found = source[name]
            if isinstance(found, list):
                return found
            name = found
        return name

    for line in body.splitlines():
        found = re.match(r"\s+(?:ROOT )?%([\w.-]+) = (?:\(.*?\)|\S+) ([\w-]+)\((.*)", line)
        if not found:
            continue
        name, kind, rest = found.groups()
        arguments = re.findall(r"%([\w.-]+)", rest.split("), ")[0])
        if kind in KERNELS:
            origins = (origin(argument) for argument in arguments)
            depth[name] = 1 + max(
                (depth.get(o, 0) for o in origins if isinstance(o, str)), default=0
            )
        elif kind == "tuple":
            source[name] = arguments
        elif kind == "get-tuple-element":
            parts = origin(arguments[0])
            index = int(re.findall(r"\), index=(\d+)", line)[0])
            source[name] = parts[index] if isinstance(parts, list) else parts
        elif kind in ("bitcast", "opt-barrier"):
            source[name] = arguments[0]
    return len(depth), max(depth.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", nargs="+", type=int, default=[48])
    parser.add_argument("--games", nargs="+", default=["Breakout", "Seaquest"])
    parser.add_argument("--variants", nargs="+", type=variant, default=["qrc"])
    given = parser.parse_args()
    print(f"jax {jax.__version__}; of each step:")
    print(f"{'game':<14}{'agent':<28}{'runs':>6}{'kernels':>9}{'in a chain':>12}")
    for game in given.games:
        for v in given.variants:
            for agents in given.agents:
                kernels, longest = chain(program(game, v, agents))
                print(f"{game:<14}{v:<28}{agents:>6}{kernels / UNROLL:>9}{longest / UNROLL:>12}")


if __name__ == "__main__":
    main()
