import functools
import unittest

import numpy as np
from reference import Game, needs, random_games

needs("jax", "mctx")

import evald  # noqa: E402
import evald.mctx  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import mctx  # noqa: E402

# Moves after which the side to move wins by action 2 or 6, and after which only action 3 does not lose.
WIN, ONLY = "445566", "142474"


def observations(games):
    return jnp.array(np.stack([game.observation(game.player()) for game in games]))


def of_text(moves, shape=(7, 6, 4)):
    game = Game(*shape)
    for move in moves:
        game.play(int(move) - 1)
    return game


class Mctx(unittest.TestCase):
    def test_root(self) -> None:
        games = random_games(20, 1)
        for function in (evald.mctx.Model().root, jax.jit(evald.mctx.Model().root)):
            root = function(observations(games))
            answers = evald.evaluate([game.text() for game in games])
            mask = np.array([game.mask() for game in games], bool)
            self.assertTrue(np.allclose(jax.nn.softmax(root.prior_logits), answers.policy, atol=1e-5))
            self.assertTrue((root.prior_logits[~mask] < -1e38).all())
            self.assertTrue(np.allclose(root.value, answers.value))
            self.assertEqual((root.embedding.dtype, root.embedding.shape), (jnp.uint32, (20, 8)))
            self.assertEqual((root.prior_logits.dtype, root.value.dtype), (jnp.float32, jnp.float32))

    def test_recurrent_is_the_reference(self) -> None:
        for shape in ((7, 6, 4), (5, 4, 3), (12, 9, 5)):
            rules = "x".join(map(str, shape))
            model = evald.mctx.Model(rules)
            recurrent = jax.jit(model.recurrent)
            games = random_games(20, 2, shape)
            rng, ends = np.random.default_rng(3), 0
            embedding = model.root(observations(games)).embedding
            done = np.zeros(len(games), bool)
            for _ in range(15):
                actions = rng.integers(shape[0], size=len(games))
                before = np.asarray(embedding)
                out, embedding = recurrent(None, jax.random.PRNGKey(0), jnp.array(actions), embedding)
                for i, (game, action) in enumerate(zip(games, actions)):
                    if done[i] or action not in game.legal():
                        want = (0, 0) if done[i] else (-1, 0)
                        self.assertEqual(before[i].tolist(), np.asarray(embedding)[i].tolist())
                    else:
                        mover = game.player()
                        game.play(int(action))
                        done[i] = game.over()
                        want = (int(game.winner() == mover), 0 if done[i] else -1)
                        ends += done[i]
                        if not done[i]:
                            self.assertAlmostEqual(float(out.value[i]), float(evald.evaluate(np.array(game.cells), rules).value[0]), 5)
                    self.assertEqual((float(out.reward[i]), float(out.discount[i])), want)
                    if done[i]:
                        self.assertEqual(float(out.value[i]), 0)
                seen, mask = model.observe(embedding)
                self.assertEqual(seen.tolist(), np.stack([game.observation(game.player()) for game in games]).tolist())
                self.assertEqual(mask.tolist(), [[bool(x) for x in game.mask()] for game in games])
            self.assertGreater(ends, 2)

    def test_vmap(self) -> None:
        model, games = evald.mctx.Model(), random_games(6, 4)
        root = model.root(observations(games))
        nested = jax.vmap(model.root)(observations(games).reshape(2, 3, 6, 7, 2))
        self.assertTrue(np.array_equal(nested.embedding.reshape(6, 8), root.embedding))
        self.assertTrue(np.allclose(nested.value.reshape(6), root.value))
        actions = jnp.array([game.legal()[0] for game in games])
        out, _ = model.recurrent(None, None, actions, root.embedding)
        each, _ = jax.vmap(lambda a, e: model.recurrent(None, None, a, e))(actions, root.embedding)
        self.assertTrue(np.allclose(each.value, out.value))

    def test_searches(self) -> None:
        model = evald.mctx.Model()
        games = [of_text(WIN), of_text(ONLY), of_text("")]
        root = model.root(observations(games))
        mask = np.array([game.mask() for game in games], bool)
        for policy, options in ((mctx.gumbel_muzero_policy, {"gumbel_scale": 0.0}), (mctx.muzero_policy, {"dirichlet_fraction": 0.0, "temperature": 0.0})):
            search = jax.jit(lambda root: policy(None, jax.random.PRNGKey(1), root, model.recurrent, num_simulations=40, invalid_actions=~mask, **options))
            actions = np.asarray(search(root).action).tolist()
            self.assertIn(actions[0], (2, 6))
            self.assertEqual(actions[1:], [3, 3])

    def test_same_shapes_and_games_as_pgx(self) -> None:
        try:
            import pgx
        except ImportError as error:
            self.skipTest(f"pgx is missing: {error}")
        env, model = pgx.make("connect_four"), evald.mctx.Model()
        state = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), 8))
        step, rng = jax.jit(jax.vmap(env.step)), np.random.default_rng(5)
        embedding = model.root(state.observation).embedding
        for _ in range(25):
            seen, mask = model.observe(embedding)
            going = ~np.asarray(state.terminated)
            self.assertEqual((seen.dtype, seen.shape, mask.dtype, mask.shape),
                             (state.observation.dtype, state.observation.shape, state.legal_action_mask.dtype, state.legal_action_mask.shape))
            self.assertTrue(np.array_equal(seen[going], state.observation[going]))
            self.assertTrue(np.array_equal(mask[going], state.legal_action_mask[going]))
            actions = (rng.random(mask.shape) * np.where(mask, 1, 0)).argmax(1)
            movers = np.asarray(state.current_player)
            out, embedding = model.recurrent(None, None, jnp.array(actions), embedding)
            state = step(state, jnp.array(actions))
            rewards = np.asarray(state.rewards)[np.arange(8), movers]
            self.assertEqual(np.asarray(out.reward)[going].tolist(), rewards[going].tolist())
            self.assertEqual((np.asarray(out.discount) == 0).tolist(), np.asarray(state.terminated).tolist())
        self.assertTrue(np.asarray(state.terminated).any())


