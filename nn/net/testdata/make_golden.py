"""Writes torch_golden.json, PyTorch's outputs for a few positions, and torch_*.safetensors, a tiny network in PyTorch's files:

    pip install torch safetensors numpy && python make_golden.py

The planes are computed here from Kaggle boards, cell by cell, so the encoding is cross-checked as well.
"""
import json
import pathlib
import random
import sys

import safetensors
import torch

here = pathlib.Path(__file__).parent
sys.path.insert(0, str(here.parent))
import torch_model  # noqa: E402

MODEL = here.parent.parent.parent / "models" / "seeded-2x16.safetensors"
CASES = [  # columns, rows, in a row, gravity, number of random stones
    (7, 6, 4, True, 0), (7, 6, 4, True, 1), (7, 6, 4, True, 17), (7, 6, 4, True, 30),
    (9, 5, 4, True, 12), (9, 5, 4, True, 23), (3, 3, 3, False, 0), (3, 3, 3, False, 4),
    (12, 9, 5, True, 41), (1, 1, 1, True, 0),
]


def random_board(rng, columns, rows, gravity, stones):
    """A flat board from the top left. Somebody may have won, which does not matter to the network."""
    board = [0] * (rows * columns)
    for ply in range(stones):
        legal = [i for i, v in enumerate(board) if playable(board, columns, rows, gravity, i)]
        board[rng.choice(legal)] = 1 + ply % 2
    return board


def playable(board, columns, rows, gravity, i):
    below = i + columns
    return board[i] == 0 and (not gravity or below >= rows * columns or board[below] != 0)


def planes_of(board, columns, rows, in_a_row, gravity):
    plies = sum(v != 0 for v in board)
    mark = 1 + plies % 2
    planes = torch.zeros(5, rows, columns)
    for i, v in enumerate(board):
        row, column = divmod(i, columns)
        from_bottom = rows - 1 - row
        planes[0, row, column] = v == mark
        planes[1, row, column] = v == 3 - mark
        planes[2, row, column] = playable(board, columns, rows, gravity, i)
        planes[3, row, column] = (from_bottom + rows * columns - rows + plies) % 2 == 0
        planes[4, row, column] = in_a_row / 4
    return planes


def cases():
    rng = random.Random(1)
    net, _ = torch_model.load(MODEL)
    for columns, rows, in_a_row, gravity, stones in CASES:
        board = random_board(rng, columns, rows, gravity, stones)
        planes = planes_of(board, columns, rows, in_a_row, gravity)[None]
        with torch.no_grad():
            wdl, gameover, cells = net(planes)
        logits = torch_model.column_logits(cells, planes) if gravity else cells.flatten(1)
        legal = planes[:, 2].sum(1) > 0 if gravity else planes[:, 2].flatten(1) > 0
        policy = logits.masked_fill(~legal, -torch.inf).softmax(1)
        yield {
            "rules": f"{columns}x{rows}x{in_a_row}" + ("" if gravity else "free"),
            "board": board, "mark": 1 + stones % 2,
            "planes": [int(v) if v == int(v) else v for v in planes.flatten().tolist()],
            "wdl_logits": wdl[0].tolist(), "gameover_logits": gameover[0].tolist(), "cell_logits": cells.flatten().tolist(),
            "wdl": wdl.softmax(1)[0].tolist(), "policy": policy[0].tolist(),
        }


def tiny_networks():
    """Writes a tiny network with PyTorch, in float32 and in bfloat16. Every weight is exact in bfloat16."""
    net = torch_model.Net(1, 2, 1, 1)
    state = net.state_dict()
    for seed, name in enumerate(sorted(state)):
        count = torch.arange(state[name].numel(), dtype=torch.float32)
        state[name] = ((count + seed) % 7 / 4 - 0.75).reshape(state[name].shape)
    net.load_state_dict(state)
    torch_model.save(net, {"evald.name": "tiny"}, here / "torch_f32.safetensors")
    torch_model.save(net.bfloat16(), {"evald.name": "tiny"}, here / "torch_bf16.safetensors")


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(case) for case in cases())
    made_by = f"make_golden.py, PyTorch {torch.__version__}, safetensors {safetensors.__version__}, float32 on the CPU"
    header = f'{{"made_by": "{made_by}", "model": "{MODEL.stem}", "cases": [\n'
    (here / "torch_golden.json").write_text(header + lines + "\n]}\n")
    tiny_networks()
