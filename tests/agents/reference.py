"""The streaming agents in NumPy: plain loops, double precision, derivatives by hand.

Written from the formulas, without code of the library, which is compared with it. Parameters
are flat lists, weight and bias of each layer in turn; a layer's weight is [fan_in, units].
"""

import types

import numpy as np

LEAK = 0.01
NORM_EPSILON = 1e-5
SCALE_EPSILON = 1e-8


# Networks: [3 x 3 convolution for images], dense layers, each but the last normalised and leaky.


def windows(image):
    """The 3 x 3 windows of an image, one per row, each in the order row, column, channel."""
    height, width, _ = image.shape
    rows = np.zeros(((height - 2) * (width - 2), 9 * image.shape[2]))
    for i in range(height - 2):
        for j in range(width - 2):
            rows[i * (width - 2) + j] = image[i : i + 3, j : j + 3].ravel()
    return rows


def norm(x):
    mean = x.sum() / x.size
    variance = ((x - mean) ** 2).sum() / x.size
    return (x - mean) / np.sqrt(variance + NORM_EPSILON)


def norm_backward(x, d_y):
    """dL/dx from dL/dy: y = c / s with c = x - mean(x) and s = sqrt(mean(c²) + ε)."""
    centred = x - x.sum() / x.size
    s = np.sqrt((centred**2).sum() / x.size + NORM_EPSILON)
    d_centred = d_y / s - centred * (d_y * centred).sum() / (x.size * s**3)
    return d_centred - d_centred.sum() / x.size


def leaky(x):
    return np.where(x > 0, x, LEAK * x)


def forward(params, observation):
    """Action values, and what the backward pass needs: inputs and pre-activations by layer."""
    layers = list(zip(params[::2], params[1::2], strict=True))
    seen, features = [], np.asarray(observation, np.float64)
    for number, (weight, bias) in enumerate(layers):
        inputs = windows(features) if features.ndim == 3 else features.reshape(1, -1)
        before = inputs @ weight + bias
        seen.append((inputs, before))
        if number < len(layers) - 1:
            # Flattened in the order row, column, filter.
            features = leaky(norm(before)).reshape(-1)
    return seen[-1][1][0], seen


def q_values(params, observation):
    return forward(params, observation)[0]


def gradient(params, observation, weights):
    """The gradient of `weights · q(observation)` in the parameters."""
    _, seen = forward(params, observation)
    d_before = np.asarray(weights, np.float64).reshape(1, -1)
    gradients = []
    for number in reversed(range(len(seen))):
        inputs, _ = seen[number]
        gradients = [inputs.T @ d_before, d_before.sum(axis=0), *gradients]
        if number > 0:
            below = seen[number - 1][1]
            d_features = (d_before @ params[2 * number].T).reshape(below.shape)
            d_before = norm_backward(below, d_features * np.where(norm(below) > 0, 1.0, LEAK))
    return gradients


def nearest_kink(params, observation):
    """The smallest input of a leaky ReLU, whose derivative jumps at 0."""
    return min(np.abs(norm(before)).min() for _, before in forward(params, observation)[1][:-1])


def features(params, observation):
    """What the last layer is given."""
    return forward(params, observation)[1][-1][0].reshape(-1)


# Running statistics.


class Statistics:
    """Mean and squared deviations of all that was seen (Welford)."""

    def __init__(self, shape):
        self.n, self.mean, self.squares = 0, np.zeros(shape), np.zeros(shape)

    def see(self, x):
        x = np.asarray(x, np.float64)
        self.n += 1
        before = x - self.mean
        self.mean = self.mean + before / self.n
        self.squares = self.squares + before * (x - self.mean)

    def variance(self):
        return self.squares / (self.n - 1) if self.n > 1 else np.ones_like(self.squares)

    def deviation(self):
        return np.sqrt(self.variance() + SCALE_EPSILON)

    def normalised(self, x):
        return (np.asarray(x, np.float64) - self.mean) / self.deviation()


# Optimisers: new parameters from a direction, its trace, the gradient that joined it, and δ.


class SGD:
    def __init__(self, step_size, settings):
        self.step_size = step_size

    def step(self, params, direction, trace, gradient, delta):
        return [p + self.step_size * d for p, d in zip(params, direction, strict=True)]


