package bench

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/net"
)

//go:embed torch_peer.py
var torchScript []byte

// Torch is another program that evaluates networks on a GPU, in a Python process with PyTorch. It evaluates one network at a time. The caller
// sets the exported fields.
type Torch struct {
	Python    string // the interpreter; it must have torch, safetensors, numpy, and the packages of Way
	Device    string // cuda, or cpu for tests
	Way       string // pytorch, pytorch-compile, tensorrt or onnxruntime
	Precision string // bf16 or fp16

	how  string      // description of the program, with versions
	want *eval.Batch // positions with the reference's answers
	child
}

// torchTolerance is the maximum difference of the peer's probabilities from the reference's.
const torchTolerance = 0.1

// start starts the peer with a network and the positions of b, which each batch repeats.
func (p *Torch) start(ctx context.Context, n *net.Network, b *eval.Batch) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("peer %s: %w", p.Way, err)
			p.stop()
		}
	}()
	p.child = child{python: p.Python, needs: "torch, safetensors and numpy"}
	network, err := n.Marshal()
	if err != nil {
		return err
	}
	err = p.begin(ctx, n, b.Board, map[string][]game.Position{"planes": b.Pos}, map[string][]byte{
		"torch_peer.py": torchScript, "torch_model.py": []byte(net.TorchModel), "network.safetensors": network,
	}, "torch_peer.py", p.Way, p.Precision, p.Device, "network.safetensors", "network.onnx", "planes",
		strconv.Itoa(b.Board.Rows()), strconv.Itoa(b.Board.Columns()))
	if err != nil {
		return err
	}
	var answer struct{ How string }
	if err := p.hear(&answer); err != nil {
		return err
	}
	p.how, p.want = answer.How, b
	return net.NewBackend(n).Compute(ctx, b)
}

// errPeer is an error that the peer reports, after which it continues to answer.
type errPeer string

func (e errPeer) Error() string { return string(e) }

// question sends a question and decodes the answer. An error that the peer reports is an errPeer.
func (p *Torch) question(question map[string]any, answer any) error {
	var line json.RawMessage
	if err := p.ask(question, &line); err != nil {
		return fmt.Errorf("peer %s: %w", p.Way, err)
	}
	var said struct{ Error string }
	err := json.Unmarshal(line, &said)
	if said.Error != "" {
		return errPeer(fmt.Sprintf("peer %s: %s", p.Way, said.Error))
	}
	return errors.Join(err, json.Unmarshal(line, answer))
}

// ready prepares the peer for a batch size, which may take minutes if it compiles, and returns the seconds that this took. It compares the
// peer's answers with the reference's, because the speed of a peer that computes something else is meaningless.
func (p *Torch) ready(batch int) (seconds float64, err error) {
	var got struct {
		WDL, Policy []float32
		Seconds     float64
	}
	if err := p.question(map[string]any{"batch": batch}, &got); err != nil {
		return 0, err
	}
	n := min(batch, len(p.want.Pos))
	want := p.want.Slice(0, n)
	if err := compare(torchTolerance, output{"WDL", got.WDL, want.WDL}, output{"policy", got.Policy, want.Policy}); err != nil {
		return 0, errPeer(fmt.Sprintf("peer %s: %v", p.Way, err))
	}
	return got.Seconds, nil
}

// rate runs a round and returns positions per second.
func (p *Torch) rate(seconds float64, endToEnd bool) (float64, error) {
	var answer struct{ Rate float64 }
	err := p.question(map[string]any{"seconds": seconds, "end_to_end": endToEnd}, &answer)
	if err == nil && answer.Rate <= 0 {
		err = errors.New("peer " + p.Way + ": a rate of 0")
	}
	return answer.Rate, err
}
