"""Searches, exact scores and self-play of many positions at once."""
from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Iterator, Literal, NamedTuple, Sequence, TypedDict, Union

import numpy as np
import numpy.typing as npt

from ._evaluator import NAMED, Evaluator, Rows, evaluator
from . import _arguments as arguments
from ._library import EvaldError, error_text, failed, library, told
from ._positions import Board, Positions, PositionsLike, board
from ._progress import Progress, progress_of
from ._service import SEARCHED, Service
from ._values import Value
from ._work import Network, Work

if sys.version_info >= (3, 11):
    from typing import Unpack as Unpack
elif TYPE_CHECKING:  # older versions of Python need it for the types alone
    from typing_extensions import Unpack as Unpack

MOST_SEED = (1 << 64) - 1
AnyNetwork = Union[Network, Evaluator, str, "os.PathLike[str]", None]


class Searching(NamedTuple):
    """An argument of searches."""

    default: Any
    served: bool  # whether a service accepts it
    check: Callable[[Any], Any]


SEARCHING: dict[str, Searching] = {
    # engine/ask: table
    "visits": Searching(800, True, lambda value: arguments.count("visits", value, 1, 1073741824)),
    "selection": Searching("puct", True, lambda value: arguments.text("selection", value)),
    "leaves": Searching(1, False, lambda value: arguments.count("leaves", value, 1, 4096)),
    "explore": Searching(None, True, lambda value: arguments.optional(arguments.number, "explore", value, 0, 1000)),
    "cpuct": Searching(None, True, lambda value: arguments.optional(arguments.number, "cpuct", value, 0, 1000)),
    "fpu": Searching(None, True, lambda value: arguments.optional(arguments.number, "fpu", value, -2, 2)),
    "exact": Searching(None, True, lambda value: arguments.optional(arguments.nodes, "exact", value)),
    "lookahead": Searching(None, True, lambda value: arguments.optional(arguments.flag, "lookahead", value)),
    "priors": Searching(None, True, lambda value: arguments.optional(arguments.text, "priors", value)),
    "transpositions": Searching(None, True, lambda value: arguments.optional(arguments.flag, "transpositions", value)),
    "discount": Searching(1, True, lambda value: arguments.number("discount", value, 0.5, 1)),
    "noise": Searching(None, True, lambda value: arguments.optional(arguments.number, "noise", value, 0, 1)),
    "alpha": Searching(1, True, lambda value: arguments.number("alpha", value, 1e-06, 1e+06)),
    "forced_playouts": Searching(None, True, lambda value: arguments.optional(arguments.number, "forced_playouts", value, 0, 1e+06)),
    "considered": Searching(16, True, lambda value: arguments.count("considered", value, 1, 128)),
    "c_visit": Searching(None, True, lambda value: arguments.optional(arguments.number, "c_visit", value, 0, 1e+06)),
    "c_scale": Searching(None, True, lambda value: arguments.optional(arguments.number, "c_scale", value, 0, 1e+06)),
    "rescale": Searching(False, True, lambda value: arguments.flag("rescale", value)),
    "gumbel_scale": Searching(None, True, lambda value: arguments.optional(arguments.number, "gumbel_scale", value, 0, 1e+06)),
    "batch": Searching(256, False, lambda value: arguments.count("batch", value, 1, 1048576)),
    "seed": Searching(0, True, lambda value: arguments.count("seed", value, 0, MOST_SEED)),
    # engine/ask: end
}


class SearchOptions(TypedDict, total=False):
    """Further arguments of searches, as in search."""

    # engine/ask: settings
    leaves: int
    explore: float | None
    cpuct: float | None
    fpu: float | None
    priors: Literal["flat", "policy"] | None
    transpositions: bool | None
    discount: float
    noise: float | None
    alpha: float
    forced_playouts: float | None
    considered: int
    c_visit: float | None
    c_scale: float | None
    rescale: bool
    gumbel_scale: float | None
    # engine/ask: end


