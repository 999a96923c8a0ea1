"""The network of package net in PyTorch. Tensor names and shapes are the same, so files go both ways:

    net, metadata = load("x.safetensors"); wdl, gameover, cells = net(planes); save(net, metadata, "y.safetensors")

planes is float32 [N,5,H,W] as the package documentation defines it; all outputs are logits for the side to move:
wdl [N,3], gameover [N,4], cells [N,H,W]. column_logits and the softmax over legal actions come after.
"""
import json

import torch
from torch import nn
from torch.nn.functional import relu


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return relu(x + self.conv2(relu(self.conv1(x))))


class Net(nn.Module):
    def __init__(self, blocks, channels, head_channels, hidden):
        super().__init__()
        self.config = dict(blocks=blocks, channels=channels, head_channels=head_channels, hidden=hidden)
        self.stem = nn.Conv2d(5, channels, 3, padding=1)
        self.blocks = nn.Sequential(*(Block(channels) for _ in range(blocks)))
        self.value = nn.ModuleDict(dict(conv=nn.Conv2d(channels, head_channels, 1), fc=nn.Linear(2 * head_channels, hidden),
                                        wdl=nn.Linear(hidden, 3), gameover=nn.Linear(hidden, 4)))
        self.policy = nn.ModuleDict(dict(conv=nn.Conv2d(channels, head_channels, 1), logit=nn.Conv2d(head_channels, 1, 1)))

    def forward(self, planes):
        x = self.blocks(relu(self.stem(planes)))
        v = relu(self.value.conv(x))
        f = relu(self.value.fc(torch.cat([v.mean((2, 3)), v.amax((2, 3))], 1)))
        cells = self.policy.logit(relu(self.policy.conv(x)))[:, 0]
        return self.value.wdl(f), self.value.gameover(f), cells


def column_logits(cells, planes):
    """[N,W]: the logit of the cell of each column where a stone would land (plane 2)."""
    return (cells * planes[:, 2]).sum(1)


def load(path):
    from safetensors import safe_open
    from safetensors.torch import load_file
    with safe_open(path, "pt") as f:
        metadata = f.metadata()
    net = Net(**json.loads(metadata["evald.config"]))
    net.load_state_dict(load_file(path))
    return net.eval(), metadata


def save(net, metadata, path):
    from safetensors.torch import save_file
    kept = {key: text for key, text in metadata.items() if key != "evald.sha256"}  # the checksum of the old weights
    save_file(net.state_dict(), path, kept | {"evald.format": "1", "evald.config": json.dumps(net.config)})
