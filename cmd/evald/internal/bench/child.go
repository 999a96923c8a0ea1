package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/onnx"
)

// child is a Python process that answers requests. Requests and answers are lines of JSON.
type child struct {
	python, needs string
	folder        string // of its files; stop removes it
	cmd           *exec.Cmd
	in            io.WriteCloser
	out           *bufio.Reader
	errors        bytes.Buffer
}

// launch starts Python in a new folder with the given files.
func (p *child) launch(ctx context.Context, files map[string][]byte, args ...string) (err error) {
	if p.folder, err = os.MkdirTemp("", "evald-peer-"); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(p.folder, name), content, 0o600); err != nil {
			return err
		}
	}
	python := p.python
	if strings.Contains(python, "/") { // a relative path is relative to this process's folder, not the child's
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

// begin adds the network as network.onnx and the planes of positions to files, and launches Python with them.
func (p *child) begin(ctx context.Context, n *net.Network, board *game.Board, planes map[string][]game.Position, files map[string][]byte, args ...string) (err error) {
	if files["network.onnx"], err = onnx.Marshal(n, "network", onnx.Options{}); err != nil {
		return err
	}
	for name, positions := range planes {
		if files[name], err = binary.Append(nil, binary.LittleEndian, net.NewPlanes(board, positions).Float32s()); err != nil {
			return err
		}
	}
	return p.launch(ctx, files, args...)
}

// line reads one answer. If the process has died, the error has the last line that it wrote to stderr.
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

// ask sends a request and reads the answer.
func (p *child) ask(question map[string]any, answer any) error {
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.in, "%s\n", text) // if the process has died, line returns the reason
	return p.hear(answer)
}

func (p *child) hear(answer any) error {
	line, err := p.line()
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(line), answer); err != nil {
		return fmt.Errorf("answer %.100q: %w", line, err)
	}
	return nil
}

// stop ends the process and removes its folder.
func (p *child) stop() {
	if p.cmd != nil {
		p.in.Close()
		_ = p.cmd.Wait() // the process ends because its input has ended; its status does not matter
		p.cmd = nil
	}
	if p.folder != "" {
		_ = os.RemoveAll(p.folder)
	}
}

// output is a peer's answer and the reference's.
type output struct {
	name      string
	got, want []float32
}

// compare returns an error if a value differs from the reference's by more than the tolerance.
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
