"""Searches of many positions step by step."""
from __future__ import annotations

from typing import Any, Callable, Literal, Sequence

import numpy as np
import numpy.typing as npt

from ._evaluator import Evaluator, evaluator
from . import _arguments as arguments
from ._library import ClosedError, EvaldError, error_text, failed, library, thread, told
from ._positions import Board, Positions, PositionsLike
from ._progress import Progress, progress_of
from ._search import CHILDREN, NODES, SEARCHING, AnyNetwork, Floats, Integers, Searched, Tree, _asks, asked, chosen_of, padding
from ._work import Work

MOST_VISITS = 1 << 30


class Forest:
    """A tree for each of N positions, which grow step by step:

        forest = evald.Forest(["-", "44"], network=f)
        forest.run(1)
        forest.prior = mixed(forest.prior)     # [N,A] of your own, for the roots' moves
        found = forest.run(99)                 # Searched, of all 100 visits
        forest.advance(found.best)             # the next run begins with what is known of the new positions

    `positions`, `rules`, `network`, `sizes` and the other arguments are those of search. A run of some
    visits and one of the others find the same as a search with all of them (with leaves=1). Gumbel
    plans all visits of a search at its start, and so has no forest.

    A tree keeps its positions in memory, some 100 to 300 bytes for each visit. A forest cannot be
    pickled or copied: keep its `positions`.

    .. engine/ask: words
    `selection`: How visits choose among moves: puct, uct, flat. flat is flat Monte Carlo, without lookahead: all moves get equal shares and the best
      mean is played, of random games with the heuristic rollout:games=1.
    `leaves`: Leaves of one position that are evaluated at once. More are faster if few positions wait, and change the answers.
    `explore`: Exploration constant of puct (cpuct) and uct: a larger one spreads the visits over more moves. 0 is that of the network (evald match
      --tune), or else 1.5 for puct and 1.41 for uct.
    `cpuct`: Another name of `explore`.
    `fpu`: How much lower puct values a move without visits than its position (first play urgency), below the root: a larger one visits fewer moves.
      Default: that of the network (evald match --tune), or else 0.2.
    `exact`: Prove leaves whose result a solver finds within 1000 nodes (True), or a number of nodes, and exclude moves of the position that it finds
      to give the result away; False is none. Default: 1000 on boards with gravity, none in a search without lookahead.
    `lookahead`: Look two stones ahead (uct: one) before the network is asked, and prove results from the ends of games upwards; False is the search
      of the papers, which judges a network by itself. Default: True, but False for networks that are not in evald's formats (functions, ONNX files).
    `priors`: What puct makes of a network's policy: flat are its square roots, scaled to sum 1, with which a network that is too certain finds more;
      policy is the policy itself. Default: flat, but policy for networks that are not in evald's formats.
    `transpositions`: Let all orders of moves to a position share its visits. Default: True, but False for networks that are not in evald's formats.
    `discount`: Factor of a value for each stone by which it is carried towards the root.
    `noise`: Share of Dirichlet noise in the priors of a position's moves.
    `alpha`: Parameter of the Dirichlet noise: a smaller one is for fewer moves at a time.
    `forced_playouts`: K, with which puct makes at least sqrt(K * prior * visits) visits of each move that has one (KataGo's forced playouts).
    `batch`: Leaves of all positions that are evaluated together. It changes no answer.
    `seed`: Random seed of uct, gumbel and flat, and of noise.
    .. engine/ask: end
    """

    def __init__(self, positions: PositionsLike, rules: str | Board | None = None, *, network: AnyNetwork = None,
                 # engine/ask: arguments
                 selection: Literal["puct", "uct", "flat"] = "puct",
                 leaves: int = 1,
                 explore: float | None = None,
                 cpuct: float | None = None,
                 fpu: float | None = None,
                 exact: int | bool | None = None,
                 lookahead: bool | None = None,
                 priors: Literal["flat", "policy"] | None = None,
                 transpositions: bool | None = None,
                 discount: float = 1,
                 noise: float | None = None,
                 alpha: float = 1,
                 forced_playouts: float | None = None,
                 batch: int = 256,
                 seed: int = 0,
                 # engine/ask: end
                 sizes: Sequence[int] | None = None) -> None:
        given = chosen_of({name: value for name, value in locals().items() if name in SEARCHING})
        self._number = -1
        network, of = asked(network), Positions(positions, rules)
        self._sizes = padding(sizes, network)
        if network is None or isinstance(network, (str, Evaluator)):
            network = evaluator(network, "network")
            if network.service is not None:
                raise EvaldError("a service keeps no trees; search here, with the function network=evaluator.network")
        number, self._function, self._open = _asks(network)
        chosen, error, words = arguments.options(given), error_text(), of._words
        self._rule: str = told(library.rule, number, of.board._number, chosen)
        planted = library.plant(number, of.board._number, len(of), library.pointer(words), chosen, error)
        if planted < 0:
            raise failed(planted, error)
        self._number, self._positions = planted, of
        self._known: Searched | None = None

    @property
    def positions(self) -> Positions:
        """[N] the positions of the roots."""
        return self._positions

    @property
    def rule(self) -> str:
        """The search in words."""
        return self._rule

    def run(self, visits: int, *, tree: bool = False, progress: Progress | None = None) -> Searched:
        """Adds `visits` to each tree, and returns what the trees have found with all their visits. A
        tree whose result is proved, or whose game is over, gets none. `tree` and `progress` are as in
        search. 0 visits only ask for what is known.

        After an error, of a function for example, the trees have some of the visits.
        """
        adds, tree, tell = arguments.count("visits", visits, 0, MOST_VISITS), arguments.flag("tree", tree), progress_of(progress)
        self._known = None
        of, found, error = self._positions, Searched(self._positions), error_text()
        found.rule = self._rule
        grown = library.grown(self._open_number(), error) if tree else 0
        if grown < 0:
            raise failed(grown, error)
        most = grown + adds if tree else 0
        nodes = np.zeros(len(of) * most * (len(NODES) + len(CHILDREN) * of.board.actions), np.int32)
        call = library.grow(
            self._open_number(), adds, library.pointer(found.visits), library.pointer(found.policy), library.pointer(found.q), library.pointer(found.wdl),
            library.pointer(found.best), library.pointer(found.proved), library.pointer(found.prior), library.pointer(found.raw_value), most, library.pointer(nodes), error,
        )
        with Work(call, of.board, self._function, error, (found, nodes, self), self._sizes) as work:
            work.wait(tell)
        if tree:
            found.tree = Tree(nodes, len(of), most, of.board.actions)
        return found

    def set_prior(self, prior: npt.ArrayLike) -> None:
        """`forest.prior = prior` in a call: replaces the priors of the roots' moves by those of `prior`
        [N,A], as they are: without noise, and not flattened. Rows need not sum to 1, illegal actions
        are masked, and rows of games that are over are not read. They hold until `advance`."""
        rows = arguments.floats("prior", prior, (len(self._positions), self._positions.board.actions))
        self._short(library.priors, rows)

    @property
    def prior(self) -> Any:
        """[N,A] the priors of the roots' moves, 0 before the first visit. Own ones replace them: see `set_prior`."""
        return self.known.prior

    @prior.setter
    def prior(self, prior: npt.ArrayLike) -> None:
        self.set_prior(prior)

    @property
    def known(self) -> Searched:
        """What the trees have found so far, as `run` returns it."""
        if self._known is None:
            self._known = self.run(0)
        return self._known

    @property
    def visits(self) -> npt.NDArray[np.uint32]:
        """[N,A] the visits of the roots' moves."""
        return self.known.visits

    @property
    def q(self) -> Floats:
        """[N,A] mean values of the roots' moves."""
        return self.known.q

    @property
    def policy(self) -> Floats:
        """[N,A] the moves' shares of the visits."""
        return self.known.policy

    @property
    def value(self) -> Floats:
        """[N] the values of the roots."""
        return self.known.value

    @property
    def best(self) -> Integers:
        """[N] the actions to play; -1 where the game is over."""
        return self.known.best

    def advance(self, actions: npt.ArrayLike) -> Positions:
        """Plays `actions` [N], one in each position and -1 for none, and returns the new positions. A
        tree keeps what it has found of its new position, also the visits; noise is drawn anew."""
        chosen = arguments.each("actions", actions, len(self._positions), "position")
        self._short(library.advance, chosen)
        played = chosen >= 0
        words = self._positions._words.copy()
        if played.any():
            words[played] = self._positions[played]._played(chosen[played])._words
        self._positions = Positions._of(words, self._positions.board)
        return self._positions

    def close(self) -> None:
        """Drops the trees. The end of the last reference does so, too."""
        number, self._number = self._number, -1
        if number >= 0:
            library.close(number, error_text())

    def __enter__(self) -> Forest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # the interpreter ends
            pass

    def __len__(self) -> int:
        return len(self._positions)

    def __repr__(self) -> str:
        return f"<forest of {self._positions!r} by {self._rule}>"

    def __reduce__(self) -> Any:
        raise TypeError("a forest cannot be pickled or copied: pickle its positions, or what run returned")

    def _open_number(self) -> int:
        if self._number < 0:
            raise ClosedError("the forest is closed")
        return self._number

    def _short(self, call: Callable[..., int], array: npt.NDArray[Any]) -> None:
        self._known = None
        if status := call(self._open_number(), library.pointer(array), thread.error):
            raise failed(status, thread.error)
