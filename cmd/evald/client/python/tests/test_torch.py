import os
import pickle
import unittest

import numpy as np
from reference import needs

needs("torch")

import evald  # noqa: E402
import evald.torch  # noqa: E402
import torch  # noqa: E402
from evald.torch import ModuleNetwork, SelfPlay  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402

OPTIONS = dict(visits=16, fast_visits=8, full_share=0.5, seed=3, exact=False)


class Tiny(torch.nn.Module):
    """Logits and a value from planes of 5x4."""

    def __init__(self, outputs: int = 1) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.body = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(100, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.5), torch.nn.ReLU())
        self.policy, self.value = torch.nn.Linear(16, 5), torch.nn.Linear(16, outputs)
        self.seen: list[tuple[bool, bool]] = []

    def forward(self, planes):
        self.seen.append((self.training, torch.is_grad_enabled()))
        hidden = self.body(planes)
        value = self.value(hidden)
        return self.policy(hidden), torch.tanh(value) if value.shape[1] == 1 else value


def obvious(positions):
    """A network as a plain function, which workers can unpickle."""
    return np.ones((len(positions), positions.board.actions)), np.zeros(len(positions))


def rows(data):
    return [tuple(part.numpy().tobytes() for part in row) for row in data]


class Data(unittest.TestCase):
    def test_rows_are_those_of_the_games(self) -> None:
        want = []
        for game in evald.selfplay(6, "5x4x4", network=obvious, **OPTIONS):
            for i in range(len(game)):
                if game.visits[i].sum() > 0:
                    side = 1 if game.positions.stones[i] % 2 == 0 else -1
                    want.append((game.positions[i].planes()[0], game.policy[i], game.result * side))
        got = list(SelfPlay(6, "5x4x4", network=obvious, **OPTIONS))
        self.assertGreater(len(want), 10)
        self.assertEqual(len(got), len(want))
        key = lambda row: np.concatenate([np.asarray(part, np.float64).reshape(-1) for part in row]).tolist()  # noqa: E731
        for a, b in zip(sorted(map(key, got)), sorted(map(key, want))):  # the order of games is that in which they end
            self.assertTrue(np.allclose(a, b))
        planes, policy, value = got[0]
        self.assertEqual([(part.dtype, tuple(part.shape)) for part in got[0]], [(torch.float32, (5, 4, 5)), (torch.float32, (5,)), (torch.float32, ())])

    def test_workers_share_the_games(self) -> None:
        alone = sorted(rows(SelfPlay(7, "5x4x4", network=obvious, **OPTIONS)))
        for workers in (2, 3):
            loader = DataLoader(SelfPlay(7, "5x4x4", network=obvious, **OPTIONS), batch_size=None, num_workers=workers, multiprocessing_context="spawn")
            self.assertEqual(sorted(rows(loader)), alone)

    def test_batches_of_a_worker_with_an_evaluator_and_a_module(self) -> None:
        for network, rules, shape in ((evald.Evaluator(), "7x6x4", (6, 7)), (ModuleNetwork(Tiny()), "5x4x4", (4, 5))):
            loader = DataLoader(SelfPlay(2, rules, network=network, visits=8, full_share=1.0), batch_size=4, num_workers=1, multiprocessing_context="spawn")
            planes, policy, value = next(iter(loader))
            self.assertEqual(planes.shape, (4, 5, *shape))
            self.assertTrue(torch.allclose(policy.sum(1), torch.ones(4)))
            self.assertEqual(value.shape, (4,))

    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_forked_workers_raise_an_error_that_says_what_to_do(self) -> None:
        evald.evaluate("4")  # the library is in use before the fork
        loader = DataLoader(SelfPlay(2, "5x4x4", network=obvious, **OPTIONS), batch_size=2, num_workers=1, multiprocessing_context="fork")
        with self.assertRaisesRegex(evald.ClosedError, 'multiprocessing_context="spawn"'):
            list(loader)


class Module(unittest.TestCase):
    def test_answers_and_modes(self) -> None:
        positions = evald.Positions(["-", "123", "5"], "5x4x4")
        for outputs in (1, 3):
            module = Tiny(outputs)
            for training in (True, False):
                module.train(training)
                policy, value = ModuleNetwork(module)(positions)
                self.assertEqual(module.training, training)
                self.assertEqual(module.seen[-1], (False, False))
                module.eval()
                with torch.no_grad():
                    logits, direct = module(torch.from_numpy(positions.planes()))
                exponents = np.exp(logits.numpy() - logits.numpy().max(1, keepdims=True))
                self.assertTrue(np.allclose(policy.numpy(), exponents / exponents.sum(1, keepdims=True), atol=1e-6))
                if outputs == 1:
                    self.assertTrue(torch.equal(value, direct))
                else:
                    exponents = np.exp(direct.numpy())
                    self.assertTrue(np.allclose(value.numpy(), exponents / exponents.sum(1, keepdims=True), atol=1e-6))

    def test_search_with_a_module(self) -> None:
        module = Tiny()
        searched = evald.search(["11223", "4"], "5x4x4", network=ModuleNetwork(module.to(torch.bfloat16).float()), visits=40, exact=False)
        self.assertTrue((searched.visits.sum(1) > 0).all())
        self.assertGreater(len(module.seen), 0)

    def test_an_error_in_the_module_reaches_the_caller(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "shapes cannot be multiplied"):
            evald.search("4", network=ModuleNetwork(Tiny()), visits=40)
        network = ModuleNetwork(Tiny())
        module = network.module.train()
        with self.assertRaises(RuntimeError):
            network(evald.Positions("4"))
        self.assertTrue(module.training)

    def test_devices_and_pickles(self) -> None:
        positions = evald.Positions("1", "5x4x4")
        network = ModuleNetwork(Tiny().eval(), "cpu")
        again = pickle.loads(pickle.dumps(network))
        self.assertTrue(torch.equal(again(positions)[0], network(positions)[0]))
        with self.assertRaises(Exception):  # torch's meta device has no numbers, so this shows that planes go there
            evald.search("1", "5x4x4", network=ModuleNetwork(Tiny(), "meta"), visits=8)


class Modules(unittest.TestCase):
    def test_everywhere(self) -> None:
        """A module is the network ModuleNetwork(module) in every function that takes networks."""
        module = Tiny()
        network, labels = ModuleNetwork(module), evald.labels(["1", "12"], "5x4x4")
        for call in (
            lambda f: evald.search(["1", "12"], "5x4x4", network=f, visits=8, exact=False),
            lambda f: list(evald.selfplay(2, "5x4x4", network=f, visits=4, order="number")),
            lambda f: evald.score(f, labels, visits=(0, 8), raw=True),
            lambda f: evald.match({"f": f, "r": "uct:sims=4"}, "5x4x4", games=4, visits=4).elo.tolist(),
            lambda f: list(map(str, SelfPlay(1, "5x4x4", network=f, visits=4))),
        ):
            self.assertEqual(call(module), call(network))
        seen = len(module.seen)
        self.assertEqual(module.seen, [(False, False)] * seen)


if __name__ == "__main__":
    unittest.main()
