"""Training records: those that evald's commands write, and those of one's own games."""
from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING, Any, Iterable, Literal, Union

import numpy as np
import numpy.typing as npt

from ._evaluator import Evaluator, codes_of, evaluator, names
from . import _arguments as arguments
from ._library import EvaldError, error_text, failed, library
from ._positions import Board, Positions, board
from ._progress import Progress, progress_of
from ._search import AnyNetwork, Game, asked, search
from ._values import Value
from ._work import Work

if TYPE_CHECKING:
    from ._search import SearchOptions, Unpack

# The columns and their types, in the order of the library's calls.
COLUMNS: dict[str, Any] = dict(visits=np.uint32, q=np.float32, weight=np.float32, z=np.int8, gameover=np.uint8, ply=np.int32, move=np.int32, game=np.int64, policy=np.float32, by=np.uint16)
BY_ACTION = ("visits", "policy")  # the columns [N,A]


class Records(Value):
    """Records of one game, one row per position. Values are for the side to move.

    `positions`; `visits` [N,A] of the search (all 0 without a search); `q` [N] the search's value; `z` [N] the game's result (1, 0, -1); `gameover` [N]
    (0 not over, 2 the other side has won, 3 drawn); `ply` [N] the number of stones; `weight` [N] in the loss; `game` [N] the number of the game in its
    run (-1: none); `move` [N] the action that was played (-1: none); `source` [N] of the answer; `network` [N] the name of the network that searched,
    "" if it has none; and `policy` [N,A], which `evald train` learns.
    """

    def __init__(self, positions: Positions, columns: dict[str, npt.NDArray[Any]], codes: npt.NDArray[np.uint8], networks: npt.NDArray[np.str_]) -> None:
        self.positions, self.network = positions, networks
        self.visits: npt.NDArray[np.uint32] = columns["visits"]
        self.q: npt.NDArray[np.float32] = columns["q"]
        self.weight: npt.NDArray[np.float32] = columns["weight"]
        self.z: npt.NDArray[np.int8] = columns["z"]
        self.gameover: npt.NDArray[np.uint8] = columns["gameover"]
        self.ply: npt.NDArray[np.int32] = columns["ply"]
        self.move: npt.NDArray[np.int32] = columns["move"]
        self.game: npt.NDArray[np.int64] = columns["game"]
        self._policy: npt.NDArray[Any] | None = columns["policy"] if columns["policy"].any() else None
        self._codes = codes

    @property
    def source(self) -> list[str]:
        """[N] the sources of the answers."""
        return names(self._codes)

    @property
    def policy(self) -> npt.NDArray[np.float32]:
        """[N,A] the column policy, the search's policy in floats, in rows that have it; otherwise each
        action's share of the visits, all 0 without a search. To change the column assign an array to
        `policy`, with rows of 0 where there is none, or None for no column."""
        total = self.visits.sum(1, keepdims=True)
        shares: npt.NDArray[np.float32] = np.divide(self.visits, total, out=np.zeros(self.visits.shape, np.float32), where=total > 0)
        return shares if self._policy is None else np.where(self._policy.any(1, keepdims=True), self._policy, shares)

    @policy.setter
    def policy(self, column: npt.ArrayLike | None) -> None:
        self._policy = None if column is None else np.asarray(column)

    def __len__(self) -> int:
        return len(self.q)

    def __repr__(self) -> str:
        return f"<{len(self)} records of {self.positions.board.rules}>"