class GameOptions(TypedDict, total=False):
    """Further arguments of selfplay."""

    seed: int
    visits: int
    exact: int | bool
    batch: int
    parallel: int
    order: Literal["finished", "number"]
    cpuct: float | None
    sizes: Sequence[int] | None
    progress: Progress | None
    # evald selfplay: settings
    fast_visits: int
    full_share: float
    selection: Literal["puct", "gumbel"]
    explore: float
    noise: float
    alpha: float
    discount: float
    openings: Literal["random", "plausible", "openings", "mixed"]
    opening_plies: int | None
    temperature: float
    temperature_plies: int | None
    resign: float
    policy: bool
    lookahead: bool | None
    fpu: float | None
    forced_playouts: float | None
    considered: int
    c_visit: float | None
    c_scale: float | None
    rescale: bool
    gumbel_scale: float | None
    reuse: bool
    # evald selfplay: end


INTEGERS = ("node_visits", "parents", "action_from_parent", "children_index", "children_visits")
NODES = ("node_visits", "parents", "action_from_parent", "node_values", "raw_values")
CHILDREN = ("children_index", "children_visits", "children_prior_logits", "children_rewards", "children_discounts", "children_values")
Integers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float32]

NO_MOVE = -1000  # the score of an illegal action
MOST_GAMES = (1 << 62) - 1  # the number of the last game has 63 bits


class Tree(Value):
    """The trees of N searches with room for M = `visits` positions each, under the names of mctx. Position 0 is the root; the others follow level by
    level. Values are for the side to move at the position, and 0 where the game is over.

    `node_visits` [N,M] (0 where there is no position), `node_values` [N,M] means of the visits' values, `raw_values` [N,M] the network's own,
    `parents` and `action_from_parent` [N,M] (-1 at the root). Of each move [N,M,A]: `children_index`, the position after it (-1 without visits),
    `children_visits`, `children_prior_logits`, and its value: `children_rewards` (1 wins the game) + `children_discounts` (-1, and 0 where the game is
    over) * `children_values`.
    """

    __slots__ = NODES + CHILDREN

    node_visits: Integers
    parents: Integers
    action_from_parent: Integers
    node_values: Floats
    raw_values: Floats
    children_index: Integers
    children_visits: Integers
    children_prior_logits: Floats
    children_rewards: Floats
    children_discounts: Floats
    children_values: Floats

    def __init__(self, words: Integers, n: int, most: int, actions: int) -> None:
        at = 0
        for name in self.__slots__:
            shape = (n, most, actions) if name in CHILDREN else (n, most)
            size = int(np.prod(shape))
            part = words[at : at + size].reshape(shape)
            setattr(self, name, part if name in INTEGERS else part.view(np.float32))
            at += size

    @property
    def qvalues(self) -> Floats:
        """[N,M,A] the value of each move with visits, for the side that makes it; 0 for others."""
        values: Floats = self.children_rewards + self.children_discounts * self.children_values
        return values

    def __repr__(self) -> str:
        return f"<{len(self.parents)} trees of {int((self.node_visits > 0).sum())} positions>"


class Searched(Rows):
    """The results of searches, for the side to move.

    `visits` [N,A] of each action; `policy` [N,A] their shares, or the improved policy of gumbel, which sum to 1 unless the game is over; `q` [N,A] mean
    values of actions; `prior` [N,A] as the search has used them; `wdl` [N,3]; `value` [N]; `raw_value` [N] the network's own value (NaN if the rules
    decided the position, and the network was not asked); `best` [N] the action to play (-1 if the game is over); `proved` [N], the proved result 1, 0 or
    -1, else 2; `tree` the Tree, if it was asked for; and `rule`, the search in words.
    """

    __slots__ = ("visits", "q", "best", "proved", "prior", "raw_value", "tree", "rule")

    def __init__(self, positions: Positions) -> None:
        n, a = len(positions), positions.board.actions
        self.positions = positions
        self.visits = np.zeros((n, a), np.uint32)
        self.policy, self.q, self.prior = np.zeros((n, a), np.float32), np.zeros((n, a), np.float32), np.zeros((n, a), np.float32)
        self.wdl, self.raw_value = np.zeros((n, 3), np.float32), np.full(n, np.nan, np.float32)
        self.best, self.proved = np.zeros(n, np.int32), np.zeros(n, np.int8)
        self.tree: Tree | None = None
        self.rule = ""

    def __repr__(self) -> str:
        return f"<searches of {self.positions!r} by {self.rule}>"


