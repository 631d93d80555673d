"""CartPole that draws itself without pygame: "tests.training.painted:PaintedCartPole-v0"."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

NAME = "tests.training.painted:PaintedCartPole-v0"


class PaintedCartPole(CartPoleEnv):
    """A picture has one red column, where the cart is, and the step count in its first pixel."""

    def reset(self, **options):
        self.drawn_step = 0
        return super().reset(**options)

    def step(self, action):
        self.drawn_step += 1
        return super().step(action)

    def render(self):
        assert self.render_mode == "rgb_array"
        picture = np.full((40, 60, 3), 200, np.uint8)
        picture[:, int(30 + 10 * self.state[0])] = (255, 0, 0)
        picture[0, 0] = self.drawn_step
        return picture


class Silent(CartPoleEnv):
    """Cannot be rendered."""

    def __init__(self, render_mode=None):
        if render_mode is not None:
            raise ValueError("there is nothing to see")
        super().__init__()


gymnasium.register("PaintedCartPole-v0", PaintedCartPole, max_episode_steps=500)
gymnasium.register("Silent-v0", Silent, max_episode_steps=500)