def read(paths: Union[str, os.PathLike[str], Iterable[Union[str, os.PathLike[str]]]], rules: str | Board | None = None, *, progress: Progress | None = None) -> Records:
    """The records of Parquet files. `paths` are one or several paths, or patterns such as
    "games/*.parquet". With `rules`, records of other games are skipped; otherwise all records must
    be of one game. `progress` is called with the numbers of records that are read and of all; True
    shows a bar of tqdm."""
    if isinstance(paths, bytes) or not isinstance(paths, (str, os.PathLike, Iterable)):
        raise arguments.wrong("paths", paths, "text, an os.PathLike, or a list of them")
    patterns = [arguments.path("paths", paths)] if isinstance(paths, (str, os.PathLike)) else [arguments.path(f"paths[{i}]", path) for i, path in enumerate(paths)]
    told = progress_of(progress)
    files: list[str] = []
    for pattern in patterns:
        found = sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]
        if not found:
            raise EvaldError(f"{pattern}: there are no such files")
        files += found
    chosen, first, error = arguments.options(dict(files=files)), error_text(), error_text()
    n = library.records(chosen, first, len(first), error)
    if n < 0:
        raise failed(n, error)
    of = board(first.value.decode() or "7x6x4" if rules is None else rules)
    columns: dict[str, npt.NDArray[Any]] = {name: np.empty((n, of.actions) if name in BY_ACTION else n, kind) for name, kind in COLUMNS.items()}
    words, codes = np.empty((n, 4), np.uint64), np.empty(n, np.uint8)
    call = library.read(of._number, n, chosen, int(rules is not None), library.pointer(words), *(library.pointer(c) for c in columns.values()), library.pointer(codes), error)
    with Work(call, of, None, error, (words, columns, codes)) as work:
        work.wait(told)
        rows, networks = work.done, np.array([*work.result()["networks"], ""], np.str_)
    columns = {name: c[:rows] for name, c in columns.items()}
    return Records(Positions._of(words[:rows], of), columns, codes[:rows], networks[columns["by"]])


def write(records: Records | Game | Iterable[Records | Game], path: Union[str, os.PathLike[str]], *, progress: Progress | None = None) -> None:
    """Writes records, or games of self-play, to one Parquet file, which `read` and `evald train`
    read.

    `records` are Records, a Game, or any number of these, such as what `selfplay` yields, all of
    one board. A game has a record for each position, with weight 1, and one more for its last
    position if the game was over there. The file appears when it is complete, and replaces another
    one at `path`. It has the column policy if Records have it or games were played with
    `selfplay(policy=True)`. A column of another shape, or a value that no record can have, such as q above 1
    or visits of an illegal action, is an EvaldError that names record and column, and nothing is
    written. The column network has the names of networks; that of a function is empty outside a league.
    `progress` is called with the numbers of records written and of all; True shows a bar of tqdm.
    """
    file, told = arguments.path("path", path), progress_of(progress)
    if not isinstance(records, (Records, Game)) and (isinstance(records, (str, bytes)) or not isinstance(records, Iterable)):
        raise arguments.wrong("records", records, "Records, a Game, or several of these")
    parts = []
    for i, one in enumerate([records] if isinstance(records, (Records, Game)) else records):
        if not isinstance(one, (Records, Game)):
            raise arguments.wrong(f"records[{i}]", one, "Records or a Game")
        parts.append(_of_game(one) if isinstance(one, Game) else one)
    if not parts:
        raise arguments.wrong("records", records, "Records or games, and there are none")
    positions = Positions([part.positions for part in parts])
    of, n, columns = positions.board, len(positions), {}
    for name, kind in COLUMNS.items():
        if name != "by":
            columns[name] = np.concatenate([_column(part, name, kind) for part in parts])
    codes = np.concatenate([_codes(part) for part in parts])
    networks, by = np.unique(np.concatenate([_networks(part) for part in parts]), return_inverse=True)
    if len(networks) > MOST_NETWORKS:
        raise EvaldError(f"records name {len(networks)} networks, and a file has at most {MOST_NETWORKS}")
    columns["by"] = by.astype(COLUMNS["by"])
    error, words = error_text(), positions._words
    options = file.encode(errors="surrogateescape")
    call = library.write(of._number, n, options, arguments.options(dict(networks=networks.tolist())), library.pointer(words), *(library.pointer(c) for c in columns.values()), library.pointer(codes), error)
    with Work(call, of, None, error, (words, columns, codes)) as work:
        work.wait(told)


def _networks(records: Records) -> npt.NDArray[np.str_]:
    names = np.asarray(records.network)
    if names.shape != (len(records.positions),) or names.dtype.kind not in "UT":
        raise EvaldError(f"records have network of {names.dtype} and the shape {list(names.shape)}, and must have [{len(records.positions)}] names")
    return names.astype(np.str_)


