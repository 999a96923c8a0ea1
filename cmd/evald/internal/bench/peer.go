package bench

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/nn/net"
)

//go:embed peer.py
var peerScript []byte

// Peer is onnxruntime in a Python process: the program that is asked for the same work.
type Peer struct {
	Python string // the interpreter; it must have onnxruntime, onnx, safetensors and numpy

	version string
	folder  string
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	errors  bytes.Buffer
}

// peerTolerance is how far the peer's logits may be from the reference's. Both are float32, summed in other orders.
const peerTolerance = 1e-3

// start lets the peer read the network and evaluate the batch once, and compares its logits with the reference's: a
// peer that computed something else would be no measure.
func (p *Peer) start(ctx context.Context, n *net.Network, b *eval.Batch, threads int) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("peer onnxruntime: %w", err)
			p.stop()
		}
	}()
	if p.folder, err = os.MkdirTemp("", "evald-peer-"); err != nil {
		return err
	}
	model, input, script := filepath.Join(p.folder, "network.safetensors"), filepath.Join(p.folder, "planes"), filepath.Join(p.folder, "peer.py")
	if err := n.WriteFile(model); err != nil {
		return err
	}
	planes := net.NewPlanes(b.Board, b.Pos)
	raw, err := binary.Append(nil, binary.LittleEndian, planes.Float32s())
	if err != nil {
		return err
	}
	if err := os.WriteFile(input, raw, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(script, peerScript, 0o600); err != nil {
		return err
	}
	args := []string{script, model, input}
	for _, number := range []int{len(b.Pos), b.Board.Rows(), b.Board.Columns(), threads} {
		args = append(args, strconv.Itoa(number))
	}
	p.cmd = exec.CommandContext(ctx, p.Python, args...)
	p.cmd.Stderr = &p.errors
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return err
	}
	line, err := p.line()
	if err != nil {
		return err
	}
	var answer struct {
		Version              string
		WDL, GameOver, Cells []float32
	}
	if err := json.Unmarshal([]byte(line), &answer); err != nil {
		return fmt.Errorf("first answer: %w", err)
	}
	p.version = answer.Version
	want, err := n.Forward(planes)
	if err != nil {
		return err
	}
	for _, out := range [...]struct {
		name      string
		got, want []float32
	}{{"wdl", answer.WDL, want.WDL.Float32s()}, {"gameover", answer.GameOver, want.GameOver.Float32s()}, {"cells", answer.Cells, want.Cells.Float32s()}} {
		if len(out.got) != len(out.want) {
			return fmt.Errorf("%d values of %s, want %d", len(out.got), out.name, len(out.want))
		}
		for i, v := range out.got {
			if d := math.Abs(float64(v - out.want[i])); !(d <= peerTolerance) {
				return fmt.Errorf("%s %d is %v, the reference says %v", out.name, i, v, out.want[i])
			}
		}
	}
	return nil
}

// line reads one answer. Where the process died instead, the error is the last line of what it said.
func (p *Peer) line() (string, error) {
	line, err := p.out.ReadString('\n')
	if err == nil {
		return strings.TrimSpace(line), nil
	}
	p.in.Close()
	died := p.cmd.Wait()
	p.cmd = nil
	lines := strings.Split(strings.TrimSpace(p.errors.String()), "\n")
	return "", fmt.Errorf("%s: %v: %s (it needs onnxruntime, onnx, safetensors and numpy; EVALD_PYTHON names another Python)", p.Python, died, lines[len(lines)-1])
}

// round is the peer's positions a second over about d.
func (p *Peer) round(d time.Duration) (float64, error) {
	if _, err := fmt.Fprintln(p.in, d.Seconds()); err != nil {
		return 0, err
	}
	line, err := p.line()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(line, 64)
}

// stop ends the process and removes what was written for it.
func (p *Peer) stop() {
	if p.cmd != nil {
		p.in.Close()
		_ = p.cmd.Wait() // its input has ended, and so does it; how does not matter
		p.cmd = nil
	}
	_ = os.RemoveAll(p.folder)
}
