"""Arguments of every public function and method: numbers of numpy and paths count, and wrong values are errors that name argument and value."""
from __future__ import annotations

import inspect
import pathlib
import re
import unittest
from typing import Any, Callable, NamedTuple

import numpy as np
from public import callables, classes, example, openspiel_state, recorded, records, uniform

import evald
from evald._search import SEARCHING

NAN, INF, HUGE = float("nan"), float("inf"), 1 << 70


class Kind(NamedTuple):
    """The values of an argument."""

    wrong: list[Any]
    same: Callable[[Any], list[Any]] = lambda value: []  # other forms of a right value


def numbers(value: Any) -> list[Any]:
    forms = [np.int64(value), np.int32(value), np.uint16(value), np.float64(value), np.float32(value), np.array(value), float(value)]
    return forms if value == int(value) else [np.float64(value), np.float32(value), np.array(value)]


def paths(value: Any) -> list[Any]:
    return [pathlib.Path(value), np.str_(value)] if isinstance(value, str) else []


def lists(value: Any) -> list[Any]:
    return [np.array(value, kind) for kind in (np.int8, np.uint64, np.float32, object)] + [tuple(value), [float(v) for v in value], iter(value)]


NO_NUMBER = ["3", b"3", [3], (), {}, NAN, INF, -INF, True, np.False_, object(), np.array([3, 3])]
COUNT = Kind([*NO_NUMBER, 3.9, np.float32(0.5), -5, HUGE, -HUGE, 1e300], numbers)
NUMBER = Kind([*NO_NUMBER, -5, -HUGE, 10**400], numbers)
FLAG = Kind([0, 1, "yes", [True], NAN, None, np.float32(1)], lambda value: [np.bool_(value), np.array(value)])
NODES = Kind([v for v in COUNT.wrong if not isinstance(v, (bool, np.bool_))], lambda value: numbers(value) if not isinstance(value, bool) else FLAG.same(value))
TEXT = Kind([3, 3.9, b"x", ["x"], NAN, True, object(), "a\0b", pathlib.Path("x")], lambda value: [np.str_(value)])
NETWORK = Kind([3, 3.9, ["x"], NAN, True, object(), "a\0b", b"default"], paths)
FUNCTION = Kind([3, "x", [print]], lambda value: [])
MAPPING = Kind([3, "x", [1], True, {3: 4}])
MASK = Kind([3, "x", [0, 1], [True], [1.5, 2], np.ones(2)], lambda value: [np.array(value), tuple(value)])
ACTIONS = Kind(["3", ["3", "5"], [3.9, 0.2], np.array([0.97, 0.99], np.float32), [2**32 + 3, 2**33], [HUGE, 0], [NAN, 0], [INF, 0], [True, 0], [None, 0], [3], [], 3, None, [[0, 1]], [0, -1], [0, 99], np.array([True, False])], lists)
ACTION = Kind(["3", 3.9, np.float32(0.97), NAN, INF, True, [3, 3], [], None, np.array([0.5])], numbers)
RULES = Kind([3, 3.9, True, ["7x6x4"], b"7x6x4", NAN, "7x", "7x6x4\0x", pathlib.Path("7x6x4")], lambda value: [np.str_(value), evald.board(value)])
POSITIONS = Kind([3, 3.9, None, object(), [3], ["x"], [NAN], {"board": []}, [None], np.ones((2, 2))])
PATHS = Kind([3, 3.9, None, True, b"x", [3], [b"x"], object()], lambda value: [pathlib.Path(value), [value], (pathlib.Path(value),)])



PLAYING = dict(
    fast_visits=3, full_share=0.5, selection="puct", explore=2.0, noise=0.5, alpha=0.5, discount=0.9, openings="random", opening_plies=2, temperature=0.5,
    temperature_plies=3, resign=0.5, policy=True, lookahead=True, fpu=0.5, forced_playouts=0.5, considered=4, c_visit=0.5, c_scale=0.5, rescale=True, gumbel_scale=0.5, reuse=True,
)


