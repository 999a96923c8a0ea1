package net

import _ "embed"

// TorchModel is torch_model.py: the same network as a PyTorch module.
//
//go:embed torch_model.py
var TorchModel string
