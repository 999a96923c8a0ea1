package train

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"runtime"
	"time"

	"gorgonia.org/tensor"

	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/nn/net"
)

//go:embed torch_trainer.py
var torchTrainer string

// torchBegin precedes the two files. It makes Python ignore an interrupt from the terminal, because the run must still be saved, and import
// no modules from the current folder. It makes waiting threads sleep: on busy processors, spinning threads would delay the thread for which
// they wait.
const torchBegin = `import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path = [p for p in sys.path if p]
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic products
`

// torch computes steps in a Python process, which holds the state: the weights of the trained tensors, their moving average and the
// moments. Examples, schedule and files stay in this process. torch_trainer.py documents the protocol.
type torch struct {
	*Trainer
	python string
	how    string // a description of the device and precision, from Python
	specs  []net.Spec
	judged []*Batch // by game; nil until first used

	cmd    *exec.Cmd
	in     *bufio.Writer
	out    *bufio.Reader
	pipe   io.Closer
	errors short.Tail

	ahead *feed // nil before the first step
}

type torchRun struct {
	Network   net.Config `json:"network"`
	Batch     int        `json:"batch"`
	Judged    int        `json:"judged"`  // number of rows in batches that are measured
	Weights   [3]float64 `json:"weights"` // of the losses: wdl, policy, gameover
	Taste     float64    `json:"taste"`   // as in Weights
	Tensors   []net.Spec `json:"tensors"` // the trained tensors, Muon's last
	Muon      int        `json:"muon"`    // number of values that Muon trains
	Clip      float64    `json:"clip"`
	Average   bool       `json:"average"`
	Symmetric bool       `json:"symmetric"`
	Threads   int        `json:"threads"`
	BFloat16  bool       `json:"bfloat16"` // Compute.BFloat16
}

// startTorch starts Python and sends it the state.
func startTorch(t *Trainer, by Compute) (*torch, error) {
	if err := t.config.Weights.check(); err != nil {
		return nil, err
	}
	p := &torch{Trainer: t, python: by.Python, judged: make([]*Batch, len(t.lessons))}
	c := t.net.Config()
	for _, muons := range []bool{false, true} {
		for _, s := range c.Specs() {
			if m := t.moments[s.Name]; m != nil && (m.muon != nil) == muons {
				p.specs = append(p.specs, s)
			}
		}
	}
	run := torchRun{
		Network: c, Tensors: p.specs, Batch: t.config.Batch, Judged: measureBatch, Weights: [3]float64{t.config.Weights.WDL, t.config.Weights.Policy, t.config.Weights.GameOver},
		Taste: t.config.Weights.Taste, Clip: t.config.Clip, Average: t.average != t.net, Threads: cmp.Or(by.Threads, runtime.GOMAXPROCS(0)), BFloat16: by.BFloat16,
	}
	var mirror []int32
	for _, s := range p.specs {
		m, at := t.moments[s.Name], int32(len(mirror))
		if m.muon != nil {
			run.Muon += s.Size()
		}
		for _, j := range m.mirror {
			mirror = append(mirror, at+j)
		}
	}
	run.Symmetric = len(mirror) > 0
	if err := p.start(run, mirror); err != nil {
		return nil, err
	}
	return p, nil
}

// start starts the process and sends it the run's description.
func (p *torch) start(run torchRun, mirror []int32) error {
	begin, err := json.Marshal(run)
	if err != nil {
		return err
	}
	p.cmd = exec.Command(p.python, "-c", torchBegin+net.TorchModel+torchTrainer)
	p.cmd.Stderr, p.cmd.WaitDelay = &p.errors, time.Second
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	p.pipe, p.in, p.out = in, bufio.NewWriter(in), bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		p.cmd = nil
		return p.failed(err.Error())
	}
	p.in.Write(append(begin, '\n')) // a bufio.Writer keeps its error for Flush
	if err := p.write(mirror); err != nil {
		return err
	}
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return p.died()
	}
	var hello struct{ About string }
	if err := json.Unmarshal(line, &hello); err != nil {
		defer p.close()
		return p.failed(fmt.Sprintf("it answers %.100q: %v", line, err))
	}
	p.how = hello.About
	return p.send()
}