def chosen_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The checked arguments of a search that are not None."""
    for name in given:
        if name not in SEARCHING:
            raise TypeError(f"unexpected keyword argument {name!r}: searches have {', '.join(SEARCHING)}")
    found = {name: SEARCHING[name].check(value) for name, value in given.items()}
    if found.get("cpuct") is not None and found.get("explore") is not None:
        raise arguments.wrong("cpuct", found["cpuct"], "left out beside explore, which is the same")
    return {"explore" if name == "cpuct" else name: value for name, value in found.items() if value is not None}


def asked(network: AnyNetwork) -> Network | Evaluator | str | None:
    """Checks the argument network. A path becomes text, and a module of PyTorch a function."""
    if isinstance(network, (str, os.PathLike)) and not callable(network):
        return arguments.path("network", network)
    if (torch := sys.modules.get("torch")) is not None and isinstance(network, torch.nn.Module):
        from .torch import ModuleNetwork

        return ModuleNetwork(network)
    if network is not None and not isinstance(network, Evaluator) and not callable(network):
        raise arguments.wrong("network", network, "a function, an Evaluator, or " + NAMED)
    return network


def padding(sizes: Sequence[int] | None, network: Network | Evaluator | str | None) -> tuple[int, ...]:
    """Checks the argument sizes, which is for functions alone."""
    padded = arguments.sizes("sizes", sizes)
    if padded and (network is None or isinstance(network, (str, Evaluator))):
        raise arguments.wrong("sizes", sizes, "None, unless the network is a function")
    return padded


def _asks(network: Network | Evaluator | str | None) -> tuple[int, Network | None, Evaluator | None]:
    """The number of the evaluator, 0 for a function; the function or None; and the evaluator that must stay open or None."""
    if network is None or isinstance(network, (str, Evaluator)):
        e = evaluator(network, "network")
        return (e.number(), None, e) if e.service is None else (0, e.network, e)
    return 0, network, None


def _searched_by(service: Service, found: Searched, chosen: dict[str, Any], progress: Any) -> Searched:
    """Searches with the model `search` of a service."""
    n, a = len(found.positions), found.positions.board.actions
    chosen = {name: value for name, value in chosen.items() if name == "visits" or value != SEARCHING[name].default}
    if wrong := [name for name in chosen if not SEARCHING[name].served]:
        raise EvaldError(f"a service searches with its own {' and '.join(wrong)}: leave it out; or search here, with the function network=evaluator.network")
    if service.named:
        raise EvaldError(
            f"a service searches with the first of its models alone: leave out model={service.model!r}; or search here, with the function network=evaluator.network"
        )
    for i in range(0, n, SEARCHED):
        rows = slice(i, i + SEARCHED)
        answers, _, rule = service.ask("search", found.positions[rows], dict(visits=a, policy=a, q=a, wdl=3), chosen)
        found.rule = f"the service {service.url}: {rule}" if rule else f"the service {service.url}"
        found.visits[rows], found.policy[rows], found.q[rows], found.wdl[rows] = (answers[name] for name in ("visits", "policy", "q", "wdl"))
        if progress is not None:
            progress(min(i + SEARCHED, n), n)
    likely = found.policy == found.policy.max(1, keepdims=True, initial=0)
    found.best[:] = np.where(found.policy.any(1), np.where(likely, found.q, -2).argmax(1), -1)
    found.prior[:] = np.nan
    found.proved[:] = np.where((found.wdl == 1).any(1), found.wdl[:, 0] - found.wdl[:, 2], 2)
    return found


def search(positions: PositionsLike, rules: str | Board | None = None, *, network: AnyNetwork = None,
           # engine/ask: arguments
           visits: int = 800,
           selection: Literal["puct", "uct", "gumbel", "flat"] = "puct",
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
           considered: int = 16,
           c_visit: float | None = None,
           c_scale: float | None = None,
           rescale: bool = False,
           gumbel_scale: float | None = None,
           batch: int = 256,
           seed: int = 0,
           # engine/ask: end
           tree: bool = False, sizes: Sequence[int] | None = None, progress: Progress | None = None) -> Searched:
    """Searches each position in a tree of its own, many at once, so that their leaves fill batches.

    `positions` have any form, and are of the game `rules` (see Positions). `network` is a function
    (see Network), which is called with up to `batch` positions, an Evaluator, or the name or path
    of a model. The answer to a position does not depend on the other positions. The other arguments
    are the flags of `evald search`, and None stands for the default:

    .. engine/ask: words
    `visits`: Visits of each position's root.
    `selection`: How visits choose among moves: puct, uct, gumbel, flat. flat is flat Monte Carlo, without lookahead: all moves get equal shares and
      the best mean is played, of random games with the heuristic rollout:games=1.
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
    `considered`: Moves of a position that gumbel considers.
    `c_visit`: c_visit of gumbel, whose values weigh (c_visit + the most visits of a move) * c_scale against the logarithms of the priors. Default:
      50.
    `c_scale`: c_scale of gumbel, for values from 0 (lost) to 1 (won). Default: 1.
    `rescale`: Let the least value of a position's moves be 0 and the largest 1, as mctx does (with a c_scale of 0.1).
    `gumbel_scale`: Factor of gumbel's noise, which chooses the considered moves. With 0 they are the likeliest. Default: 1.
    `batch`: Leaves of all positions that are evaluated together. It changes no answer.
    `seed`: Random seed of uct, gumbel and flat, and of noise.
    .. engine/ask: end

    With `sizes` a function sees only batches of these numbers of positions (see Network). `progress` is called with the numbers of positions that are
    done and of all; True shows a bar of tqdm. With `tree` the result has all positions of the trees (see Tree), which takes 4 * (5 + 6A) bytes for each visit. Such a search has no lookahead and no
    transpositions.

    With an Evaluator that has a URL, the service searches with its model `search`, which does not accept `leaves`, `batch` and `tree`, and answers no
    `prior` and `raw_value` (NaN). If several moves have the
    most visits, `best` is then the one with the highest value.

    >>> search("445566", visits=50).best      # completes three in a row
    array([2], dtype=int32)
    """
    given = chosen_of({name: value for name, value in locals().items() if name in SEARCHING})
    network, of = asked(network), Positions(positions, rules)
    tell = progress_of(progress)
    found, error = Searched(of), error_text()
    tree, padded = arguments.flag("tree", tree), padding(sizes, network)
    if network is None or isinstance(network, (str, Evaluator)):
        network = evaluator(network, "network")
        if network.service is not None:
            if tree:
                raise EvaldError("tree: a service answers no trees; search here, with the function network=evaluator.network")
            return _searched_by(network.service, found, given, tell)
    number, function, _open = _asks(network)
    words = of._words
    chosen = arguments.options(given)
    found.rule = told(library.rule, number, of.board._number, chosen)
    most = given["visits"] if tree else 0
    nodes = np.zeros(len(of) * most * (len(NODES) + len(CHILDREN) * of.board.actions), np.int32)
    call = library.search(
        number, of.board._number, len(of), library.pointer(words), chosen, library.pointer(found.visits), library.pointer(found.policy), library.pointer(found.q),
        library.pointer(found.wdl), library.pointer(found.best), library.pointer(found.proved), library.pointer(found.prior), library.pointer(found.raw_value),
        most, library.pointer(nodes), error,
    )
    with Work(call, of.board, function, error, (words, found, nodes, _open), padded) as work:
        work.wait(tell)
    if tree:
        found.tree = Tree(nodes, len(of), most, of.board.actions)
    return found


def solve(positions: PositionsLike, rules: str | Board | None = None, *, nodes: int | None = None, threads: int | None = None,
          progress: Progress | None = None) -> npt.NDArray[np.int32]:
    """The exact score of each action [N,A] for the side to move: a score above 0 wins, and a higher
    one wins faster; a score below 0 loses. Illegal actions have NO_MOVE. `positions` have any form,
    and are of the game `rules` (see Positions); no game may be over. With `nodes`, all actions of a
    position that takes more nodes have NO_MOVE. `threads` is the number of processors, None for
    all. `progress` is called with the numbers of positions that are done and of all; True shows a
    bar of tqdm.

    >>> solve("4444437")[0].tolist()      # column 6 wins, the others lose
    [-3, -3, -1, -2, -2, 2, -3]
    """
    return _solved(Positions(positions, rules), nodes, threads, progress)


def _solved(of: Positions, nodes: int | None, threads: int | None, progress: Progress | None, results: bool = False) -> npt.NDArray[np.int32]:
    """[N,A] the exact scores or results of actions."""
    given = dict(nodes=arguments.optional(arguments.count, "nodes", nodes), threads=arguments.optional(arguments.count, "threads", threads), results=results)
    tell = progress_of(progress)
    scores, error, words = np.zeros((len(of), of.board.actions), np.int32), error_text(), of._words
    call = library.solve(of.board._number, len(of), library.pointer(words), arguments.options(given), library.pointer(scores), error)
    with Work(call, of.board, None, error, (words, scores)) as work:
        work.wait(tell)
    return scores


class Game(Value):
    """A game of self-play.

    `positions` [P] that were searched, in order; `actions` [P] played in them (-1 if the game ended there because its result was proved); `visits`
    [P,A] of full searches (0 for other searches); `policy` [P,A] of full searches in floats: shares of the visits, or the improved policy of gumbel;
    `prior` [P,A] as the search has used them, and `raw_value` [P] the network's own value (0 where the rules or a proof decided, and the network was
    not asked); `q` [P] root values for the side to move; `result` 1, 0 or -1 for the first player; `number` of the game; `networks`, the names of
    the first and the second player's networks, "" for a function that has none; and `recorded`, whether records of the game have the column policy (see
    `write`).
    """

    __slots__ = ("number", "positions", "actions", "visits", "q", "policy", "prior", "raw_value", "result", "networks", "recorded", "_codes")

    def __init__(self, number: int, result: int, rows: int, of: Board, networks: tuple[str, str], recorded: bool) -> None:
        self.number, self.result, self.networks, self.recorded = number, result, networks, recorded
        self.positions = Positions.empty(rows, of)
        self.actions = np.empty(rows, np.int32)
        self.visits = np.empty((rows, of.actions), np.uint32)
        self.q, self.raw_value = np.empty(rows, np.float32), np.empty(rows, np.float32)
        self.policy, self.prior = np.empty((rows, of.actions), np.float32), np.empty((rows, of.actions), np.float32)
        self._codes = np.empty(rows, np.uint8)

    @property
    def z(self) -> npt.NDArray[np.int8]:
        """[P] the game's result for the side to move."""
        sides = np.where(self.positions.stones % 2 == 0, 1, -1)
        return (self.result * sides).astype(np.int8)

    @property
    def network(self) -> list[str]:
        """[P] the name of the network that searched the position."""
        return [self.networks[int(stones) % 2] for stones in self.positions.stones]

    def __len__(self) -> int:
        return len(self.q)

    def __repr__(self) -> str:
        return f"<game {self.number} of {self.positions.board.rules}, {len(self)} positions, result {self.result}>"


