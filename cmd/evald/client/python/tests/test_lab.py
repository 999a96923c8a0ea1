"""What a researcher sees and changes of searches and self-play."""
import copy
import importlib.util
import io
import os
import pathlib
import pickle
import tempfile
import unittest
from contextlib import redirect_stdout
from typing import Any

import numpy as np

import evald

RULES = "5x4x4"


def uniform(p: evald.Positions):
    return np.ones((len(p), p.board.actions)), np.zeros(len(p))


def leaning(p: evald.Positions):
    """Prefers the left, and the side with more stones on the left."""
    cells = p.cells().astype(np.float32)
    return np.tile(2.0 ** -np.arange(p.board.actions), (len(p), 1)), np.tanh(cells[:, :, :2].sum((1, 2)) / 3)


def starts(n: int = 40, seed: int = 1) -> evald.Positions:
    random, texts = np.random.default_rng(seed), []
    while len(texts) < n:
        text = "".join(str(c) for c in random.integers(1, 6, random.integers(0, 12)))
        try:
            if evald.Positions(text, RULES).results()[0] == 2:
                texts.append(text)
        except evald.EvaldError:
            pass
    return evald.Positions(texts, RULES)


class Searches(unittest.TestCase):
    def test_plain(self) -> None:
        """A function is judged by itself: by default no rule and no solver helps, and what was done is said."""
        found = evald.search(starts(), network=uniform, visits=33)
        self.assertIn("plain", found.rule)
        self.assertIn(found.rule, repr(found))
        np.testing.assert_array_equal(found.visits.sum(1), 32)  # all of them, also where one stone wins
        self.assertTrue((found.proved == 2).all())
        helped = evald.search(starts(), network=uniform, visits=33, exact=True)
        self.assertIn("lookahead, exact 1000", helped.rule)
        self.assertTrue((helped.proved != 2).any())
        good = (evald.solve(starts()) == evald.solve(starts()).max(1, keepdims=True))[np.arange(40), helped.best].mean()
        alone = (evald.solve(starts()) == evald.solve(starts()).max(1, keepdims=True))[np.arange(40), found.best].mean()
        self.assertLess(alone, good)
        self.assertIn("flat priors, transpositions", evald.search("4", visits=2).rule)  # evald's own, as before

    def test_priors(self) -> None:
        """The priors are the policy, and stay it however often they are targets."""
        of = starts()
        want = leaning(of)[0] * of.legal()
        found = evald.search(of, network=leaning, visits=2)
        np.testing.assert_allclose(found.prior, want / want.sum(1, keepdims=True), atol=1e-6)
        flat = evald.search("-", RULES, network=leaning, visits=2, priors="flat").prior[0]
        np.testing.assert_allclose(flat[1:] / flat[:-1], 2**-0.5, rtol=1e-5)

    def test_policy(self) -> None:
        """Unless the game is over, the policy sums to 1 and has no NaN, also if the rules or a proof decide the position."""
        of = starts(60, 3)
        for chosen in (dict(), dict(lookahead=True), dict(exact=True), dict(selection="gumbel"), dict(selection="gumbel", lookahead=True), dict(selection="uct"), dict(selection="flat")):
            found = evald.search(of, network=leaning, visits=12, **chosen)
            np.testing.assert_allclose(found.policy.sum(1), 1, atol=1e-5, err_msg=str(chosen))
            self.assertTrue((found.policy[~of.legal()] == 0).all())

    def test_gumbel(self) -> None:
        """The improved policy has more than the shares of four visits, and its constants do something."""
        found = evald.search("-", RULES, network=leaning, visits=5, selection="gumbel", gumbel_scale=0)
        self.assertEqual(found.visits.sum(), 4)
        self.assertTrue((found.policy > 0).all() and len(set(found.policy[0])) == 5)
        seen = {found.policy.tobytes()}
        for chosen in (dict(c_visit=5), dict(c_scale=0.1), dict(rescale=True), dict(gumbel_scale=1), dict(considered=2)):
            seen.add(evald.search("-", RULES, network=leaning, visits=17, selection="gumbel", **{"gumbel_scale": 0, **chosen}).policy.tobytes())
        self.assertEqual(len(seen), 6)

    def test_options(self) -> None:
        """Matches, scores and reanalysis take a search's arguments, which change what they find; wrong ones are errors that name them."""
        labels = evald.labels(starts(), RULES)
        usual = evald.score(leaning, labels, visits=20)
        self.assertNotEqual(evald.score(leaning, labels, visits=20, explore=9).good.tolist(), usual.good.tolist())
        self.assertIn("gumbel", str(evald.score(leaning, labels, visits=5, selection="gumbel", c_scale=0.1).report))
        players = dict(a=leaning, b=uniform)
        tables = {str(evald.match(players, RULES, games=20, visits=9, seed=2, **chosen).score) for chosen in (dict(), dict(explore=0.1), dict(selection="gumbel", considered=2))}
        self.assertEqual(len(tables), 3)
        games = list(evald.selfplay(3, RULES, network=leaning, visits=5, full_share=1))
        evald.write(games, path := os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "g.parquet"))
        old = evald.read(path)
        self.assertNotEqual(evald.reanalyse(old, network=leaning, explore=50), evald.reanalyse(old, network=leaning))
        for call in (lambda **k: evald.match(players, RULES, games=2, **k), lambda **k: evald.score(leaning, labels, **k), lambda **k: evald.reanalyse(old, network=leaning, **k)):
            with self.assertRaisesRegex(TypeError, "argument 'explor'"):
                call(explor=2)
            with self.assertRaisesRegex(evald.EvaldError, "fpu is 9"):
                call(fpu=9)

    def test_close(self) -> None:
        """A function closes evaluators of its own, but none that waits for its answer."""
        used = evald.Evaluator(backend="bitsquares")

        def closes(p: evald.Positions):
            evald.Evaluator(backend="uniform").close()
            with self.assertRaisesRegex(evald.EvaldError, "close it after the call"):
                used.close()
            return leaning(p)

        self.assertEqual(int(evald.match({"a": closes, "b": used}, RULES, games=2, visits=4).games.sum()), 4)
        list(evald.selfplay(1, RULES, network={"a": closes, "b": used}, visits=4))
        used.close()

    def test_raw_value(self) -> None:
        of = starts()
        found = evald.search(of, network=leaning, visits=9)
        np.testing.assert_allclose(found.raw_value, leaning(of)[1], atol=1e-6)
        decided = evald.search("112233", RULES, network=leaning, visits=9, lookahead=True)  # the next stone wins
        self.assertEqual((decided.proved[0], bool(np.isnan(decided.raw_value[0]))), (1, True))

    def test_tree(self) -> None:
        """The tree agrees with the results, with itself, and with the network."""
        of = starts()
        found = evald.search(of, network=leaning, visits=30, tree=True, seed=2, noise=0.25)
        t = found.tree
        assert t is not None
        self.assertEqual(t.node_visits.shape, (40, 30))
        np.testing.assert_array_equal(t.children_visits[:, 0], found.visits)
        np.testing.assert_allclose(t.qvalues[:, 0], found.q, atol=1e-6)
        np.testing.assert_allclose(t.node_values[:, 0], found.value, atol=1e-6)
        np.testing.assert_allclose(np.where(of.legal(), np.exp(t.children_prior_logits[:, 0]), 0), found.prior, atol=1e-6)
        for i in range(len(of)):
            at = {0: of[i : i + 1]}
            for node in range(1, int((t.node_visits[i] > 0).sum())):
                parent, action = int(t.parents[i, node]), int(t.action_from_parent[i, node])
                self.assertEqual(t.children_index[i, parent, action], node)
                self.assertEqual(t.children_visits[i, parent, action], t.node_visits[i, node])
                at[node] = at[parent].play([action])
                over = at[node].results()[0] != 2
                self.assertEqual(t.children_discounts[i, parent, action], 0 if over else -1)
                if not over:
                    self.assertAlmostEqual(t.raw_values[i, node], leaning(at[node])[1][0], places=5)
                    self.assertEqual(t.node_visits[i, node], 1 + t.children_visits[i, node].sum())
        for chosen in (dict(lookahead=True), dict(transpositions=True)):
            with self.assertRaisesRegex(evald.EvaldError, "lookahead must be False and transpositions False"):
                evald.search("-", RULES, network=leaning, visits=3, tree=True, **chosen)