def kind_of(name: str) -> Kind:
    """The kind of an argument of searches or self-play, by its type."""
    both = {**inspect.signature(evald.selfplay).parameters, **inspect.signature(evald.search).parameters}
    of = str(both[name].annotation).removesuffix(" | None")
    return {"int": COUNT, "float": NUMBER, "bool": FLAG, "int | bool": NODES}.get(of, TEXT)


# The values of the arguments by their names, which mean the same everywhere.
KINDS: dict[str, Kind | None] = {
    **dict.fromkeys(("n", "visits", "leaves", "batch", "seed", "games", "first", "parallel", "nodes", "threads", "num_envs", "cache", "opening_plies"), COUNT),
    **{name: kind_of(name) for name in (*SEARCHING, *PLAYING)},
    **dict.fromkeys(("timeout", "begins", "seconds"), NUMBER),
    **dict.fromkeys(("reset", "mirror", "raw", "tree"), FLAG),
    **dict.fromkeys(("backend", "cpu_path", "url", "layout", "order", "name", "agent", "render_mode", "autoreset_mode", "errors"), TEXT),
    **dict.fromkeys(("network", "model"), NETWORK),
    **dict.fromkeys(("played", "player"), Kind(["x", None, 1.5, True, [True], -1, [[1]], {}, HUGE])),
    **dict.fromkeys(("progress",), FUNCTION),
    **dict.fromkeys(("ort", "options"), MAPPING),
    "exact": NODES, "which": MASK, "actions": ACTIONS, "action": ACTION, "rules": RULES, "positions": POSITIONS, "of": POSITIONS, "paths": PATHS,
    "path": Kind([3, 3.9, None, True, ["x"], object()], paths), "records": Kind([3, "x", None, [3], True, {}]), "sizes": Kind([3, "8", [0], [], [1.5], [True], {}, [[1]], [HUGE]]),
    "players": Kind([3, "x", None, {}, ["random"], {"a": "random"}, {"a": "random", 3: "random"}]), "sets": Kind([3, None, [], {}, [3], {"a": 3}, object()]),
    "opponent": Kind([3, "x", [1], True]), "data": Kind([3, "x", None, ["4"]]), "connection": Kind([3, "x", None]), "state": Kind([3, "x", None]),
    "prior": Kind([3, "x", None, [3], True, [["1"] * 7] * 2, [[0] * 7] * 2, [[-1] * 7] * 2, [[NAN] * 7] * 2]), "planes": Kind([3, "own", [3], {"own": 1}, [b"own"], NAN]), "rows": TEXT, "module": Kind([3, "x", None]),
    "dtype": None, "copy": None, "device": None,  # those of numpy and torch
    "observation": None, "configuration": None,  # of Kaggle
    "params": None, "rng_key": None, "embedding": None,  # of mctx
}

SMALL = dict(visits=2, network=uniform)
FOUR = evald.Positions(["4", "44"])


def games(n: int = 2) -> evald.Environment:
    return evald.Environment(n)


# Right arguments of each function and method: (a function without arguments that returns the callable, its arguments).
# Arguments of searches, each with a value that does something.
SEARCH: dict[str, Any] = {name: 0.5 if usual is None else usual for name, (usual, _, _) in SEARCHING.items()}
SEARCH |= dict(cpuct=None, visits=2, exact=9, batch=8, seed=3, lookahead=True, priors="policy", transpositions=False)

FOREST = set(inspect.signature(evald.Forest).parameters) & set(SEARCH)

