"""Matches between networks and agents."""
from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Literal, Mapping, Sequence, Union

import numpy as np
import numpy.typing as npt

from . import _arguments as arguments
from ._evaluator import Evaluator, _runtime
from ._library import EvaldError, error_text, library
from ._positions import Board, board
from ._progress import Progress, progress_of
from ._search import MOST_SEED, _asks, asked, chosen_of
from ._values import Value
from ._work import Network, Work

if TYPE_CHECKING:
    from ._search import SearchOptions, Unpack

Player = Union[Network, Evaluator, str, "os.PathLike[str]"]
PLAYER = "a function, a module, an Evaluator, the path of a network, or the name of an agent such as 'uct-bitsquares:sims=1000'"
MOST_GAMES = 10_000_000  # of a match


class Match(Value):
    """The result of a match of P players, in the order in which they were given.

    `names` [P]; `games`, `wins` and `draws` [P,P] of the row's player against the column's, 0 on
    the diagonal; `score` [P,P] the row's points per game, 1 a win and 0.5 a draw, NaN on the
    diagonal; `elo` [P] ratings relative to their mean; `interval` [P,2] their 95% intervals, NaN if
    there are too few games; `superior` [P,P] the probability that the row's player is the stronger
    one, NaN on the diagonal; `plies`, the mean length of a game with its opening's moves;
    `draw_share`, 0 to 1, of all games; `openings`, the number of different openings, which repeat
    if there are fewer than games / 2; and `table`, all of this and more as `evald match --json`
    writes it.

    The intervals are of pairs of games on the same opening with colours exchanged, which are not
    independent. They hold for players that could play otherwise in another match: between players
    without randomness only the openings are random.
    """

    __slots__ = ("rules", "seed", "names", "openings", "plies", "draw_share", "games", "wins", "draws", "score", "elo", "interval", "superior", "_table")

    def __init__(self, rules: str, seed: int, names: Sequence[str], result: dict[str, Any]) -> None:
        n, table = len(names), result["table"]
        self.rules, self.seed, self.names, self.openings = rules, seed, list(names), int(result["openings"])
        self.plies, self.draw_share = float(table["mean_plies"]), float(table["draw_share"])
        self._table = json.dumps(table)
        self.games, self.wins, self.draws = (np.zeros((n, n), np.int64) for _ in range(3))
        self.superior = np.full((n, n), np.nan)
        self.elo, self.interval = np.zeros(n), np.full((n, 2), np.nan)
        row = {name: i for i, name in enumerate(names)}
        for m in table["meetings"]:
            a, b = row[m["a"]], row[m["b"]]
            self.games[a, b] = self.games[b, a] = m["games"]
            self.draws[a, b] = self.draws[b, a] = m["draws"]
            self.wins[a, b], self.wins[b, a] = m["wins"], m["losses"]
            self.superior[a, b], self.superior[b, a] = m["superior"], 1 - m["superior"]
        for s in table["standings"]:
            i = row[s["player"]]
            self.elo[i] = s["elo"]
            if not s["too_few_games"]:
                self.interval[i] = s["elo"] - s["elo_error"], s["elo"] + s["elo_error"]
        with np.errstate(invalid="ignore"):
            self.score: npt.NDArray[np.float64] = (self.wins + self.draws / 2) / self.games

    @property
    def table(self) -> dict[str, Any]:
        """The table of `evald match --json`: standings by rating, with times, forfeits and their
        reasons, and meetings of each two players."""
        table: dict[str, Any] = json.loads(self._table)
        return table

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        """The standings, by rating, and the scores in percent against each other."""
        order = np.argsort(-self.elo, kind="stable").tolist()
        rows = [["", "player", "w/d/l", "score %", "Elo", "95%", *(f"vs {k + 1}" for k in range(len(order)))]]
        for rank, i in enumerate(order):
            games, wins, draws = (int(of[i].sum()) for of in (self.games, self.wins, self.draws))
            rated = not np.isnan(self.interval[i, 0])
            rows.append([
                str(rank + 1), self.names[i], f"{wins}/{draws}/{games - wins - draws}", f"{100 * (wins + draws / 2) / max(1, games):.1f}",
                f"{round(self.elo[i]) + 0:+d}" if rated else "?", f"±{(self.interval[i, 1] - self.interval[i, 0]) / 2:.0f}" if rated else "too few games",
                *("." if i == j else f"{100 * self.score[i, j]:.1f}" for j in order),
            ])
        played = int(self.games.sum()) // 2
        forfeits = [f"\n{s['player']} forfeited {s['forfeits']} games, the last: {s['why']}" for s in self.table["standings"] if s["forfeits"]]
        length = f" of {self.plies:.1f} plies on average, {100 * self.draw_share:.1f}% drawn" if played else ""
        return f"{self.rules}, {played} games{length}, {self.openings} different openings, seed {self.seed}\n" + columns(rows) + "".join(forfeits)


