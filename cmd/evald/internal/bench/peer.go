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

// Peer is onnxruntime in a Python process, which is given the same work.
type Peer struct {
	Python string // the interpreter; it must have onnxruntime, onnx, safetensors and numpy

	version string
	child
}

// child is a Python process. Each request to it is a line, and so is each answer.
type child struct {
	python, needs string
	folder        string // of its files, removed in the end
	cmd           *exec.Cmd
	in            io.WriteCloser
	out           *bufio.Reader
	errors        bytes.Buffer
}

// peerTolerance is how far the peer's logits may be from the reference's. Both are float32, summed in other orders.
const peerTolerance = 1e-3

// start lets the peer read the network and evaluate the batch once, and compares its logits with the reference's, because
// the speed of a peer that computes something else means nothing.
func (p *Peer) start(ctx context.Context, n *net.Network, b *eval.Batch, threads int) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("peer onnxruntime: %w", err)
			p.stop()
		}
	}()
	p.child = child{python: p.Python, needs: "onnxruntime, onnx, safetensors and numpy"}
	planes := net.NewPlanes(b.Board, b.Pos)
	raw, err := binary.Append(nil, binary.LittleEndian, planes.Float32s())
	if err != nil {
		return err
	}
	if err := p.files(n, map[string][]byte{"planes": raw, "peer.py": peerScript}); err != nil {
		return err
	}
	args := []string{"peer.py", networkFile, "planes"}
	for _, number := range []int{len(b.Pos), b.Board.Rows(), b.Board.Columns(), threads} {
		args = append(args, strconv.Itoa(number))
	}
	if err := p.launch(ctx, args); err != nil {
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
	return compare(peerTolerance, output{"wdl", answer.WDL, want.WDL.Float32s()}, output{"gameover", answer.GameOver, want.GameOver.Float32s()}, output{"cells", answer.Cells, want.Cells.Float32s()})
}

// output is what a peer answered, and the reference's.
type output struct {
	name      string
	got, want []float32
}

// compare is an error if an output is further from the reference than the tolerance.
func compare(tolerance float64, outputs ...output) error {
	for _, out := range outputs {
		if len(out.got) != len(out.want) {
			return fmt.Errorf("%d values of %s, want %d", len(out.got), out.name, len(out.want))
		}
		for i, v := range out.got {
			if d := math.Abs(float64(v - out.want[i])); !(d <= tolerance) {
				return fmt.Errorf("%s %d is %v, the reference says %v", out.name, i, v, out.want[i])
			}
		}
	}
	return nil
}

const networkFile = "network.safetensors"

// files makes the child's folder, with the network in it and more.
func (p *child) files(n *net.Network, more map[string][]byte) (err error) {
	if p.folder, err = os.MkdirTemp("", "evald-peer-"); err != nil {
		return err
	}
	for name, content := range more {
		if err := os.WriteFile(filepath.Join(p.folder, name), content, 0o600); err != nil {
			return err
		}
	}
	return n.WriteFile(filepath.Join(p.folder, networkFile))
}

// launch starts Python in the folder.
func (p *child) launch(ctx context.Context, args []string) (err error) {
	python := p.python
	if strings.Contains(python, "/") { // a path from our folder, not from the child's
		if python, err = filepath.Abs(python); err != nil {
			return err
		}
	}
	p.cmd = exec.CommandContext(ctx, python, args...)
	p.cmd.Dir, p.cmd.Stderr = p.folder, &p.errors
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
	return nil
}

// line reads one answer. If the process died instead, the error is the last line that it wrote to stderr.
func (p *child) line() (string, error) {
	line, err := p.out.ReadString('\n')
	if err == nil {
		return strings.TrimSpace(line), nil
	}
	p.in.Close()
	died := p.cmd.Wait()
	p.cmd = nil
	lines := strings.Split(strings.TrimSpace(p.errors.String()), "\n")
	return "", fmt.Errorf("%s: %v: %s (it needs %s; EVALD_PYTHON names another Python)", p.python, died, lines[len(lines)-1], p.needs)
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
func (p *child) stop() {
	if p.cmd != nil {
		p.in.Close()
		_ = p.cmd.Wait() // it ends because its input has ended; its status does not matter
		p.cmd = nil
	}
	if p.folder != "" {
		_ = os.RemoveAll(p.folder)
	}
}