def selfplay(games: int, rules: str | Board = "7x6x4", *, network: AnyNetwork | Mapping[str, AnyNetwork] | Sequence[AnyNetwork] = None, first: int = 0, seed: int = 0, visits: int = 200,
             # evald selfplay: arguments
             fast_visits: int = 40,
             full_share: float = 0.25,
             selection: Literal["puct", "gumbel"] = "puct",
             explore: float = 1.5,
             noise: float = 0.25,
             alpha: float = 1,
             discount: float = 0.99,
             openings: Literal["random", "plausible", "openings", "mixed"] = "random",
             opening_plies: int | None = None,
             temperature: float = 1,
             temperature_plies: int | None = None,
             resign: float = 0,
             policy: bool = False,
             lookahead: bool | None = None,
             fpu: float | None = None,
             forced_playouts: float | None = None,
             considered: int = 16,
             c_visit: float | None = None,
             c_scale: float | None = None,
             rescale: bool = False,
             gumbel_scale: float | None = None,
             reuse: bool = False,
             # evald selfplay: end
             cpuct: float | None = None, exact: int | bool = False, batch: int = 128, parallel: int = 512, order: Literal["finished", "number"] = "finished",
             sizes: Sequence[int] | None = None, progress: Progress | None = None) -> Iterator[Game]:
    """Plays `games` games of a network against itself, many at once, and yields each when it is
    over.

    A dictionary of two networks or more, with their names, is a league, and so is a list, whose names
    are "0", "1" and so on: each game is of two of them (Game.networks), and each pair plays equally
    often on both sides, in the order of the games' numbers. At each position the network that is to
    move searches.

    The games are of `rules`, and have the numbers `first`, `first` + 1 and so on. A game depends
    only on the `seed`, its number and the network. Up to `parallel` games are played at once, and
    `batch` of their leaves are evaluated together.

    Short games are over first. With `order` "number" games are yielded in the order of their
    numbers, so that the first games of a run are as long as the others. Then finished games wait
    for those before them: at most 8 * `parallel` games have begun and are not yielded yet.

    `network` is as in search, and with `sizes` a function sees only batches of these numbers of positions (see Network). With `exact` a game ends as
    soon as its result is proved within this number of nodes, 1000 for True. `progress` is called with the numbers of games that are over and of all
    games; True shows a bar of tqdm. `visits` are those of full searches, from which the
    policy learns. `cpuct` is another name of `explore`. The other arguments are the flags of `evald selfplay` and `evald search`, and None stands for the
    default:

    .. evald selfplay: words
    `fast_visits`: Visits of the other searches, from which only the values learn.
    `full_share`: Share of the moves that have a full search.
    `selection`: How full searches choose at the root: puct, gumbel.
    `explore`: Exploration constant of puct: a larger one spreads the visits over more moves.
    `noise`: Share of Dirichlet noise in the root's priors, for puct.
    `alpha`: Concentration of the noise.
    `discount`: Discount of a value for each ply that it is backed up: it prefers early wins and late losses.
    `openings`: First moves of the games: random, plausible, openings, mixed. plausible: a small search with bitsquares draws the moves; openings: a
      few moves of either kind; mixed: a third of the games each.
    `opening_plies`: Maximum number of these first moves; a game has 0 to this number. Default: a seventh of the board's cells: 6 on 7x6.
    `temperature`: Moves are drawn in proportion to visits^(1/temperature) for temperature_plies; then the best are played.
    `temperature_plies`: Plies of a game whose moves are drawn; default: two sevenths of the board's cells: 12 on 7x6.
    `resign`: Resign if the value of a full search is below minus this; 0 never resigns.
    `policy`: Also record the policy of each full search in floats, which evald train then learns in place of the visits: gumbel's improved policy,
      which few visits round away, or the shares of the visits.
    `lookahead`: Look two stones ahead (uct: one) before the network is asked, and prove results from the ends of games upwards; False is the search
      of the papers, which judges a network by itself. Default: True, but False for networks that are not in evald's formats (functions, ONNX files).
    `fpu`: How much lower puct values a move without visits than its position (first play urgency), below the root: a larger one visits fewer moves.
      Default: that of the network (evald match --tune), or else 0.2.
    `forced_playouts`: K, with which puct makes at least sqrt(K * prior * visits) visits of each move that has one (KataGo's forced playouts).
    `considered`: Moves of a position that gumbel considers.
    `c_visit`: c_visit of gumbel, whose values weigh (c_visit + the most visits of a move) * c_scale against the logarithms of the priors. Default:
      50.
    `c_scale`: c_scale of gumbel, for values from 0 (lost) to 1 (won). Default: 1.
    `rescale`: Let the least value of a position's moves be 0 and the largest 1, as mctx does (with a c_scale of 0.1).
    `gumbel_scale`: Factor of gumbel's noise, which chooses the considered moves. With 0 they are the likeliest. Default: 1.
    `reuse`: Let the search of the next move keep what this one has found of its position, and add its visits; the noise is drawn anew. Not with
      gumbel.
    .. evald selfplay: end
    """
    if cpuct is not None:
        explore = arguments.number("cpuct", cpuct, 0, 1000)
    of, tell = board(rules), progress_of(progress)
    names, networks = _league(network)
    padded = padding(sizes, next((one for one in networks if one is not None and not isinstance(one, (str, Evaluator))), None))
    chosen: dict[str, Any] = {
        "games": arguments.count("games", games, 0, MOST_GAMES), "first": arguments.count("first", first, 0, MOST_GAMES), "seed": arguments.count("seed", seed, 0, MOST_SEED),
        "visits": arguments.count("visits", visits, 1), "exact": arguments.nodes("exact", exact) or None, "batch": arguments.count("batch", batch, 1),
        "parallel": arguments.count("parallel", parallel, 1), "network": networks[0] if isinstance(networks[0], str) else None,
        "order": arguments.text("order", order, ("finished", "number")),
        # evald selfplay: checks
        "fast_visits": arguments.count("fast_visits", fast_visits, 2, 1000000),
        "full_share": arguments.number("full_share", full_share, 0, 1),
        "selection": arguments.text("selection", selection),
        "c": arguments.number("explore", explore, 0, 1000),
        "noise": arguments.number("noise", noise, 0, 1),
        "alpha": arguments.number("alpha", alpha, 1e-06, 1e+06),
        "discount": arguments.number("discount", discount, 0.5, 1),
        "openings": arguments.text("openings", openings),
        "opening_plies": arguments.optional(arguments.count, "opening_plies", opening_plies, 0, 100),
        "temperature": arguments.number("temperature", temperature, 0, 100),
        "temperature_plies": arguments.optional(arguments.count, "temperature_plies", temperature_plies, 0, 1000),
        "resign": arguments.number("resign", resign, 0, 1),
        "policy": arguments.flag("policy", policy),
        "lookahead": arguments.optional(arguments.flag, "lookahead", lookahead),
        "fpu": arguments.optional(arguments.number, "fpu", fpu, -2, 2),
        "forced_playouts": arguments.optional(arguments.number, "forced_playouts", forced_playouts, 0, 1e+06),
        "considered": arguments.count("considered", considered, 1, 128),
        "c_visit": arguments.optional(arguments.number, "c_visit", c_visit, 0, 1e+06),
        "c_scale": arguments.optional(arguments.number, "c_scale", c_scale, 0, 1e+06),
        "rescale": arguments.flag("rescale", rescale),
        "gumbel_scale": arguments.optional(arguments.number, "gumbel_scale", gumbel_scale, 0, 1e+06),
        "reuse": arguments.flag("reuse", reuse),
        # evald selfplay: end
    }
    return _play(of, names, networks, chosen, padded, tell, bool(policy))


