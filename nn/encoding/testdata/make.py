"""Makes small networks with the inputs and outputs that other projects' networks have, for the tests of this package:

    python make.py --lightzero DIR --alpha-zero-general DIR

It needs numpy, onnx, onnxruntime, open_spiel and pgx of PyPI, and checkouts of https://github.com/opendilab/LightZero and
https://github.com/suragnair/alpha-zero-general, which PyPI has not. Each project's own code encodes the positions; of LightZero the
environment alone, because the rest needs PyTorch. The networks are made here, layer by layer as the projects define theirs, with few
channels and weights drawn from a seed: they know nothing of the game.

For each project it writes NAME.onnx and NAME.json. The latter has, for each of some positions, its moves, the input by the project's own code,
what onnxruntime answers, and value and policy as the project would read that answer, for the side to move. NAME.yaml describes the network and
is written by hand.
"""
import argparse
import json
import pathlib
import sys
import types
from unittest import mock

import jax
import numpy
import onnx
import onnxruntime
import pgx
import pyspiel
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
CHANNELS, HIDDEN, ROWS, COLUMNS = 8, 16, 6, 7
POSITIONS = 20


class Graph:
    """A graph under construction. Each method adds a layer to x and returns its output."""

    def __init__(self, seed):
        self.random, self.nodes, self.tensors = numpy.random.default_rng(seed), [], []

    def add(self, op, *inputs, **attributes):
        out = f"{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=out, **attributes))
        return out

    def constant(self, values):
        name = f"w{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(values, name))
        return name

    def weights(self, *shape, scale=1.0, mean=0.0):
        return self.constant((mean + scale * self.random.standard_normal(shape)).astype(numpy.float32))

    def numbers(self, *values):
        return self.constant(numpy.array(values, numpy.int64))

    def relu(self, x):
        return self.add("Relu", x)

    def conv(self, x, inner, outer, kernel=3, bias=True):
        w = self.weights(outer, inner, kernel, kernel, scale=(2 / (inner * kernel * kernel)) ** 0.5)
        b = [self.weights(outer, scale=0.1)] if bias else []
        return self.add("Conv", x, w, *b, kernel_shape=[kernel, kernel], auto_pad="SAME_UPPER")

    def norm(self, x, channels):
        variance = self.constant(self.random.uniform(0.5, 1.5, channels).astype(numpy.float32))
        return self.add("BatchNormalization", x, self.weights(channels, scale=0.1, mean=1), self.weights(channels, scale=0.1),
                        self.weights(channels, scale=0.1), variance)

    def linear(self, x, inner, outer):
        return self.add("Gemm", x, self.weights(inner, outer, scale=inner**-0.5), self.weights(outer, scale=0.1))

    def reshape(self, x, *shape):
        return self.add("Reshape", x, self.numbers(*shape))

    def transpose(self, x, *axes):
        return self.add("Transpose", x, perm=list(axes))

    def write(self, name, inputs, outputs):
        """Writes the graph. Outputs are named by what they are of: {name: output of a layer}."""
        for out, (source, shape) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [source], [out], name=out))
        graph = helper.make_graph(
            self.nodes, name,
            [helper.make_tensor_value_info(n, t, ["N", *shape]) for n, (t, shape) in inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", *shape]) for n, (_, shape) in outputs.items()],
            self.tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="make.py")
        onnx.checker.check_model(model, full_check=True)
        onnx.save_model(model, HERE / f"{name}.onnx")


def alpha_zero_general():
    """connect4/keras/Connect4NNet.py: ReLU before the normalization outside of the last of each block, a policy head of 2x2."""
    g = Graph(1)
    x = g.norm(g.reshape("input_boards", -1, 1, ROWS, COLUMNS), 1)
    x = g.norm(g.relu(g.conv(x, 1, CHANNELS)), CHANNELS)
    y = g.norm(g.relu(g.conv(x, CHANNELS, CHANNELS)), CHANNELS)
    x = g.relu(g.add("Add", x, g.norm(g.conv(y, CHANNELS, CHANNELS), CHANNELS)))
    p = g.add("Flatten", g.relu(g.norm(g.conv(x, CHANNELS, 1, 2), 1)))
    v = g.add("Flatten", g.relu(g.norm(g.conv(x, CHANNELS, 1, 1), 1)))
    v = g.linear(g.relu(g.linear(v, ROWS * COLUMNS, HIDDEN)), HIDDEN, HIDDEN)
    g.write("alpha_zero_general", {"input_boards": (TensorProto.FLOAT, [ROWS, COLUMNS])}, {
        "pi": (g.add("Softmax", g.linear(p, ROWS * COLUMNS, COLUMNS)), [COLUMNS]),
        "v": (g.add("Tanh", g.linear(v, HIDDEN, 1)), [1]),
    })


def open_spiel(name, seed):
    """alpha_zero/model_nnx.py, resnet: the observation's shape [3,6,7] is taken for rows, columns and channels. The policy is masked."""
    g = Graph(seed)
    x = g.transpose(g.reshape("observation", -1, 3, ROWS, COLUMNS), 0, 3, 1, 2)
    x = g.relu(g.norm(g.conv(x, COLUMNS, CHANNELS), CHANNELS))
    y = g.relu(g.norm(g.conv(x, CHANNELS, CHANNELS), CHANNELS))
    x = g.relu(g.add("Add", x, g.norm(g.conv(y, CHANNELS, CHANNELS), CHANNELS)))

    def head(channels):
        y = g.relu(g.norm(g.conv(x, CHANNELS, channels, 1), channels))
        return g.linear(g.add("Flatten", g.transpose(y, 0, 2, 3, 1)), 3 * ROWS * channels, CHANNELS)

    logits = g.linear(head(2), CHANNELS, COLUMNS)
    masked = g.add("Where", "legals_mask", logits, g.constant(numpy.array(-1e32, numpy.float32)))
    g.write(name, {"observation": (TensorProto.FLOAT, [3 * ROWS * COLUMNS]), "legals_mask": (TensorProto.BOOL, [COLUMNS])}, {
        "value": (g.add("Tanh", g.linear(head(1), CHANNELS, 1)), [1]),
        "policy": (g.add("Softmax", masked), [COLUMNS]),
    })


def lightzero():
    """lzero/model/alphazero_model.py: convolutions without bias, and heads of two layers with a layer normalization. The value is linear."""
    g = Graph(4)

    def block(x):
        y = g.relu(g.norm(g.conv(x, CHANNELS, CHANNELS, bias=False), CHANNELS))
        return g.relu(g.add("Add", x, g.norm(g.conv(y, CHANNELS, CHANNELS, bias=False), CHANNELS)))

    def head(x, outputs):
        y = g.add("Flatten", g.relu(g.norm(g.conv(x, CHANNELS, 2, 1), 2)))
        y = g.linear(y, 2 * ROWS * COLUMNS, HIDDEN)
        y = g.add("LayerNormalization", y, g.weights(HIDDEN, scale=0.1, mean=1), g.weights(HIDDEN, scale=0.1), axis=-1)
        return g.linear(g.relu(y), HIDDEN, outputs)

    x = block(block(g.relu(g.norm(g.conv("obs", 3, CHANNELS, bias=False), CHANNELS))))
    g.write("lightzero", {"obs": (TensorProto.FLOAT, [3, ROWS, COLUMNS])}, {"logit": (head(x, COLUMNS), [COLUMNS]), "value": (head(x, 1), [1])})


def pgx_network():
    """examples/alphazero/network.py: residual blocks of the second kind, input and value as the environment has them."""
    g = Graph(5)
    x = g.conv(g.transpose(g.add("Cast", "obs", to=TensorProto.FLOAT), 0, 3, 1, 2), 2, CHANNELS)
    y = g.conv(g.relu(g.norm(x, CHANNELS)), CHANNELS, CHANNELS)
    x = g.add("Add", x, g.conv(g.relu(g.norm(y, CHANNELS)), CHANNELS, CHANNELS))
    x = g.relu(g.norm(x, CHANNELS))

    def head(channels):
        return g.add("Flatten", g.transpose(g.relu(g.norm(g.conv(x, CHANNELS, channels, 1), channels)), 0, 2, 3, 1))

    v = g.linear(g.relu(g.linear(head(1), ROWS * COLUMNS, CHANNELS)), CHANNELS, 1)
    g.write("pgx", {"obs": (TensorProto.BOOL, [ROWS, COLUMNS, 2])}, {
        "logits": (g.linear(head(2), 2 * ROWS * COLUMNS, COLUMNS), [COLUMNS]),
        "value": (g.reshape(g.add("Tanh", v), -1), []),
    })


def games(seed):
    """The moves of some positions, by column from 0, the empty board first. No game is over."""
    random = numpy.random.default_rng(seed)
    found, game = [[]], pyspiel.load_game("connect_four")
    while len(found) < POSITIONS:
        state, plies = game.new_initial_state(), random.integers(1, 40)
        while len(state.history()) < plies and not state.is_terminal():
            state.apply_action(int(random.choice(state.legal_actions())))
        if not state.is_terminal():
            found.append(state.history())
    return found


def softmax(x):
    x = numpy.exp(x - x.max())
    return x / x.sum()


def legal(moves):
    return numpy.array([moves.count(column) < ROWS for column in range(COLUMNS)])


def by_alpha_zero_general(folder):
    sys.path.insert(0, folder)
    numpy.int = int  # a name that newer versions of numpy have no more
    from connect4.Connect4Game import Connect4Game

    def encode(moves):
        game = Connect4Game()
        board, player = game.getInitBoard(), 1
        for move in moves:
            board, player = game.getNextState(board, player, move)
        return {"input_boards": game.getCanonicalForm(board, player).astype(numpy.float32)}

    def read(moves, answer):
        policy = answer["pi"] * legal(moves)
        return answer["v"][0], policy / policy.sum()

    return encode, read


def by_open_spiel(text):
    def encode(moves):
        state = pyspiel.load_game(text).new_initial_state()
        for move in moves:
            state.apply_action(move)
        return {"observation": numpy.array(state.observation_tensor(), numpy.float32), "legals_mask": numpy.array(state.legal_actions_mask(), bool)}

    def read(moves, answer):
        value = answer["value"][0]  # the evaluator returns [value, -value] for the two players
        return [value, -value][len(moves) % 2], answer["policy"]

    return encode, read


def by_lightzero(folder):
    class Any(types.ModuleType):
        """Stands for the modules that the environment imports and its planes do not need."""
        def __getattr__(self, name):
            return mock.MagicMock()

    for name in ["imageio", "matplotlib", "matplotlib.pyplot", "pygame", "ding", "ding.utils", "ditk", "easydict", "gymnasium",
                 "zoo.board_games.connect4.envs.rule_bot", "zoo.board_games.mcts_bot"]:
        sys.modules[name] = Any(name)
    sys.modules["ding.envs"] = types.ModuleType("ding.envs")
    sys.modules["ding.envs"].BaseEnv, sys.modules["ding.envs"].BaseEnvTimestep = object, None
    sys.modules["ding.utils"].ENV_REGISTRY = types.SimpleNamespace(register=lambda name: lambda c: c)
    sys.path.insert(0, folder)
    from zoo.board_games.connect4.envs.connect4_env import Connect4Env

    def encode(moves):
        env = Connect4Env.__new__(Connect4Env)
        env.scale, env.channel_last, env.players = True, False, [1, 2]
        env.board = [0] * (ROWS * COLUMNS)
        for i, column in enumerate(moves):
            row = ROWS - 1 - moves[:i].count(column)
            env.board[row * COLUMNS + column] = 1 + i % 2
        env._current_player = 1 + len(moves) % 2
        assert env.legal_actions == [c for c in range(COLUMNS) if legal(moves)[c]]
        return {"obs": env.current_state()[1].astype(numpy.float32)}

    def read(moves, answer):
        policy = softmax(answer["logit"].astype(numpy.float64)) * legal(moves)
        return min(1, max(-1, answer["value"][0])), policy / policy.sum()

    return encode, read


def by_pgx():
    env = pgx.make("connect_four")
    init, step = jax.jit(env.init), jax.jit(env.step)

    def encode(moves):
        state = init(jax.random.PRNGKey(0))
        for move in moves:
            state = step(state, move)
        return {"obs": numpy.array(state.observation)}

    def read(moves, answer):
        return answer["value"], softmax(numpy.where(legal(moves), answer["logits"].astype(numpy.float64), -numpy.inf))

    return encode, read


def cases(name, file, seed, encode, read):
    """Writes NAME.json with what the network of a file answers."""
    session = onnxruntime.InferenceSession(HERE / f"{file}.onnx", providers=["CPUExecutionProvider"])
    names, rows = [o.name for o in session.get_outputs()], []
    for moves in games(seed):
        inputs = encode(moves)
        answer = {n: x[0] for n, x in zip(names, session.run(names, {n: x[None] for n, x in inputs.items()}))}
        value, policy = read(moves, answer)
        number = lambda x: int(x) if x == int(x) else round(float(x), 9)  # noqa: E731
        rows.append({
            "moves": "".join(str(m + 1) for m in moves) or "-",
            "inputs": {n: [number(v) for v in x.flatten()] for n, x in inputs.items()},
            "outputs": {n: [round(float(v), 9) for v in numpy.atleast_1d(x)] for n, x in answer.items()},
            "value": round(float(value), 9), "policy": [round(float(p), 9) for p in policy],
        })
    text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    (HERE / f"{name}.json").write_text(f"[\n{text}\n]\n")


arguments = argparse.ArgumentParser()
arguments.add_argument("--lightzero", required=True)
arguments.add_argument("--alpha-zero-general", required=True)
arguments = arguments.parse_args()
alpha_zero_general()
open_spiel("open_spiel", 2)
lightzero()
pgx_network()
cases("alpha_zero_general", "alpha_zero_general", 1, *by_alpha_zero_general(arguments.alpha_zero_general))
cases("open_spiel", "open_spiel", 2, *by_open_spiel("connect_four"))
cases("open_spiel_egocentric", "open_spiel", 3, *by_open_spiel("connect_four(egocentric_obs_tensor=true)"))
cases("lightzero", "lightzero", 4, *by_lightzero(arguments.lightzero))
cases("pgx", "pgx", 5, *by_pgx())