class Adam:
    """Kingma and Ba's, with its usual constants."""

    def __init__(self, step_size, settings):
        self.step_size, self.t = step_size, 0
        self.m, self.v = [], []

    def step(self, params, direction, trace, gradient, delta):
        if self.t == 0:
            self.m = [np.zeros_like(p) for p in params]
            self.v = [np.zeros_like(p) for p in params]
        self.t += 1
        self.m = [0.9 * m + 0.1 * d for m, d in zip(self.m, direction, strict=True)]
        self.v = [0.999 * v + 0.001 * d**2 for v, d in zip(self.v, direction, strict=True)]
        moved = []
        for p, m, v in zip(params, self.m, self.v, strict=True):
            m_hat, v_hat = m / (1 - 0.9**self.t), v / (1 - 0.999**self.t)
            moved.append(p + self.step_size * m_hat / (np.sqrt(v_hat) + 1e-8))
        return moved


class ObGD:
    def __init__(self, step_size, settings):
        self.step_size, self.kappa = step_size, settings.kappa

    def step(self, params, direction, trace, gradient, delta):
        norm_1 = sum(np.abs(leaf).sum() for leaf in trace)
        bound = self.step_size * self.kappa * max(abs(delta), 1.0) * norm_1
        size = self.step_size / max(bound, 1.0)
        return [p + size * leaf for p, leaf in zip(params, direction, strict=True)]


class AdaptiveObGD(ObGD):
    """The same of directions and traces divided by the root mean square of the directions."""

    def __init__(self, step_size, settings):
        super().__init__(step_size, settings)
        self.t, self.v = 0, []

    def step(self, params, direction, trace, gradient, delta):
        self.t += 1
        before = self.v or [0.0] * len(params)
        self.v = [0.999 * v + 0.001 * d**2 for v, d in zip(before, direction, strict=True)]
        roots = [np.sqrt(v / (1 - 0.999**self.t) + 1e-8) for v in self.v]
        direction, trace = (
            [x / root for x, root in zip(leaves, roots, strict=True)]
            for leaves in (direction, trace)
        )
        return super().step(params, direction, trace, gradient, delta)


class TraceAdam:
    """Adaptive Q(λ)'s; what a direction has beside δ z counts as a second gradient."""

    def __init__(self, step_size, settings):
        self.step_size, self.decay = step_size, settings.gamma * settings.lam
        self.t, self.v = 0, []

    def step(self, params, direction, trace, gradient, delta):
        self.t += 1
        before, clipped = self.v or [0.0] * len(params), min(max(delta, -1.0), 1.0)
        self.v, moved = [], []
        for p, d, z, g, v in zip(params, direction, trace, gradient, before, strict=True):
            rest = (d - delta * z) / max(abs(delta), 1.0)
            self.v.append(self.decay * v + (1 - self.decay) * (g**2 + rest**2))
            root = np.sqrt(self.v[-1] / (1 - self.decay**self.t)) + 1e-8
            moved.append(p + self.step_size * (clipped * z + rest) / root)
        return moved


OPTIMIZERS = {
    "sgd": SGD,
    "adam": Adam,
    "obgd": ObGD,
    "adaptive-obgd": AdaptiveObGD,
    "trace-adam": TraceAdam,
}


# The agent.