def _league(network: AnyNetwork | Mapping[str, AnyNetwork] | Sequence[AnyNetwork]) -> tuple[list[str], list[Network | Evaluator | str | None]]:
    """The names and networks of a league, or "" and the single one."""
    if isinstance(network, (list, tuple)):
        network = {str(i): one for i, one in enumerate(network)}
    if not isinstance(network, Mapping):
        return [""], [asked(network)]  # type: ignore[arg-type]
    if len(network) < 2 or not all(isinstance(name, str) and name for name in network):
        raise arguments.wrong("network", list(network), "a network, or two or more with names that are not empty")
    networks = []
    for name, one in network.items():
        try:
            networks.append(asked(one))
        except EvaldError as wrong:
            raise EvaldError(f"network[{name!r}]: {wrong}") from None
    return list(network), networks


def _play(of: Board, names: list[str], networks: Sequence[Network | Evaluator | str | None], chosen: dict[str, Any], sizes: Sequence[int], progress: Any,
          recorded: bool) -> Iterator[Game]:
    all_ = [_asks(network) for network in networks]
    functions = [function for _, function, _ in all_ if function is not None]
    if len(all_) == 1 and (e := all_[0][2]) is not None:
        names = [str(e.about["model"])]
    if len(all_) > 1:
        chosen = {**chosen, "networks": [{"name": name, "evaluator": number & 0xFFFFFFFF} for name, (number, _, _) in zip(names, all_)]}
    error = error_text()
    call = library.selfplay(all_[0][0] if len(all_) == 1 else 0, of._number, arguments.options(chosen), error)
    with Work(call, of, functions, error, all_, sizes) as work:
        while True:
            event = work.wait(progress)
            if event is None:
                return
            game = Game(event.number, event.first, event.rows, of, (names[event.one], names[event.two]), recorded)
            arrays = (game.positions._words, game.visits, game.q, game._codes, game.actions, game.policy, game.prior, game.raw_value)
            status = library.game(call, *(library.pointer(array) for array in arrays), error)
            if status != 0:
                raise failed(status, error)
            yield game