def mixed(x: np.ndarray) -> np.ndarray:
    """Pseudorandom numbers (splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hashed(p: evald.Positions) -> tuple[np.ndarray, np.ndarray]:
    """A network whose answers depend on the position alone, and not on its batch."""
    with np.errstate(over="ignore"):
        h = np.zeros(len(p), np.uint64)
        for k in range(4):
            h = mixed(h ^ p.words[:, k])
        drawn = np.stack([(mixed(h + np.uint64(i + 1)) >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24) for i in range(p.board.actions + 1)], 1)
    policy = np.where(p.legal(), np.float32(0.02) + drawn[:, :-1] ** 2, 0).astype(np.float32)
    return policy / policy.sum(1, keepdims=True).clip(1e-9), drawn[:, -1] * 2 - 1


def drawn_positions(rules: str, n: int) -> evald.Positions:
    """Positions of games at random, of all lengths."""
    board, random, words = evald.board(rules), np.random.default_rng(1), []
    while len(words) < n:
        p = evald.Positions.empty(1, board)
        for _ in range(random.integers(0, board.cells)):
            after = p.play([random.choice(np.flatnonzero(p.legal()[0]))])
            if after.results()[0] != 2:
                break
            p = after
        words.append(p.words)
    return evald.Positions(np.concatenate(words), rules)


def unvisited(tree, node, *, fpu):
    """The values of moves by AlphaZero's PUCT with evald's first play urgency."""
    visits, priors = tree.children_visits[node], jax.nn.softmax(tree.children_prior_logits[node])
    less = jnp.where(node == 0, 0.0, fpu) * jnp.sqrt(jnp.sum(jnp.where(visits > 0, priors, 0)))
    return jnp.where(visits > 0, tree.qvalues(node), tree.node_values[node] - less)


class Same(unittest.TestCase):
    def test_visits(self) -> None:
        """Plain searches make the visits of mctx, with the same constants: PUCT, Gumbel of the paper, and Gumbel of mctx."""
        mix = mctx.qtransform_completed_by_mix_value
        rules_of = {
            "puct": (dict(explore=1.25, fpu=0.3), mctx.muzero_policy,
                     dict(qtransform=functools.partial(unvisited, fpu=0.3), dirichlet_fraction=0.0, pb_c_init=1.25, pb_c_base=1e12)),
            "paper": (dict(selection="gumbel", gumbel_scale=0), mctx.gumbel_muzero_policy,
                      dict(qtransform=functools.partial(mix, value_scale=0.5, maxvisit_init=50, rescale_values=False), gumbel_scale=0.0)),
            "mctx": (dict(selection="gumbel", gumbel_scale=0, c_scale=0.1, rescale=True), mctx.gumbel_muzero_policy, dict(qtransform=mix, gumbel_scale=0.0)),
        }
        for rules in ("7x6x4", "5x4x4", "4x4x3"):
            of, model = drawn_positions(rules, 1000), evald.mctx.Model(rules, hashed)
            cells = of.cells()
            root = model.root(jnp.array(np.stack([cells == 1, cells == -1], -1)))
            for name, (ours, policy, theirs) in rules_of.items():
                for simulations in (8, 32, 128):
                    with self.subTest(f"{rules}, {name}, {simulations} simulations"):
                        found = evald.search(of, network=hashed, visits=simulations + 1, **ours)
                        search = jax.jit(functools.partial(policy, None, jax.random.PRNGKey(0), recurrent_fn=model.recurrent, num_simulations=simulations,
                                                           invalid_actions=jnp.array(~of.legal()), **theirs))
                        out = search(root=root)
                        summary = out.search_tree.summary()
                        np.testing.assert_array_equal(found.visits, summary.visit_counts)
                        np.testing.assert_allclose(np.where(found.visits > 0, found.q, 0), np.where(found.visits > 0, summary.qvalues, 0), atol=1e-5)
                        np.testing.assert_allclose(found.policy, out.action_weights, atol=1e-5)
                        np.testing.assert_allclose(found.value, summary.value, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