class Agent:
    """One agent in one environment. `settings` has the fields of the library's `QLambdaConfig`.

    The rule td has no auxiliary parameters: `theta` is then empty.
    """

    def __init__(self, settings, w, theta, observation):
        self.s = settings
        self.w, self.theta = w, theta
        self.forget()
        self.observations, self.returns = Statistics(np.shape(observation)), Statistics(())
        self.u = 0.0
        self.observations.see(observation)
        self.x = self.observations.normalised(observation)
        self.step, self.planned = 0, None
        self.smallest_gap, self.nearest_kink = np.inf, np.inf
        make = OPTIMIZERS[settings.optimizer]
        self.optimizer_w = make(settings.step_size, settings)
        self.optimizer_theta = make(settings.h_scale * settings.step_size, settings)

    def forget(self):
        """Empties the traces: `discount · z` is then zero."""
        self.z_w = [np.zeros_like(p) for p in self.w]
        self.z_theta = [np.zeros_like(p) for p in self.theta]
        self.z_h, self.discount = 0.0, 0.0

    def epsilon(self, step):
        share = min(step / self.s.exploration_steps, 1.0)
        return (1 - share) * self.s.epsilon_start + share * self.s.epsilon_end

    def best(self, q):
        """The first of the largest; how near the second came is remembered."""
        second, first = np.sort(q)[-2:]
        self.smallest_gap = min(self.smallest_gap, first - second)
        best = 0
        for action in range(len(q)):
            if q[action] > q[best]:
                best = action
        return best

    def choose(self, q, step, uniforms):
        explore, which = uniforms
        action = int(which * len(q)) if explore < self.epsilon(step) else self.best(q)
        return action, action == self.best(q)

    def act(self, uniforms):
        if self.planned is None:
            self.action, self.greedy = self.choose(q_values(self.w, self.x), self.step, uniforms)
        else:
            self.action, self.greedy = self.planned
        return self.action

    def target_policy(self, q, uniforms):
        """How much each next action counts; the next action itself, where it is fixed already."""
        if self.s.target == "max":
            return np.eye(len(q))[self.best(q)], None
        if self.s.target == "sarsa":
            following = self.choose(q, self.step + 1, uniforms)
            return np.eye(len(q))[following[0]], following
        epsilon = self.epsilon(self.step + 1)
        policy = np.full(len(q), epsilon / len(q))
        policy[self.best(q)] += 1 - epsilon
        return policy, None

    def learn(self, reward, terminated, truncated, next_observation, observation, uniforms):
        ended = terminated or truncated
        r, x_next, x_following = self.see(reward, ended, next_observation, observation)
        q_next = q_values(self.w, x_next)
        policy, following = self.target_policy(q_next, uniforms)
        # Only a greedy target policy differs from an exploratory action.
        strayed = self.s.target == "max" and not self.greedy
        if strayed and self.s.trace_cut == "watkins":
            self.forget()
        self.discount_next = 0.0 if terminated else self.s.gamma
        self.move(r, x_next, np.eye(len(q_next))[self.action], policy)
        self.discount = self.discount_next
        if ended or (strayed and self.s.trace_cut == "after"):
            self.forget()
        self.planned = None if ended else following
        self.x, self.step = x_following, self.step + 1

    def see(self, reward, ended, next_observation, observation):
        """Reward, next and following observation; each is counted, then normalised."""
        self.u = self.s.gamma * self.u * (1 - ended) + reward
        self.returns.see(self.u)
        r = reward / self.returns.deviation()
        self.observations.see(next_observation)
        x_next = self.observations.normalised(next_observation)
        if not ended:
            return r, x_next, x_next
        self.observations.see(observation)
        return r, x_next, self.observations.normalised(observation)

    def move(self, r, x_next, taken, policy):
        """Values weighed by `taken` move on to the reward and next values weighed by `policy`."""
        s, discount = self.s, self.discount_next
        v = taken @ q_values(self.w, self.x)
        self.nearest_kink = min(
            self.nearest_kink, *(nearest_kink(self.w, x) for x in (self.x, x_next))
        )
        grad_v = gradient(self.w, self.x, taken)
        self.delta = delta = r + discount * (policy @ q_values(self.w, x_next)) - v
        grad_next = gradient(self.w, x_next, policy)
        grad_delta = [discount * b - a for a, b in zip(grad_v, grad_next, strict=True)]

        decay = self.discount * s.lam
        self.z_w = [decay * z + g for z, g in zip(self.z_w, grad_v, strict=True)]
        h, grad_h = 0.0, []
        if s.rule != "td":
            # Linear in the features of q, h is a network of one layer on another observation.
            seen_by_h = features(self.w, self.x) if s.h == "features" else self.x
            h = taken @ q_values(self.theta, seen_by_h)
            grad_h = gradient(self.theta, seen_by_h, taken)
            self.z_h = decay * self.z_h + h
            self.z_theta = [decay * z + g for z, g in zip(self.z_theta, grad_h, strict=True)]

        if s.rule == "td":
            delta_w = [delta * z for z in self.z_w]
        elif s.rule == "gtd2":
            delta_w = [-self.z_h * gd for gd in grad_delta]
        else:
            delta_w = [
                delta * z - h * gv - self.z_h * gd
                for z, gv, gd in zip(self.z_w, grad_v, grad_delta, strict=True)
            ]
        self.w = self.optimizer_w.step(self.w, delta_w, self.z_w, grad_v, delta)
        if s.rule != "td":
            beta = s.beta if s.rule == "tdrc" else 0.0
            # How much of β acts on the output, and on the weight and bias of each layer.
            on_output = beta if s.regularize == "output" else 0.0
            on_theta = [beta if s.regularize == "parameters" else 0.0] * len(self.theta)
            if s.regularize == "head":
                on_theta[-2:] = [beta, beta]
            delta_theta = [
                delta * z - (1 + on_output) * h * g - decay * p
                for z, g, decay, p in zip(self.z_theta, grad_h, on_theta, self.theta, strict=True)
            ]
            self.theta = self.optimizer_theta.step(
                self.theta, delta_theta, self.z_theta, grad_h, delta
            )

    def alive(self):
        """What of the traces is passed on to the next step, before λ."""
        traces = [self.discount * z for z in self.z_w]
        if self.theta:
            traces += [np.asarray(self.discount * self.z_h)]
            traces += [self.discount * z for z in self.z_theta]
        return traces