// write sends numbers, after everything that was written before.
func (p *torch) write(numbers ...any) error {
	for _, n := range numbers {
		bytes, err := binary.Append(nil, binary.LittleEndian, n)
		if err != nil {
			return err
		}
		p.in.Write(bytes)
	}
	if p.in.Flush() != nil {
		return p.died()
	}
	return nil
}

func (p *torch) read(numbers any) error {
	if binary.Read(p.out, binary.LittleEndian, numbers) != nil {
		return p.died()
	}
	return nil
}

// died waits until a process that does not answer has ended, and returns an error with the exception that its standard error ends with.
func (p *torch) died() error {
	if p.cmd == nil {
		return p.failed("it has ended")
	}
	p.pipe.Close()
	err := p.cmd.Wait()
	p.cmd = nil
	return p.failed(fmt.Sprintf("%v: %s", err, p.errors.Exception()))
}

// failed returns an error of the process that tells the user what to do.
func (p *torch) failed(why string) error {
	way := "the same command resumes from the checkpoint, also with gorgonia"
	if p.how == "" { // it has not started
		way = "install PyTorch there (pip install torch), let EVALD_PYTHON name a Python that has it, or train with gorgonia, which needs none"
	}
	return fmt.Errorf("PyTorch: %s: %s; %s", p.python, why, way)
}

func (p *torch) close() {
	if p.ahead != nil {
		p.ahead.stop()
		p.ahead = nil
	}
	if p.cmd != nil {
		p.pipe.Close()
		_ = p.cmd.Wait() // its input has ended, so it ends; its status is irrelevant
		p.cmd = nil
	}
}

func (p *torch) about() string { return p.how }

func (p *torch) step(rate, keep float64) (*Losses, float64, error) {
	if p.ahead == nil || p.ahead.next != p.Trainer.step {
		if p.ahead != nil {
			p.ahead.stop()
		}
		p.ahead = p.feed(p.Trainer.step)
	}
	batch, err := p.ahead.take()
	if err != nil {
		return nil, 0, err
	}
	size, epsilon := AdamSize(rate, p.Trainer.step+1)
	muonSize := rate * muonScale * math.Sqrt(float64(9*p.net.Config().Channels))
	p.in.WriteByte('S')
	if err := p.write([]float64{float64(size), float64(epsilon), rate * p.config.L2, muonSize, keep}, batch.bytes); err != nil {
		return nil, 0, err
	}
	l, norm, err := p.result(batch.cells)
	if err == nil && (math.IsNaN(norm) || math.IsInf(norm, 0)) {
		err = diverged(norm)
	}
	return l, norm, err
}

func (p *torch) judge(game int, examples []Example) (*Losses, error) {
	if p.judged[game] == nil {
		p.judged[game] = NewBatch(p.lessons[game].Board, measureBatch)
	}
	if err := p.judged[game].Fill(examples); err != nil {
		return nil, err
	}
	batch := pack(p.judged[game])
	p.in.WriteByte('M')
	if err := p.write(batch.bytes); err != nil {
		return nil, err
	}
	l, _, err := p.result(batch.cells)
	return l, err
}

// result reads the answer to a batch. cells is the number of cells of the batch's board.
func (p *torch) result(cells int) (l *Losses, norm float64, err error) {
	l = &Losses{}
	terms := []struct {
		weight  float64
		classes int
		term    **Term
	}{{p.config.Weights.WDL, net.WDLs, &l.WDL}, {p.config.Weights.Policy, cells, &l.Policy}, {p.config.Weights.GameOver, net.GameOvers, &l.GameOver}}
	if err := p.read(&norm); err != nil {
		return nil, 0, err
	}
	for _, t := range terms {
		if t.weight == 0 {
			continue
		}
		numbers := make([]float64, 1+2*t.classes)
		if err := p.read(numbers); err != nil {
			return nil, 0, err
		}
		counts := make([]int, 2*t.classes)
		for i, n := range numbers[1:] {
			counts[i] = int(n)
		}
		*t.term = &Term{numbers[0], counts[:t.classes], counts[t.classes:]}
		l.Total += t.weight * numbers[0]
	}
	return l, norm, nil
}