def columns(rows: list[list[str]]) -> str:
    """A table as text, with columns aligned to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def match(players: Mapping[str, Player], rules: str | Board = "7x6x4", *, games: int = 100, visits: int = 800,
          selection: Literal["puct", "uct", "gumbel", "flat"] = "puct", exact: int | bool | None = None, lookahead: bool | None = None, seed: int = 0, opening_plies: int | None = None, parallel: int = 128, sizes: Sequence[int] | None = None,
          progress: Progress | None = None, **search: Unpack[SearchOptions]) -> Match:
    """Plays a match of two players or more, each against each other, as `evald match` does,
    on the board of `rules`.

    `players` are names and what plays: a function (see Network), a module of PyTorch (as
    evald.torch.ModuleNetwork), an Evaluator, the path of a network (an os.PathLike, or text such as
    "nets/mine.onnx"), or an agent or level by its name, as `evald help match` lists them, with its
    own settings: "uct-bitsquares:sims=1000", "mcts:visits=100", "strong". Functions, modules,
    Evaluators and paths search with `visits` at each move, 1 to 2^30, by `selection`, `exact` and
    `lookahead` as in search: functions plainly, unless these say otherwise. `search` are its further
    arguments that change what it finds, such as explore=2 or c_scale=0.1.

    Each two players play `games` games, an even number: each of games / 2 random openings of
    `opening_plies` stones (None: a tenth of the cells, 8 at most) twice, with colours exchanged.
    The openings are distinct and without an early win while there are enough. With the same `seed`
    agents by name play the same games as with the command, if their limit is no time.

    Up to `parallel` games are played at once, so that the leaves of their searches fill the batches
    of a function, which has up to `parallel` positions, and with `sizes` only these numbers (see
    Network). If an agent has a time per move, there are as many games at once as processors.
    `progress` is called with the numbers of games that are over and of all; True shows a bar of
    tqdm.

    >>> int(match({"a": "random", "b": "uct:sims=50"}, "4x4x3", games=20).elo.argmax())
    1
    """
    of, names = board(rules), list(arguments.mapping("players", players))
    if len(names) < 2 or "" in names:
        raise arguments.wrong("players", names, "two or more, with names that are not empty")
    given = dict(
        games=arguments.count("games", games, 2, MOST_GAMES), seed=arguments.count("seed", seed, 0, MOST_SEED),
        opening_plies=arguments.optional(arguments.count, "opening_plies", opening_plies, 0, of.cells - 1), parallel=arguments.count("parallel", parallel, 1, 1 << 14),
        search=chosen_of(dict(visits=visits, selection=selection, exact=exact, lookahead=lookahead, **search)),
    )
    if given["games"] % 2:
        raise arguments.wrong("games", games, "even, because each opening is played twice")
    told, padded = progress_of(progress), arguments.sizes("sizes", sizes)
    chosen: list[dict[str, Any]] = []
    functions: list[Network] = []
    keep: list[Any] = []
    for name in names:
        one = players[name]
        if isinstance(one, str) and re.match(r"[a-z][a-z-]+(:(?!//)|$)", one):
            chosen.append(dict(name=name, agent=arguments.text(f"players[{name!r}]", one)))
            continue
        try:
            number, function, held = _asks(asked(one)) if one is not None else (0, None, None)
        except EvaldError as wrong:
            raise EvaldError(f"players[{name!r}]: {wrong}") from None
        if function is not None:
            functions.append(function)
        elif number == 0:
            raise arguments.wrong(f"players[{name!r}]", one, PLAYER)
        keep.append(held)
        chosen.append(dict(name=name, evaluator=number & 0xFFFFFFFF))  # its number in the process that has it
    error = error_text()
    options = arguments.options({"players": chosen, **given, "ort": _runtime(None), "program": library.program()})
    call = library.match(of._number, options, error)
    with Work(call, of, functions, error, keep, padded) as work:
        work.wait(told)
        return Match(of.rules, given["seed"], names, work.result())