class Forests(unittest.TestCase):
    def same(self, one: evald.Searched, other: evald.Searched) -> None:
        for name in ("visits", "policy", "q", "wdl", "best", "proved", "prior", "raw_value"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)

    def test_steps(self) -> None:
        """Runs together find what one search finds, and so do their trees."""
        of = evald.Positions(np.concatenate([starts(30, 7).words, evald.Positions(["1212121", "151515"], RULES).words]), RULES)
        for chosen in (dict(), dict(noise=0.3, seed=5), dict(selection="uct", seed=2), dict(selection="flat", seed=2), dict(lookahead=True, exact=True), dict(priors="flat", fpu=0, transpositions=True), dict(forced_playouts=2)):
            forest = evald.Forest(of, network=leaning, **chosen)
            self.assertEqual(forest.run(0).visits.sum(), 0)
            for visits in (1, 17, 0, 15):
                found = forest.run(visits)
            self.same(found, evald.search(of, network=leaning, visits=33, **chosen))
            for name in ("visits", "q", "policy", "prior", "value", "best"):
                np.testing.assert_array_equal(getattr(forest, name), getattr(found, name))
            self.assertEqual(forest.rule.split(",")[0], found.rule.split(",")[0])
        forest = evald.Forest(of, network=leaning, sizes=(4, 16))
        forest.run(9, tree=True)
        one, other = forest.run(21, tree=True).tree, evald.search(of, network=leaning, visits=30, tree=True).tree
        self.assertEqual(one, other)

    def test_prior(self) -> None:
        """Own priors are those that a network with them would have given, whenever they come."""
        of = starts(300)
        of = evald.Positions(np.unique(of.words[of.stones == 6], axis=0), RULES)  # none is in the tree of another one
        own = np.random.default_rng(3).dirichlet(np.ones(5), len(of)).astype(np.float32)
        rows = {text.tobytes(): i for i, text in enumerate(of.words)}

        def named(p: evald.Positions):
            policy, value = leaning(p)
            return np.stack([own[rows[w.tobytes()]] if w.tobytes() in rows else policy[i] for i, w in enumerate(p.words)]), value

        want = evald.search(of, network=named, visits=40)
        for before in (0, 1):
            forest = evald.Forest(of, network=leaning)
            forest.run(before)
            forest.prior = 7 * own
            found = forest.run(40 - before)
            np.testing.assert_allclose(found.prior, want.prior, rtol=1e-5)
            np.testing.assert_array_equal(found.visits, want.visits)
        forest.set_prior(np.eye(5)[forest.positions.legal().argmax(1)])  # in the middle: from now on only this move has a prior
        self.assertTrue((forest.run(0).prior.max(1) == 1).all())
        after = forest.advance(found.best)
        np.testing.assert_array_equal(after.words, of.play(found.best).words)
        self.assertTrue((forest.run(1).prior.max(1)[after.results() == 2] < 1).all())  # those of the new positions

    def test_advance(self) -> None:
        """A tree keeps what it has found of its next position, and adds visits to it. Games end."""
        forest = evald.Forest(starts(12, 5), network=leaning)
        found = forest.run(50, tree=True)
        assert found.tree is not None
        for _ in range(30):
            rows = np.arange(len(forest))
            over = forest.positions.results() != 2
            actions = np.where(over, -1, found.best)
            of = forest.advance(actions)
            on = ~over & (of.results() == 2)
            kept = forest.run(0)
            np.testing.assert_array_equal(kept.visits.sum(1)[on], found.visits[rows, actions][on] - 1)
            np.testing.assert_allclose(kept.value[on], -found.q[rows, actions][on], atol=1e-5)
            found = forest.run(50)
            np.testing.assert_array_equal((found.visits.sum(1) - kept.visits.sum(1))[on & (kept.visits.sum(1) > 0)], 50)
            np.testing.assert_array_equal(found.best[~on], -1)
            np.testing.assert_array_equal(found.proved[~on], of.results()[~on])
        self.assertFalse(on.any())

    def test_errors(self) -> None:
        of = starts(3)
        with self.assertRaisesRegex(evald.EvaldError, "gumbel.*puct, uct or flat"):
            evald.Forest(of, network=leaning, selection="gumbel")  # type: ignore[arg-type]
        with self.assertRaisesRegex(evald.EvaldError, "uct, which uses no priors"):
            evald.Forest(of, network=leaning, selection="uct").set_prior(np.ones((3, 5)))
        with self.assertRaisesRegex(evald.EvaldError, "flat.*lookahead"):
            evald.search(of, network=leaning, selection="flat", lookahead=True)
        with self.assertRaisesRegex(evald.EvaldError, "lookahead must be False"):
            evald.Forest(of, network=leaning, lookahead=True).run(2, tree=True)
        forest = evald.Forest(of, network=leaning)
        before = forest.run(5)
        for wrong, said in ((np.full((3, 5), -1.0), "must be a number from 0"), (np.zeros((3, 5)), "row 0: all legal actions have 0"), (np.full((3, 5), np.nan), "NaN")):
            with self.assertRaisesRegex(evald.EvaldError, said):
                forest.set_prior(wrong)
        with self.assertRaisesRegex(evald.EvaldError, "row 1: action 9 is not legal"):
            forest.advance([0, 9, 0])
        with self.assertRaisesRegex(TypeError, "keep|positions"):
            pickle.dumps(forest)
        with self.assertRaises(TypeError):
            copy.deepcopy(forest)
        self.same(forest.run(0), before)  # nothing has changed

        calls = 0

        def fails(p: evald.Positions):
            nonlocal calls
            calls += 1
            if calls == 3:
                with self.assertRaisesRegex(evald.EvaldError, "another call uses this forest"):
                    failing.advance([0, 0, 0])
                raise KeyError("no")
            return leaning(p)

        failing = evald.Forest(of, network=fails, batch=1)
        with self.assertRaises(KeyError):
            failing.run(30)
        failing.run(10)
        with evald.Forest(of, network=leaning) as closed:
            closed.run(1)
        for call in (lambda: closed.run(1), lambda: closed.advance([0, 0, 0]), lambda: closed.set_prior(np.ones((3, 5)))):
            with self.assertRaises(evald.ClosedError):
                call()