def _column(records: Records, name: str, kind: Any) -> npt.NDArray[Any]:
    """A column of records in its type and shape."""
    values, n = records._policy if name == "policy" else getattr(records, name), len(records.positions)
    shape = (n, records.positions.board.actions) if name in BY_ACTION else (n,)
    if values is None:
        return np.zeros(shape, kind)
    if np.shape(values) != shape:
        raise EvaldError(f"records have {name} of the shape {list(np.shape(values))}, and must have {list(shape)}")
    if np.dtype(kind).kind != "f":
        return arguments.whole(f"records: {name}", values, kind)
    found = np.asarray(values)
    if found.dtype.kind not in "fiu":
        raise EvaldError(f"records have {name} of {found.dtype}, and must have numbers")
    return found.astype(kind)


def _codes(records: Records) -> npt.NDArray[np.uint8]:
    codes = codes_of(records._codes)
    if codes.shape != (len(records.positions),):
        raise EvaldError(f"records have sources of the shape {list(codes.shape)}, and must have [{len(records.positions)}]")
    return codes


def _of_game(game: Game) -> Records:
    """The records of a game."""
    n, positions, codes, networks = len(game), game.positions, codes_of(game._codes), np.array(game.network, np.str_)
    columns: dict[str, npt.NDArray[Any]] = dict(
        visits=game.visits, q=game.q, weight=np.ones(n, np.float32), z=game.z, gameover=np.zeros(n, np.uint8), ply=positions.stones.astype(np.int32),
        move=game.actions, game=np.full(n, game.number), policy=game.policy if game.recorded else np.zeros_like(game.policy),
    )
    if n > 0 and game.actions[-1] >= 0:
        last = positions[-1].play(game.actions[-1])
        if (result := int(last.results()[0])) != NOT_OVER:
            none = np.zeros((1, positions.board.actions))
            end = dict(visits=none, policy=none, q=result, weight=1, z=result, gameover=3 if result == 0 else 2, ply=last.stones, move=-1, game=game.number)
            columns = {name: np.concatenate([column, np.reshape(np.asarray(end[name], column.dtype), (1, *column.shape[1:]))]) for name, column in columns.items()}
            positions, codes = Positions([positions, last]), np.concatenate([codes, codes_of(["terminal"])])
            networks = np.append(networks, game.networks[int(last.stones[0]) % 2])
    return Records(positions, columns, codes, networks)


def reanalyse(records: Records, *, network: AnyNetwork = None, visits: int = 64, selection: Literal["puct", "uct", "gumbel", "flat"] = "puct",
              exact: int | bool | None = None, lookahead: bool | None = None, batch: int = 256, seed: int = 0, progress: Progress | None = None,
              **options: Unpack[SearchOptions]) -> Records:
    """`records` of the same positions with the visits and values of new searches, as in MuZero
    Reanalyze: old games give a newer network its targets.

    All positions whose game is not over are searched, also those without a full search; `network`,
    `visits`, `selection`, `exact`, `lookahead`, `batch`, `seed`, `progress` and further `options` are
    those of `search`. `visits` of the result are the shares of its policy in `visits`, at least one of
    an action, `policy` is that policy in floats, `q` its values, and `source` is function, or that of
    the network's answers, and the new searches have no `network`. Positions, z, gameover, ply, move,
    game and weight stay as they are.
    """
    if not isinstance(records, Records):
        raise arguments.wrong("records", records, "Records")
    of, visits, told = asked(network), arguments.count("visits", visits, 1, 1 << 30), progress_of(progress)
    positions, open_ = records.positions, records.positions.results() == NOT_OVER
    found = search(positions[open_], network=of, visits=visits, selection=selection, exact=exact, lookahead=lookahead, batch=batch, seed=seed, progress=told, **options)
    again = {name: _column(records, name, kind).copy() for name, kind in COLUMNS.items() if name != "by"}
    shares = np.rint(found.policy * visits).astype(np.uint32)
    none = shares.sum(1) == 0
    shares[none, found.policy[none].argmax(1)] = 1
    again["visits"][open_], again["q"][open_], again["policy"][open_] = shares, found.value, found.policy
    codes = codes_of(records._codes).copy()
    if of is None or isinstance(of, (str, Evaluator)):
        by = evaluator(of, "network")
        codes[open_] = codes_of(by.evaluate(positions[open_], raw=by.service is None)._codes)
    else:
        codes[open_] = codes_of(["function"])[0]
    return Records(positions[:], again, codes, np.where(open_, "", _networks(records)))


MOST_NETWORKS = 1 << 16
NOT_OVER = 2  # of Positions.results
