"""PPO and Gradient PPO in NumPy: double precision, loops, gradients written by hand.

Nothing of the library is used here. Parameters are lists of arrays: weights [inputs, outputs] and
biases of a tanh network in turn, and at the end the log deviations of a Gaussian policy.
"""

import math

import numpy as np

EPSILON = 1e-5
"""Adam's."""


def forward(layers, x):
    """The network's outputs, and the inputs of each layer."""
    given = [np.asarray(x, np.float64)]
    for number in range(0, len(layers), 2):
        y = given[-1] @ layers[number] + layers[number + 1]
        if number + 2 == len(layers):
            return y, given
        given.append(np.tanh(y))
    raise ValueError("a network has layers")


def backward(layers, given, slope):
    """The gradient in all weights and biases of `slope @ outputs`."""
    gradient = []
    for number in range(len(layers) - 2, -1, -2):
        x = given[number // 2]
        gradient = [np.outer(x, slope), slope, *gradient]
        slope = (layers[number] @ slope) * (1 - x**2)
    return gradient


def value(layers, x):
    return forward(layers, x)[0][0]


def value_gradient(layers, x):
    return backward(layers, forward(layers, x)[1], np.ones(1))


class Gaussian:
    """Normal, with deviations that depend on nothing."""

    def __init__(self, params):
        *self.layers, self.log_std = params

    def log_prob(self, x, action):
        mean, _ = forward(self.layers, x)
        z = (action - mean) / np.exp(self.log_std)
        return float(np.sum(-(z**2) / 2 - self.log_std - math.log(math.sqrt(2 * math.pi))))

    def log_prob_gradient(self, x, action):
        mean, given = forward(self.layers, x)
        std = np.exp(self.log_std)
        z = (action - mean) / std
        return [*backward(self.layers, given, z / std), z**2 - 1]

    def entropy(self, x):
        return float(np.sum(self.log_std + math.log(2 * math.pi * math.e) / 2))

    def entropy_gradient(self, x):
        return [*(np.zeros_like(p) for p in self.layers), np.ones_like(self.log_std)]


class Softmax:
    """One of several choices."""

    def __init__(self, params):
        self.layers = params

    def _probabilities(self, x):
        logits, given = forward(self.layers, x)
        weights = np.exp(logits - logits.max())
        return weights / weights.sum(), given

    def log_prob(self, x, action):
        return math.log(self._probabilities(x)[0][action])

    def log_prob_gradient(self, x, action):
        p, given = self._probabilities(x)
        return backward(self.layers, given, np.eye(len(p))[action] - p)

    def entropy(self, x):
        p, _ = self._probabilities(x)
        return float(-np.sum(p * np.log(p)))

    def entropy_gradient(self, x):
        p, given = self._probabilities(x)
        return backward(self.layers, given, -p * (np.log(p) + self.entropy(x)))


class Adam:
    """Descends, after the gradient was scaled down to the largest norm allowed."""

    def __init__(self, params):
        self.mean = [np.zeros_like(p) for p in params]
        self.square = [np.zeros_like(p) for p in params]
        self.count = 0

    def step(self, params, gradient, step_size, max_norm):
        size = norm(gradient)
        if max_norm > 0 and size > max_norm:
            gradient = [g * max_norm / size for g in gradient]
        self.count += 1
        moved = []
        for i, (p, g) in enumerate(zip(params, gradient, strict=True)):
            self.mean[i] = 0.9 * self.mean[i] + 0.1 * g
            self.square[i] = 0.999 * self.square[i] + 0.001 * g**2
            mean = self.mean[i] / (1 - 0.9**self.count)
            square = self.square[i] / (1 - 0.999**self.count)
            moved.append(p - step_size * mean / (np.sqrt(square) + EPSILON))
        return moved


def norm(gradient):
    return math.sqrt(sum(float(np.sum(g**2)) for g in gradient))


def total(gradients):
    """The sum of weighted gradients, given as pairs."""
    pairs = list(gradients)
    return [sum(w * g[i] for w, g in pairs) for i in range(len(pairs[0][1]))]


HEALTH = "h_to_td_error", "h_td_error_correlation", "correction_share"
"""Of h after an update, in the last minibatch."""


class Learner:
    """Actor, critic and, for a gradient rule, h; `s` has the settings by their names."""

    def __init__(self, settings, policy, actor, critic, auxiliary=()):
        self.s, self.policy = settings, policy
        self.networks = {"actor": actor, "critic": critic, "auxiliary": list(auxiliary)}
        self.optimizers = {name: Adam(params) for name, params in self.networks.items()}
        self.rule = getattr(settings, "rule", None)
        self.step = 0

    # What is known of a rollout before it is learned from; places are (time, environment).

    def discount(self, rollout, place):
        return 0.0 if rollout.terminated[place] else float(self.s.gamma)

    def delta(self, rollout, place):
        critic = self.networks["critic"]
        following = value(critic, rollout.next_observation[place])
        here = value(critic, rollout.observation[place])
        return rollout.reward[place] + self.discount(rollout, place) * following - here

    def lambda_error(self, rollout, places, rho=None):
        """TD(λ) errors along places that follow each other, by their definition as a sum."""
        errors = []
        for begin in range(len(places)):
            error, weight = 0.0, 1.0
            for place in places[begin:]:
                weight *= 1.0 if rho is None else rho[place]
                error += weight * self.delta(rollout, place)
                if rollout.terminated[place] or rollout.truncated[place]:
                    break
                weight *= self.s.gamma * self.s.lam
            errors.append(error)
        return errors

    def assess(self, rollout):
        time, envs = rollout.reward.shape
        policy = self.policy(self.networks["actor"])
        self.old_log_prob, self.old_value, self.advantage = {}, {}, {}
        for e in range(envs):
            places = [(t, e) for t in range(time)]
            for place, error in zip(places, self.lambda_error(rollout, places), strict=True):
                x = rollout.observation[place]
                self.old_log_prob[place] = policy.log_prob(x, rollout.action[place])
                self.old_value[place] = value(self.networks["critic"], x)
                self.advantage[place] = error

    # One update.

    def learn(self, rollout, minibatches):
        """Minibatches are lists of sequences of places; returns the means of diagnostics."""
        self.assess(rollout)
        left = 1.0
        if self.s.anneal_steps > 0:
            left = max(0.0, 1.0 - self.step / self.s.anneal_steps)
        told, applied, stopped = [], 0, False
        for sequences in minibatches:
            gradients, tells = self.gradients(rollout, sequences)
            stopped = stopped or 0 < self.s.target_kl < tells["approximate_kl"]
            told.append(tells | {f"{k}_gradient_norm": norm(g) for k, g in gradients.items()})
            if stopped:
                continue
            applied += 1
            for name, step_size in self.step_sizes().items():
                self.networks[name] = self.optimizers[name].step(
                    self.networks[name], gradients[name], left * step_size, self.s.max_gradient_norm
                )
        self.step += rollout.reward.size
        targets = [self.old_value[p] + self.advantage[p] for p in self.advantage]
        errors = np.var(list(self.advantage.values()))
        _, at_last = self.gradients(rollout, minibatches[-1])
        health = {name: at_last[name] for name in HEALTH if name in at_last}
        return (
            {name: np.mean([tell[name] for tell in told]) for name in told[0]}
            | health
            | {
                "applied": applied / len(told),
                "explained_variance": 1 - errors / np.var(targets),
            }
        )

    def step_sizes(self):
        sizes = {"actor": self.s.actor_step_size, "critic": self.s.critic_step_size}
        return sizes | ({"auxiliary": self.s.h_step_size} if self.networks["auxiliary"] else {})

    def gradients(self, rollout, sequences):
        policy, s = self.policy(self.networks["actor"]), self.s
        places = [place for sequence in sequences for place in sequence]
        n = len(places)
        ratio = {}
        for place in places:
            now = policy.log_prob(rollout.observation[place], rollout.action[place])
            ratio[place] = math.exp(now - self.old_log_prob[place])
        if self.rule is None:
            critic, tells = self.clipped_value_gradient(rollout, places)
            gradients, advantage = {"critic": critic, "auxiliary": []}, self.advantage
        else:
            gradients, fresh, tells = self.rule_gradients(rollout, sequences, ratio)
            advantage = fresh if s.advantage == "fresh" else self.advantage
        chosen = np.array([advantage[place] for place in places])
        deviation = math.sqrt(np.sum((chosen - chosen.mean()) ** 2) / (n - 1))
        losses, terms, entropies, outside = [], [], [], 0
        for place in places:
            x, r = rollout.observation[place], ratio[place]
            a = (advantage[place] - chosen.mean()) / (deviation + 1e-8)
            free, bounded = r * a, min(max(r, 1 - s.clip), 1 + s.clip) * a
            losses.append(-min(free, bounded))
            outside += abs(r - 1) > s.clip
            if free <= bounded:
                gradient = policy.log_prob_gradient(x, rollout.action[place])
                terms.append((-a * r / n, gradient))
            entropies.append(policy.entropy(x))
            terms.append((-s.entropy_bonus / n, policy.entropy_gradient(x)))
        return gradients | {"actor": total(terms)}, tells | {
            "policy_loss": np.mean(losses),
            "entropy": np.mean(entropies),
            "approximate_kl": np.mean([r - 1 - math.log(r) for r in ratio.values()]),
            "clip_fraction": outside / n,
        }

    def clipped_value_gradient(self, rollout, places):
        """PPO's critic: the worse of two squared distances, one of them near the old value."""
        critic, clip = self.networks["critic"], self.s.value_clip
        losses, terms = [], []
        for place in places:
            old, x = self.old_value[place], rollout.observation[place]
            target, v = old + self.advantage[place], value(critic, x)
            near = min(max(v, old - clip), old + clip)
            if clip > 0 and (near - target) ** 2 > (v - target) ** 2:
                losses.append((near - target) ** 2 / 2)
                slope = near - target if near == v else 0.0
            else:
                losses.append((v - target) ** 2 / 2)
                slope = v - target
            terms.append((slope / len(places), value_gradient(critic, x)))
        squares = [self.advantage[place] ** 2 for place in places]
        return total(terms), {
            "critic_loss": np.mean(losses),
            "lambda_error": math.sqrt(np.mean(squares)),
        }

    def rule_gradients(self, rollout, sequences, ratio):
        """Gradient PPO's critic and h: minus the mean of the rule's updates over all steps."""
        critic, h_net, s = self.networks["critic"], self.networks["auxiliary"], self.s
        rho = ratio if s.importance_sampling else dict.fromkeys(ratio, 1.0)
        fresh, for_critic, for_h, hs, semi = {}, [], [], {}, []
        n = len(ratio)
        for sequence in sequences:
            fresh |= zip(sequence, self.lambda_error(rollout, sequence, rho), strict=True)
            grad_d = [np.zeros_like(p) for p in critic]
            for place in reversed(sequence):
                x, x_next = rollout.observation[place], rollout.next_observation[place]
                gamma, d = self.discount(rollout, place), fresh[place]
                grad_v, grad_next = value_gradient(critic, x), value_gradient(critic, x_next)
                lam = 0.0 if rollout.truncated[place] else s.lam
                grad_d = total(
                    [
                        (rho[place] * gamma, grad_next),
                        (-rho[place], grad_v),
                        (rho[place] * gamma * lam, grad_d),
                    ]
                )
                if s.h == "features":  # h is a network of one layer on what v's last one is given
                    x = forward(critic, x)[1][-1]
                h = value(h_net, x) if h_net else 0.0
                hs[place] = h
                weight_v, weight_d = {
                    "td": (d, 0.0), "gtd2": (0.0, -h), "tdc": (d - h, -h), "tdrc": (d - h, -h)
                }[self.rule]  # fmt: skip
                semi.append((-d / n, grad_v))
                for_critic += [(-weight_v / n, grad_v), (-weight_d / n, grad_d)]
                if h_net:
                    beta = s.beta if self.rule == "tdrc" else 0.0
                    on_output = beta if s.regularize == "output" else 0.0
                    for_h.append((((1 + on_output) * h - d) / n, value_gradient(h_net, x)))
                    decayed = {"parameters": len(h_net), "head": 2, "output": 0}[s.regularize]
                    kept = len(h_net) - decayed
                    penalty = [np.zeros_like(p) for p in h_net[:kept]] + list(h_net[kept:])
                    for_h.append((beta / n, penalty))
        tells = {"lambda_error": math.sqrt(np.mean([d**2 for d in fresh.values()]))}
        if h_net:
            tells["abs_h"] = np.mean(np.abs(list(hs.values())))
            tells["pbe"] = np.mean([2 * fresh[p] * hs[p] - hs[p] ** 2 for p in fresh])
            both = np.array([[hs[p], fresh[p]] for p in fresh])
            tells["h_to_td_error"] = np.abs(both[:, 0]).mean() / np.abs(both[:, 1]).mean()
            with np.errstate(invalid="ignore"):  # an h that starts at 0 is constant
                tells["h_td_error_correlation"] = np.corrcoef(both.T)[0, 1]
            gap = total([*for_critic, *((-weight, g) for weight, g in semi)])
            tells["correction_share"] = norm(gap) / norm(total(semi))
        gradients = {"critic": total(for_critic), "auxiliary": total(for_h) if h_net else []}
        return gradients, {place: d / rho[place] for place, d in fresh.items()}, tells