class Games(unittest.TestCase):
    def test_floats(self) -> None:
        """Games have the searches' policies in floats, priors and raw values."""
        for selection in ("puct", "gumbel"):
            for game in evald.selfplay(4, RULES, network=leaning, visits=9, fast_visits=2, full_share=0.5, selection=selection, opening_plies=0):
                full = game.visits.sum(1) > 0
                np.testing.assert_allclose(game.policy[full].sum(1), 1, atol=1e-5)
                self.assertTrue((game.policy[~full] == 0).all())
                np.testing.assert_allclose(game.raw_value, leaning(game.positions)[1], atol=1e-6)
                np.testing.assert_allclose(game.prior.sum(1), 1, atol=1e-5)
                if selection == "gumbel":
                    self.assertGreater(len(np.unique(game.policy[full])), len(np.unique(game.visits[full])))
                else:
                    shares = game.policy[full] * 8
                    np.testing.assert_allclose(shares, np.round(shares), atol=1e-5)

    def test_plain(self) -> None:
        """A function's games are searched plainly: each search asks it, also where a stone wins. With lookahead the rules decide."""
        for lookahead in (None, False, True):
            decided = [g.prior.any(1).all() for g in evald.selfplay(20, RULES, network=uniform, visits=3, fast_visits=3, lookahead=lookahead)]
            self.assertEqual(all(decided), lookahead is not True, lookahead)

    def test_league(self) -> None:
        """Each pair of networks plays on both sides; the one that is to move searches; and games are those of these networks in any company."""
        asked: dict[str, set[int]] = {"left": set(), "flat": set()}

        def named(name: str, of):
            def network(p: evald.Positions):
                asked[name] |= {hash(w.tobytes()) for w in p.words}
                return of(p)
            return network

        league = {"left": named("left", leaning), "flat": named("flat", uniform), "own": "bitsquares"}
        chosen = dict(visits=9, full_share=1, opening_plies=0, temperature_plies=3, noise=0, seed=4)
        games = list(evald.selfplay(24, RULES, network=league, order="number", **chosen))
        pairs = [("left", "flat"), ("flat", "left"), ("left", "own"), ("own", "left"), ("flat", "own"), ("own", "flat")]
        self.assertEqual([g.networks for g in games], pairs * 4)
        for game in games:
            self.assertEqual(game.network[:2], list(game.networks) if game.positions.stones[0] == 0 else list(game.networks)[::-1])
            for i, name in enumerate(game.network):
                if name in asked:
                    self.assertIn(hash(game.positions.words[i].tobytes()), asked[name])
                    # the search is that of this network alone: plain, without noise
                    alone = evald.search(game.positions[i], network=leaning if name == "left" else uniform, visits=9, discount=0.99)
                    np.testing.assert_allclose(game.policy[i], alone.policy[0], atol=1e-6)
        again = [g for g in evald.selfplay(24, RULES, network={"left": leaning, "flat": uniform, "own": evald.Evaluator("bitsquares")}, parallel=3, batch=5, **chosen)]
        self.assertEqual(sorted(again, key=lambda g: g.number), games)
        path = os.path.join(self.enterContext(tempfile.TemporaryDirectory()), "league.parquet")
        evald.write(games, path)
        records = evald.read(path)
        for game in games:
            self.assertEqual(records.network[records.game == game.number][: len(game)].tolist(), game.network)
        evald.write(records, path)
        self.assertEqual(evald.read(path), records)
        pair = next(evald.selfplay(1, RULES, network=(leaning, uniform), **chosen))
        self.assertEqual((pair.networks, pair.policy.tolist()), (("0", "1"), games[0].policy.tolist()))
        self.assertEqual(pickle.loads(pickle.dumps(games[0])).networks, ("left", "flat"))
        for wrong, said in (({"a": uniform}, "two or more"), ({"a": uniform, "": uniform}, "not empty"), ({"a": uniform, "b": 3}, r"network\['b'\]"), ({"a": uniform, "b": "missing"}, 'network "b"|missing')):
            with self.assertRaisesRegex(evald.EvaldError, said):
                list(evald.selfplay(1, RULES, network=wrong))
        with self.assertRaisesRegex(evald.EvaldError, "reuse"):
            list(evald.selfplay(1, RULES, network={"a": uniform, "b": uniform}, reuse=True))

    def test_reuse(self) -> None:
        """The next search begins with what the last one found of its position, and adds its visits."""
        games = [list(evald.selfplay(6, RULES, network=leaning, visits=20, full_share=1, reuse=reuse, noise=0, opening_plies=0, order="number", seed=4)) for reuse in (False, True)]
        for apart, kept in zip(*games):
            np.testing.assert_allclose(apart.policy * 19, np.round(apart.policy * 19), atol=1e-4)
            total = 19
            for i, policy in enumerate(kept.policy):
                np.testing.assert_allclose(policy * total, np.round(policy * total), atol=1e-4)
                total = round(float(policy[kept.actions[i]]) * total) + 19  # one of the visits of the move that is played was its own evaluation
        self.assertNotEqual(games[0][0].q.tolist(), games[1][0].q.tolist())
        noisy = [list(evald.selfplay(6, RULES, network=leaning, visits=20, full_share=1, reuse=True, noise=0.5, alpha=0.3, order="number", seed=4)) for _ in range(2)]
        self.assertEqual(noisy[0], noisy[1])
        for game in noisy[0]:
            clean = leaning(game.positions)[0] * game.positions.legal()
            clean = clean / clean.sum(1, keepdims=True)
            self.assertTrue((game.prior >= 0.5 * clean - 1e-5).all())  # the noise of one search alone
            self.assertTrue((np.abs(game.prior - clean).max(1) > 1e-3)[game.positions.legal().sum(1) > 1].all())

    def test_refuses(self) -> None:
        for chosen, says in ((dict(reuse=True, selection="gumbel"), "reuse"), (dict(lookahead=False, exact=True), "exact"), (dict(considered=0), "considered")):
            with self.assertRaisesRegex(evald.EvaldError, says):
                list(evald.selfplay(1, RULES, network=uniform, visits=2, **chosen))