// parts returns slices of the Trainer's state in the order in which Python expects them.
func (p *torch) parts() (all [][]float32) {
	of := func(part func(s net.Spec) []float32) {
		for _, s := range p.specs {
			all = append(all, part(s))
		}
	}
	of(func(s net.Spec) []float32 { return p.net.Weight(s.Name).Float32s() })
	if p.average != p.net {
		of(func(s net.Spec) []float32 { return p.average.Weight(s.Name).Float32s() })
	}
	of(func(s net.Spec) []float32 { return p.moments[s.Name].first })
	of(func(s net.Spec) []float32 { return p.moments[s.Name].second })
	return all
}

func (p *torch) fetch() error {
	p.in.WriteByte('G')
	if err := p.write(); err != nil {
		return err
	}
	for _, part := range p.parts() {
		if err := p.read(part); err != nil {
			return err
		}
	}
	return nil
}

func (p *torch) send() error {
	p.in.WriteByte('P')
	for _, part := range p.parts() {
		if err := p.write(part); err != nil {
			return err
		}
	}
	return nil
}

// packed is a batch in the form in which it is sent.
type packed struct {
	bytes []byte
	cells int // of the batch's board
}

// pack packs a batch: the board's rows, columns and last plane, the targets, and one byte per cell.
func pack(b *Batch) packed {
	planes := b.planes.Float32s()
	data, _ := binary.Append(nil, binary.LittleEndian, []float32{float32(b.board.Rows()), float32(b.board.Columns()), planes[net.PlaneCount-1]})
	for _, t := range []*tensor.Dense{b.wdl, b.cells, b.gameover} {
		data, _ = binary.Append(data, binary.LittleEndian, t.Float32s()) // cannot fail for a slice of numbers
	}
	for ; len(planes) > 0; planes = planes[net.PlaneCount:] {
		bits := byte(0)
		for i, v := range planes[:net.PlaneCount-1] {
			bits |= byte(v) << i
		}
		data = append(data, bits)
	}
	return packed{data, b.board.Cells()}
}

// feed provides the batches of the next steps, which a goroutine prepares while Python computes.
type feed struct {
	next    int // step of the next batch that take returns
	batches chan fed
	cancel  context.CancelFunc
}

type fed struct {
	packed
	err error
}

// batchesAhead is the maximum number of prepared batches. Records are decoded for many batches at once.
const batchesAhead = 64

// feed starts a feed with the batch of step from.
func (p *torch) feed(from int) *feed {
	ctx, cancel := context.WithCancel(context.Background())
	f := &feed{from, make(chan fed, batchesAhead), cancel}
	go func() {
		defer close(f.batches)
		batches := make([]*Batch, len(p.lessons)) // by game
		for step := from; step < p.config.Steps; step++ {
			b, err := p.fill(step, func(game int) (*Batch, error) {
				if batches[game] == nil {
					batches[game] = NewBatch(p.lessons[game].Board, p.config.Batch)
				}
				return batches[game], nil
			})
			next := fed{err: err}
			if err == nil {
				next.packed = pack(b)
			}
			select {
			case f.batches <- next:
			case <-ctx.Done():
				return
			}
		}
	}()
	return f
}

func (f *feed) take() (packed, error) {
	f.next++
	next, ok := <-f.batches
	if !ok {
		return packed{}, errors.New("all steps of the run have been made")
	}
	return next.packed, next.err
}

// stop waits until the feed no longer uses the source.
func (f *feed) stop() {
	f.cancel()
	for range f.batches { // until it is closed
	}
}
