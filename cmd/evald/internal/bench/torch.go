package bench

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
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
	if err := p.files(n, files); err != nil {
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

// ask sends a request and reads the answer.
func (p *Torch) ask(question map[string]any, answer any) error {
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(p.in, "%s\n", text); err != nil {
		return err
	}
	return p.hear(answer)
}

func (p *Torch) hear(answer any) error {
	line, err := p.line()
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(line), answer); err != nil {
		return fmt.Errorf("answer %.100q: %w", line, err)
	}
	return nil
}
