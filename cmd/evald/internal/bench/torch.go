package bench

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/nn/net"
)

//go:embed torch_peer.py
var torchScript []byte

// Torch is PyTorch in a Python process, on the same device.
type Torch struct {
	Python string // the interpreter; it must have torch, safetensors and numpy
	Device string // cuda, or cpu for tests

	version string
	child
}

const networkFile = "network.safetensors"

// torchTolerance is how far PyTorch's probabilities in bf16 may be from the reference's.
const torchTolerance = 0.1

// torchRates are positions a second; 0 if PyTorch failed.
type torchRates struct {
	Device   float64
	EndToEnd float64 `json:"end_to_end"`
	How      string
}

// start lets PyTorch read the network and evaluate the batch once, and compares its answers with the reference's, because
// the speed of a peer that computes something else means nothing.
func (p *Torch) start(ctx context.Context, n *net.Network, b *eval.Batch) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("peer pytorch: %w", err)
			p.stop()
		}
	}()
	p.child = child{python: p.Python, needs: "torch, safetensors and numpy"}
	planes, err := binary.Append(nil, binary.LittleEndian, net.NewPlanes(b.Board, b.Pos).Float32s())
	if err != nil {
		return err
	}
	files := map[string][]byte{"planes": planes, "torch_peer.py": torchScript, "torch_model.py": []byte(net.TorchModel)}
	if err := p.files(files); err != nil {
		return err
	}
	if err := n.WriteFile(filepath.Join(p.folder, networkFile)); err != nil {
		return err
	}
	if err := p.launch(ctx, []string{"torch_peer.py", networkFile, "planes", strconv.Itoa(b.Board.Rows()), strconv.Itoa(b.Board.Columns()), p.Device}); err != nil {
		return err
	}
	var answer struct {
		Version     string
		WDL, Policy []float32
	}
	if err := p.hear(&answer); err != nil {
		return err
	}
	p.version = answer.Version
	if err := net.NewEvaluator(n).Evaluate(ctx, b); err != nil {
		return err
	}
	return compare(torchTolerance, output{"WDL", answer.WDL, b.WDL}, output{"policy", answer.Policy, b.Policy})
}