CALLS: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "board": (lambda: evald.board, dict(rules="5x4x4")),
    "evaluate": (lambda: evald.evaluate, dict(positions="4", rules="7x6x4", model="default-fast", raw=False)),
    "match": (
        lambda: evald.match,
        dict(players={"a": uniform, "b": "random"}, rules="4x4x3", games=2, visits=2, selection="gumbel", exact=9, lookahead=True, seed=3, opening_plies=1, parallel=2, sizes=None, progress=None),
    ),
    "score": (
        lambda: evald.score,
        dict(network="bitsquares", sets=lambda: evald.labels(["12", "3"], "4x4x3"), rules="4x4x3", visits=0, selection="puct", exact=9, lookahead=True, raw=True, sizes=None, progress=None),
    ),
    "labels": (lambda: evald.labels, dict(positions=["12"], rules="4x4x3", nodes=50, threads=1, progress=None)),
    "write": (lambda: evald.write, dict(records=records, path=recorded().name + "/written", progress=None)),
    "reanalyse": (lambda: evald.reanalyse, dict(records=records, network=None, visits=2, selection="gumbel", exact=9, lookahead=True, batch=8, seed=3, progress=None)),
    "search": (lambda: evald.search, dict(positions="4", rules="7x6x4", network="default-fast", tree=False, sizes=None, progress=None, **SEARCH)),
    "Forest": (lambda: evald.Forest, dict(positions="4", rules="7x6x4", network="default-fast", sizes=None, **{name: SEARCH[name] for name in FOREST})),
    "Forest.run": (lambda: evald.Forest(FOUR).run, dict(visits=2, tree=False, progress=None)),
    "Forest.set_prior": (lambda: evald.Forest(FOUR).set_prior, dict(prior=lambda: np.ones((2, 7)))),
    "Forest.advance": (lambda: evald.Forest(FOUR).advance, dict(actions=[3, 2])),
    "selfplay": (
        lambda: lambda *a, **k: list(evald.selfplay(*a, **k)),
        dict(games=1, rules="4x4x3", network=None, first=3, seed=3, visits=2, exact=False, batch=8, parallel=2, order="number", cpuct=None, sizes=None, progress=None, **PLAYING),
    ),
    "solve": (lambda: evald.solve, dict(positions="4444437", rules="7x6x4", nodes=50, threads=1, progress=None)),
    "read": (lambda: evald.read, dict(paths=recorded().name + "/*.parquet", rules="5x4x3", progress=None)),
    "version": (lambda: evald.version, {}),
    "Board": (lambda: evald.Board, dict(rules="5x4x4")),
    "Positions": (lambda: evald.Positions, dict(of="4", rules="7x6x4")),
    "Positions.from_played": (lambda: evald.Positions.from_played, dict(played=0b1100001 << 35, player=0b0100000 << 35, rules="7x6x4")),
    "Positions.empty": (lambda: evald.Positions.empty, dict(n=3, rules="7x6x4")),
    "Positions.planes": (lambda: FOUR.planes, dict(planes=["own"], layout="NHWC", rows="top")),
    "Positions.play": (lambda: FOUR.play, dict(actions=[3, 2])),
    "Environment": (lambda: evald.Environment, dict(n=2, rules="7x6x4", reset=False)),
    "Environment.reset": (lambda: games().reset, dict(which=[True, False])),
    "Environment.step": (lambda: games().step, dict(actions=[3, 2])),
    "Evaluator": (lambda: evald.Evaluator, dict(model=None, backend="bitsquares", cpu_path=None, mirror=False, exact=9, ort=None, rules="7x6x4", url=None, timeout=3, errors="raise")),
    "Evaluator.evaluate": (lambda: evald.Evaluator(backend="bitsquares").evaluate, dict(positions="4", rules="7x6x4", raw=True)),
    "Evaluator.network": (lambda: evald.Evaluator(backend="bitsquares").network, dict(positions=FOUR)),
    "kaggle.Agent": (lambda: evald.kaggle.Agent, dict(seconds=2, network="default-fast")),
    "columns.answers": (lambda: evald.columns.answers, dict(rules="7x6x4", model="default-fast", data=lambda: __import__("pandas").Series(["4"]))),
    "duckdb.register": (lambda: evald.duckdb.register, dict(connection=lambda: __import__("duckdb").connect(), rules="7x6x4", model="default-fast", name="evald")),
    "gymnasium.ConnectX": (lambda: evald.gymnasium.ConnectX, dict(rules="7x6x4", opponent=None, begins=1, render_mode="ansi")),
    "gymnasium.ConnectX.reset": (lambda: evald.gymnasium.ConnectX().reset, dict(seed=3, options={})),
    "gymnasium.ConnectX.step": (lambda: example("gymnasium.ConnectX").make().step, dict(action=3)),
    "gymnasium.VectorConnectX": (
        lambda: evald.gymnasium.VectorConnectX, dict(num_envs=2, rules="7x6x4", opponent=None, begins=1, autoreset_mode="SameStep", render_mode=None)
    ),
    "gymnasium.VectorConnectX.reset": (lambda: evald.gymnasium.VectorConnectX(2).reset, dict(seed=3, options=dict(reset_mask=[True, False]))),
    "gymnasium.VectorConnectX.step": (lambda: _vector().step, dict(actions=[3, 2])),
    "pettingzoo.env": (lambda: evald.pettingzoo.env, dict(rules="7x6x4", render_mode="ansi")),
    "pettingzoo.raw_env": (lambda: evald.pettingzoo.raw_env, dict(rules="7x6x4", render_mode="ansi")),
    "pettingzoo.raw_env.reset": (lambda: evald.pettingzoo.raw_env().reset, dict(seed=3, options={})),
    "pettingzoo.raw_env.step": (lambda: example("pettingzoo.raw_env").make().step, dict(action=3)),
    "pettingzoo.raw_env.observe": (lambda: example("pettingzoo.raw_env").make().observe, dict(agent="player_0")),
    "pettingzoo.raw_env.observation_space": (lambda: evald.pettingzoo.raw_env().observation_space, dict(agent="player_0")),
    "pettingzoo.raw_env.action_space": (lambda: evald.pettingzoo.raw_env().action_space, dict(agent="player_0")),
    "openspiel.Evaluator": (lambda: evald.openspiel.Evaluator, dict(model="default-fast", cache=3)),
    "openspiel.Evaluator.evaluate": (lambda: evald.openspiel.Evaluator("default-fast").evaluate, dict(state=openspiel_state)),
    "openspiel.Evaluator.prior": (lambda: evald.openspiel.Evaluator("default-fast").prior, dict(state=openspiel_state)),
    "openspiel.Bot": (lambda: evald.openspiel.Bot, dict(network="default-fast", visits=2, selection="puct", exact=9, lookahead=True, seed=3)),
    "openspiel.Bot.step": (lambda: evald.openspiel.Bot(**SMALL).step, dict(state=openspiel_state)),
    "openspiel.Bot.step_with_policy": (lambda: evald.openspiel.Bot(**SMALL).step_with_policy, dict(state=openspiel_state)),
    "openspiel.positions": (lambda: evald.openspiel.positions, dict(state=openspiel_state)),
    "mctx.Model": (lambda: evald.mctx.Model, dict(rules="7x6x4", model="default-fast")),
    "torch.SelfPlay": (lambda: evald.torch.SelfPlay, dict(games=1, rules="7x6x4", network="default-fast", first=3)),
    "torch.ModuleNetwork": (lambda: evald.torch.ModuleNetwork, dict(module=lambda: __import__("torch").nn.Flatten(), device="cpu")),
}

