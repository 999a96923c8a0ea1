"""For mctx: the root and recurrent functions of its searches. They use evald's engine and networks, which run on the host.

    model = evald.mctx.Model()
    root = model.root(state.observation)                     # Pgx's connect_four: bool [B,6,7,2]
    mctx.gumbel_muzero_policy(None, key, root, model.recurrent, num_simulations=32, invalid_actions=~state.legal_action_mask)

All functions take and return batches [B,...], and work under jax.jit and jax.vmap.
"""
from __future__ import annotations

import os
from typing import Any, Callable, Sequence

import jax
import jax.numpy as jnp
import mctx
import numpy as np
import numpy.typing as npt

from ._arguments import whole
from ._evaluator import Evaluator, evaluator
from ._positions import Board, Positions, board
from ._search import asked
from ._work import Network, answered

__all__ = ["Model"]

Array = npt.NDArray[Any]

Shape = tuple[tuple[int, ...], Any]  # the shape without the batch, and the dtype

WORDS = 8  # of 32 bits each, because JAX has no 64-bit types by default
IMPOSSIBLE = float(np.finfo(np.float32).min)  # the logit of an illegal action
SCALAR: Shape = ((), np.float32)
EMBEDDING: Shape = ((WORDS,), np.uint32)


class Model:
    """The game `rules` and its evaluator as a model of mctx. `model` is as in evald.evaluate, or a
    function (see evald.Network), whose answers are taken as they are: those of an evaluator have the
    help of the rules. The embedding is the position, uint32 [B,8].

    The reward is 1 for an action that wins. The discount is -1, because the sides alternate, or 0 if the game is over. An illegal action has a logit of
    -3.4e38, and playing it loses.

    >>> found = Model().root(jnp.zeros((3, 6, 7, 2), bool))
    >>> found.prior_logits.shape, found.value.shape, found.embedding.shape
    ((3, 7), (3,), (3, 8))
    """

    def __init__(self, rules: str | Board = "7x6x4", model: str | os.PathLike[str] | Evaluator | Network | None = None) -> None:
        self.board = board(rules)
        of = asked(model)
        self._network = evaluator(of) if of is None or isinstance(of, (str, Evaluator)) else of

    def root(self, observation: Any) -> Any:
        """The RootFnOutput for an `observation` [B,H,W,2]: stones of the side to move, and of the
        other side."""
        logits, value, embedding = _on_host(self._root, observation.shape[:-3], (self._logits, SCALAR, EMBEDDING), observation)
        return mctx.RootFnOutput(prior_logits=logits, value=value, embedding=embedding)

    def recurrent(self, params: Any, rng_key: Any, action: Any, embedding: Any) -> tuple[Any, Any]:
        """The RecurrentFnOutput for an `action` [B] in each position of `embedding`, and the new
        embedding. `params` and `rng_key` are not used."""
        reward, discount, logits, value, after = _on_host(
            self._recurrent, action.shape, (SCALAR, SCALAR, self._logits, SCALAR, EMBEDDING), action, embedding
        )
        return mctx.RecurrentFnOutput(reward=reward, discount=discount, prior_logits=logits, value=value), after

    def observe(self, embedding: Any) -> tuple[Any, Any]:
        """The observation, bool [B,H,W,2], and the legal_action_mask, bool [B,A], of the positions
        of `embedding`, as in Pgx."""
        shapes = (((self.board.rows, self.board.columns, 2), np.bool_), ((self.board.actions,), np.bool_))
        observation, mask = _on_host(self._observe, embedding.shape[:-1], shapes, embedding)
        return observation, mask

    @property
    def _logits(self) -> Shape:
        return (self.board.actions,), np.float32

    def _root(self, observation: Array) -> tuple[Array, ...]:
        stones = observation.reshape(-1, self.board.rows, self.board.columns, 2).astype(np.int8)
        positions = Positions(stones[..., 0] - stones[..., 1], self.board)
        return *self._ask(positions), positions.words.view(np.uint32)

    def _recurrent(self, action: Array, embedding: Array) -> tuple[Array, ...]:
        positions, action = self._positions(embedding), whole("action", action).reshape(-1)
        going = positions.results() == 2
        inside = np.where((action >= 0) & (action < self.board.actions), action, 0)
        rows = np.flatnonzero(positions.legal()[np.arange(len(action)), inside] & (inside == action))  # rows with a legal action
        after, played = Positions(positions), positions[rows].play(action[rows])
        after.words[rows] = played.words
        reward, discount = np.where(going, np.float32(-1), np.float32(0)), np.zeros(len(action), np.float32)
        results = played.results()  # for the other side
        reward[rows], discount[rows] = results == -1, np.where(results == 2, -1, 0)
        logits, value = self._ask(after)
        return reward, discount, logits, np.where(discount == 0, np.float32(0), value), after.words.view(np.uint32)

    def _observe(self, embedding: Array) -> tuple[Array, ...]:
        positions = self._positions(embedding)
        cells = positions.cells()
        return np.stack([cells == 1, cells == -1], -1), positions.legal()

    def _positions(self, embedding: Array) -> Positions:
        return Positions._of(np.array(embedding, np.uint32, order="C").reshape(-1, WORDS).view(np.uint64), self.board)

    def _ask(self, positions: Positions) -> tuple[Array, Array]:
        if isinstance(self._network, Evaluator):
            answers = self._network.evaluate(positions)
            policy, value = answers.policy, answers.value
        else:
            policy, wdl = answered(self._network, positions)
            value = wdl[:, 0] - wdl[:, 2]
        legal = positions.legal()
        logits: Array = np.log(np.where(legal, policy, 1).clip(1e-30))
        logits[~legal] = IMPOSSIBLE
        return logits, value


def _on_host(function: Callable[..., tuple[Array, ...]], batch: tuple[int, ...], shapes: Sequence[Shape], *arguments: Any) -> Any:
    """Calls a function on the host. The function expects numpy arrays with one batch dimension; arguments and results have any number of them."""

    def call(*arguments: Any) -> list[Array]:
        arrays = [np.asarray(argument) for argument in arguments]
        lead = arrays[0].shape[: arrays[0].ndim - inner]
        return [array.reshape(lead + array.shape[1:]) for array in function(*arrays)]

    inner = len(arguments[0].shape) - len(batch)
    struct: Any = jax.ShapeDtypeStruct
    results = [struct((*batch, *shape), kind) for shape, kind in shapes]
    return jax.pure_callback(call, results, *arguments, vmap_method="broadcast_all")