class Linear:
    """A network in numpy: logits and value are linear in the planes."""

    def __init__(self) -> None:
        self.policy, self.value = np.zeros((100, 5)), np.zeros(100)

    def __call__(self, p: evald.Positions):
        x = p.planes().reshape(len(p), -1)
        logits = x @ self.policy
        policy = np.exp(logits - logits.max(1, keepdims=True))
        return policy / policy.sum(1, keepdims=True), np.tanh(x @ self.value)

    def train(self, p: evald.Positions, policy: np.ndarray, z: np.ndarray) -> None:
        x = p.planes().reshape(len(p), -1)
        for _ in range(150):
            guessed, value = self(p)
            self.policy -= 0.3 * x.T @ (guessed - policy) / len(p)
            self.value -= 0.3 * x.T @ ((value - z) * (1 - value**2)) / len(p)


class Loop(unittest.TestCase):
    def test_learns(self) -> None:
        """AlphaZero's loop: self-play, training, score and match, with the network's own moves."""
        net, untrained = Linear(), Linear()
        exact = evald.labels(starts(150, 5), RULES)
        before = evald.score(net, exact, visits=0, raw=True).good[0]
        for generation in range(4):
            games = list(evald.selfplay(60, RULES, network=net, visits=24, full_share=1, discount=1, first=60 * generation, seed=1))
            positions = evald.Positions(np.concatenate([g.positions.words for g in games]), RULES)
            net.train(positions, np.concatenate([g.policy for g in games]), np.concatenate([g.z for g in games]))
        after = evald.score(net, exact, visits=0, raw=True).good[0]
        self.assertGreater(after, before + 0.03)
        self.assertGreater(evald.match({"trained": net, "untrained": untrained}, RULES, games=40, visits=2).score[0, 1], 0.5)

    @unittest.skipUnless(os.environ.get("EVALD_SOAK") and importlib.util.find_spec("torch"), "waits for make soak, and for torch")
    def test_guide(self) -> None:
        """The program of the guide learns."""
        guide = pathlib.Path(evald.__file__).parents[3] / "guides" / "alphazero.md"
        program = guide.read_text().split("```python torch\n")[1].split("```")[0]
        space: dict[str, Any] = {}
        with redirect_stdout(io.StringIO()):
            exec(compile(program, str(guide), "exec"), space)
        self.assertGreater(space["score"].good[0], 0.85)
        self.assertGreater(space["score"].good[1], 0.9)


if __name__ == "__main__":
    unittest.main()