# Functions whose arguments are objects of a framework or of evald itself, or which are called by it.
WITHOUT = {"Answers", "Searched", "Tree", "Game", "Records", "Match", "Labels", "Scores", "kaggle.agent", "openspiel.Bot.restart_at", "mctx.Model.root", "mctx.Model.recurrent", "mctx.Model.observe"}

# Values that are wrong elsewhere and right here.
RIGHT: dict[str, list[Any]] = {
    "Forest.advance.actions": [[0, -1]],  # -1 plays none
    "gymnasium.VectorConnectX.step.actions": [[0, -1], [0, 99], [2**32 + 3, 2**33]],  # an illegal action loses
    "torch.SelfPlay.rules": ["7x"],  # is found when a game is played, so that the process can be forked before
}

FOREIGN = re.compile(r"json|JSON|unmarshal|u?int(8|16|32|64)\b|float(32|64)\b|struct|serializ|ctypes|NoneType|goroutine|panic|has a fault|yaml")


def _vector() -> Any:
    games = evald.gymnasium.VectorConnectX(2, begins=1)
    games.reset(seed=1)
    return games


def called() -> dict[str, inspect.Signature]:
    """The public functions, classes and methods of CALLS, with their signature."""
    return {name: signature for name, signature in callables().items() if name not in WITHOUT}


def given(value: Any) -> Any:
    return value() if inspect.isfunction(value) and value is not uniform else value


def outcome(of: Any) -> str:
    """What a call returned, as far as it is comparable."""
    for attribute in ("words", "wdl", "_words"):
        if hasattr(of, attribute):
            return repr(getattr(of, attribute))
    return re.sub(r"0x[0-9a-f]+", "", repr(of))