# Actor and critic.


def softmax(logits):
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def softmax_slopes(logits, action):
    """Of log-probability and of entropy, in the logits."""
    p = softmax(logits)
    entropy = -(p * np.log(p)).sum()
    return np.eye(len(p))[action] - p, -p * (np.log(p) + entropy)


def gaussian(outputs):
    """Means, and deviations by softplus."""
    mean, raw = np.split(outputs, 2)
    return mean, np.log1p(np.exp(raw))


def gaussian_slopes(outputs, action):
    """Of log-density and of entropy, in means and in the numbers before softplus."""
    mean, std = gaussian(outputs)
    by_raw = 1 / (1 + np.exp(-np.split(outputs, 2)[1]))
    far = action - mean
    of_log_prob = np.concatenate([far / std**2, (far**2 / std**3 - 1 / std) * by_raw])
    return of_log_prob, np.concatenate([np.zeros_like(mean), by_raw / std])


class ActorCritic(Agent):
    """Actor and critic; the value function is the one value of `w`.

    `settings` has the fields of the library's `StreamACConfig`.
    """

    def __init__(self, settings, actor, w, theta, observation, discrete):
        critic = types.SimpleNamespace(
            **vars(settings),
            optimizer="obgd",
            step_size=settings.critic_step_size,
            kappa=settings.critic_kappa,
        )
        self.actor, self.discrete = actor, discrete
        super().__init__(critic, w, theta, observation)
        self.optimizer_actor = ObGD(
            settings.actor_step_size, types.SimpleNamespace(kappa=settings.actor_kappa)
        )

    def forget(self):
        super().forget()
        self.z_actor = [np.zeros_like(p) for p in self.actor]

    def act(self, noise):
        outputs = q_values(self.actor, self.x)
        if self.discrete:
            self.action = self.best(outputs + noise)
        else:
            mean, std = gaussian(outputs)
            self.action = mean + std * noise
        return self.action

    def learn(self, reward, terminated, truncated, next_observation, observation):
        s, ended = self.s, terminated or truncated
        r, x_next, x_following = self.see(reward, ended, next_observation, observation)
        self.discount_next = 0.0 if terminated else s.gamma
        one, decay = np.ones(1), self.discount * s.lam
        self.move(r, x_next, one, one)
        slopes = softmax_slopes if self.discrete else gaussian_slopes
        of_log_prob, of_entropy = slopes(q_values(self.actor, self.x), self.action)
        weights = of_log_prob + s.entropy_bonus * np.sign(self.delta) * of_entropy
        grad = gradient(self.actor, self.x, weights)
        self.z_actor = [decay * z + g for z, g in zip(self.z_actor, grad, strict=True)]
        direction = [self.delta * z for z in self.z_actor]
        self.actor = self.optimizer_actor.step(
            self.actor, direction, self.z_actor, grad, self.delta
        )
        self.discount = self.discount_next
        if ended:
            self.forget()
        self.x = x_following

    def alive(self):
        return [*super().alive(), *(self.discount * z for z in self.z_actor)]