class Arguments(unittest.TestCase):
    def test_all_are_listed(self) -> None:
        for name, signature in called().items():
            with self.subTest(name):
                self.assertTrue(name in CALLS, f"say in CALLS of tests/test_arguments.py how evald.{name}{signature} is called")
                named = {p.name for p in signature.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
                self.assertEqual(set(CALLS[name][1]), named, f"CALLS of tests/test_arguments.py and evald.{name}{signature}")
                for argument in named:
                    self.assertTrue(argument in KINDS, f"say in KINDS of tests/test_arguments.py what values the argument {argument} of evald.{name} has")

    def test_wrong(self) -> None:
        """A wrong value of any argument is an EvaldError that names the argument, in words of Python."""
        for name, signature in called().items():
            make, right = CALLS[name]
            for argument, parameter in signature.parameters.items():
                kind = KINDS.get(argument)
                for wrong in kind.wrong if kind is not None and parameter.kind != parameter.VAR_KEYWORD else []:
                    if wrong is None and parameter.default is None or any(wrong is one or type(wrong) is type(one) and repr(wrong) == repr(one) for one in RIGHT.get(f"{name}.{argument}", [])):
                        continue
                    with self.subTest(f"{name}({argument}={wrong!r})"):
                        with self.assertRaises(evald.EvaldError) as raised:
                            make()(**{**{k: given(v) for k, v in right.items()}, argument: wrong})
                        said = str(raised.exception)
                        if argument not in ("positions", "of"):
                            self.assertIsNone(FOREIGN.search(said.replace(repr(wrong), "")), said)
                            self.assertTrue(argument in said or argument in ("actions", "action") and re.match(r"position \d: action", said), said)

    def test_forms(self) -> None:
        """Numbers of numpy, whole floats and paths give what plain values give."""
        tried = 0
        for name in called():
            make, right = CALLS[name]
            for argument, value in right.items():
                kind, value = KINDS[argument], given(value)
                if value is None or kind is None:
                    continue
                want = None
                for same in kind.same(value):
                    with self.subTest(f"{name}({argument}={same!r})"):
                        want = want or outcome(make()(**{k: given(v) for k, v in right.items()}))
                        self.assertEqual(outcome(make()(**{**{k: given(v) for k, v in right.items()}, argument: same})), want)
                        tried += 1
        self.assertGreater(tried, 100)

    def test_columns(self) -> None:
        """Bitboards in columns are whole numbers."""
        e = evald.Evaluator(backend="bitsquares")
        want = e.evaluate("4").wdl.tolist()
        own, all_ = evald.Positions("4").words[:, ::2].T
        for kind in (np.int64, np.float64, object):
            got = e(dict(own=own.astype(kind), all=all_.astype(kind)))
            self.assertEqual([got["win"][0], got["draw"][0], got["loss"][0]], want[0])
        for wrong in (3, None, ["4"]):
            with self.assertRaisesRegex(evald.EvaldError, "batch is"):
                e(wrong)
        for wrong in ([0.5], [NAN], ["0"], [-1], [HUGE], [True], [0, 0]):
            with self.subTest(str(wrong)), self.assertRaisesRegex(evald.EvaldError, "own"):
                e(dict(own=wrong, all=[2**21]))

    def test_opponents_and_networks(self) -> None:
        """What functions of the user answer is checked too."""
        if "gymnasium.VectorConnectX" in classes():
            for wrong in ([3.9, 0], [3], ["3", "3"], [2**32 + 3, 0], [99, 0]):
                games = evald.gymnasium.VectorConnectX(2, opponent=lambda p, wrong=wrong: wrong, begins=0)
                with self.subTest(str(wrong)), self.assertRaisesRegex(evald.EvaldError, "opponent's actions|action \\d+ cannot be played"):
                    games.reset(seed=1)
        with self.assertRaisesRegex(evald.EvaldError, "policy of <U1, want numbers"):
            evald.search("4", visits=4, network=lambda p: ([["1"] * 7] * len(p), np.zeros(len(p))))


if __name__ == "__main__":
    unittest.main()
