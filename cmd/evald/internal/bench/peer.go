package bench

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/sample"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/nn/cpu"
	"github.com/evald/evald/nn/net"
)

//go:embed peer.py
var peerScript []byte

// libraries are the peers on the CPU and the Python packages that they need.
var libraries = map[string]string{
	"onnxruntime": "onnxruntime, onnx and numpy",
	"openvino":    "openvino, nncf and numpy",
}

// peerBatches are the batch sizes that Peers measures.
var peerBatches = []int{1, 8, 64, 256}

// peerPositions is the number of positions of plausible play on which answers are compared. The same number of other positions calibrates
// int8 networks.
const peerPositions = 300

// peerTolerance is the maximum difference of a peer's float32 probabilities from the reference's. They differ because floats are summed in
// another order.
const peerTolerance = 1e-3

// PeerReport compares this program's CPU paths and its peers on a network on 7x6, with the same number of threads.
type PeerReport struct {
	Network    string      `json:"network"`
	Threads    int         `json:"threads"`
	Positions  int         `json:"positions"` // number of positions on which answers are compared
	Settings   []string    `json:"settings"`  // of each peer
	Contenders []Contender `json:"contenders"`
}

// Contender is one way to evaluate the network: a path, or a peer in one precision.
type Contender struct {
	Name  string     `json:"name"`
	Rates []PeerRate `json:"rates"`
	Difference
}

// PeerRate is a contender's speed with one batch size.
type PeerRate struct {
	Batch int     `json:"batch"`
	Rate  float64 `json:"rate"` // positions per second, the median of the rounds
	// The rate divided by the first contender's in the same round: the median, the least and the most of the rounds.
	Ratio float64 `json:"ratio"`
	Least float64 `json:"ratio_least"`
	Most  float64 `json:"ratio_most"`
}

// Difference is the difference of answers from the float32 reference's, in probability. The win-draw-loss difference of a position is the
// largest of its three.
type Difference struct {
	WDL99   float64 `json:"wdl_99"`        // the 99th percentile over the positions
	WDLMost float64 `json:"wdl_most"`      // the largest
	Changed float64 `json:"changed_moves"` // the share of positions whose most probable move differs
}

// Peers measures a network with every vector path of the CPU, and with libraries (the peers) in processes of the given Python interpreter. In
// each round every contender runs for about d.
func Peers(ctx context.Context, d time.Duration, n *net.Network, name, python string, peers []string, progress Progress) (r *PeerReport, err error) {
	board := game.MustBoard(game.Connect4)
	calibration, positions, err := plausiblePositions(ctx, board)
	if err != nil {
		return nil, err
	}
	var started []*peer // before the reference computes for seconds, because they may fail
	for _, library := range peers {
		p := &peer{library: library}
		defer p.stop()
		progress.show("start of %s", library)
		if err := p.start(ctx, python, n, board, calibration, positions); err != nil {
			return nil, fmt.Errorf("peer %s: %w", library, err)
		}
		started = append(started, p)
	}
	progress.show("the reference's answers")
	want := newBatch(board, positions, len(positions))
	if err := net.NewBackend(n).Compute(ctx, want); err != nil {
		return nil, err
	}
	r = &PeerReport{Network: name, Threads: runtime.GOMAXPROCS(0), Positions: len(positions)}
	var runners []runner
	for i, p := range cpu.Paths(n) {
		if p == kernel.Go && i > 0 {
			continue // its rounds would take longer than all others together
		}
		e, err := cpu.NewPath(n, p)
		if err != nil {
			return nil, err
		}
		got := newBatch(board, positions, len(positions))
		if err := e.Compute(ctx, got); err != nil {
			return nil, err
		}
		r.Contenders = append(r.Contenders, Contender{Name: "evald " + string(p), Difference: Compare(got.WDL, got.Policy, want)})
		runners = append(runners, func(batch int) func() (float64, error) {
			return timed(ctx, e.Compute, newBatch(board, positions, batch), d)
		})
	}
	for _, p := range started {
		library := p.library
		r.Settings = append(r.Settings, fmt.Sprintf("%s %s: %s", library, p.Version, p.Settings))
		for _, precision := range p.Precisions {
			progress.show("%s, answers in %s", library, precision)
			c, err := p.contender(precision, want)
			if err != nil {
				return nil, fmt.Errorf("peer %s: %s: %w", library, precision, err)
			}
			r.Contenders = append(r.Contenders, c)
			runners = append(runners, func(batch int) func() (float64, error) {
				return func() (float64, error) { return p.round(precision, batch, d) }
			})
		}
	}
	for _, batch := range peerBatches {
		if err := r.race(ctx, runners, batch, d, progress); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// runner returns the function that runs a contender's round with a batch size.
type runner func(batch int) func() (float64, error)

// race measures all contenders with one batch size and adds their rates to the report.
func (r *PeerReport) race(ctx context.Context, runners []runner, batch int, d time.Duration, progress Progress) error {
	var contenders []*contender
	for i, c := range r.Contenders {
		contenders = append(contenders, &contender{name: fmt.Sprintf("batch %d, %s", batch, c.Name), round: runners[i](batch)})
	}
	if err := race(ctx, contenders, d, progress); err != nil {
		return err
	}
	for i, c := range contenders {
		ratios := c.ratios(contenders[0])
		r.Contenders[i].Rates = append(r.Contenders[i].Rates, PeerRate{
			Batch: batch, Rate: median(c.rates), Ratio: median(ratios), Least: slices.Min(ratios), Most: slices.Max(ratios),
		})
	}
	return nil
}

// plausiblePositions returns distinct positions of plausible play, the same each time: some to calibrate int8 networks, and others to compare
// answers on.
func plausiblePositions(ctx context.Context, board *game.Board) (calibration, compared []game.Position, err error) {
	games, err := sample.Draw(ctx, board, sample.Plausible, 2*peerPositions, 1, nil)
	if err != nil {
		return nil, nil, err
	}
	positions := sample.Positions(board, games)
	return positions[:peerPositions], positions[peerPositions:], nil
}

// newBatch returns a batch of n positions, which repeats the given ones if they are fewer.
func newBatch(board *game.Board, positions []game.Position, n int) *eval.Batch {
	b := eval.NewBatch(board, n)
	for i := range b.Pos {
		b.Pos[i] = positions[i%len(positions)]
	}
	return b
}

// Compare compares answers, wdl [n,3] and policy [n,actions], with the reference's.
func Compare(wdl, policy []float32, want *eval.Batch) Difference {
	var off []float64
	changed, actions := 0, want.Board.Actions()
	for i := range want.Pos {
		most := 0.0
		for k, v := range want.WDLRow(i) {
			most = max(most, math.Abs(float64(wdl[3*i+k]-v)))
		}
		off = append(off, most)
		if best(policy[i*actions:(i+1)*actions]) != best(want.PolicyRow(i)) {
			changed++
		}
	}
	slices.Sort(off)
	return Difference{WDL99: off[len(off)*99/100], WDLMost: off[len(off)-1], Changed: float64(changed) / float64(len(off))}
}

// best returns the most probable move, the first of equal ones.
func best(policy []float32) int { return slices.Index(policy, slices.Max(policy)) }

// peer is a library in a Python process that evaluates the same network.
type peer struct {
	library string
	// The process's first message.
	Version, Settings string
	Precisions        []string
	child
}

// start starts the process with the network and the positions.
func (p *peer) start(ctx context.Context, python string, n *net.Network, board *game.Board, calibration, positions []game.Position) error {
	p.child = child{python: python, needs: libraries[p.library]}
	planes := map[string][]game.Position{"calibration": calibration, "positions": positions}
	err := p.begin(ctx, n, board, planes, map[string][]byte{"peer.py": peerScript}, "peer.py", p.library, "network.onnx",
		strconv.Itoa(board.Rows()), strconv.Itoa(board.Columns()), strconv.Itoa(runtime.GOMAXPROCS(0)), "calibration", "positions")
	if err != nil {
		return err
	}
	return p.hear(p)
}

// contender compares the peer's answers with the reference's. In float32 they must agree, because the speed of a peer that computes
// something else is meaningless.
func (p *peer) contender(precision string, want *eval.Batch) (Contender, error) {
	var got struct{ WDL, Policy []float32 }
	if err := p.ask(map[string]any{"precision": precision}, &got); err != nil {
		return Contender{}, err
	}
	tolerance := peerTolerance
	if precision != "f32" {
		tolerance = 1 // accepts any probability
	}
	if err := compare(tolerance, output{"WDL", got.WDL, want.WDL}, output{"policy", got.Policy, want.Policy}); err != nil {
		return Contender{}, err
	}
	return Contender{Name: p.library + " " + precision, Difference: Compare(got.WDL, got.Policy, want)}, nil
}

// round returns the peer's rate in positions per second, measured for about d.
func (p *peer) round(precision string, batch int, d time.Duration) (float64, error) {
	var answer struct{ Rate float64 }
	err := p.ask(map[string]any{"precision": precision, "batch": batch, "seconds": d.Seconds()}, &answer)
	return answer.Rate, err
}

// PeerTable writes a report as a table.
func PeerTable(w io.Writer, r *PeerReport) error {
	first := r.Contenders[0]
	fmt.Fprintf(w, "network %s, threads: %d. Positions a second at each size of batches, and times %s (least-most of %d rounds).\n", r.Network, r.Threads, first.Name, rounds)
	fmt.Fprintf(w, "Off: the difference from the float32 reference on %d positions, in win-draw-loss, and the best moves that changed.\n", r.Positions)
	for _, text := range r.Settings {
		fmt.Fprintln(w, text)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "contender")
	for _, rate := range first.Rates {
		fmt.Fprintf(t, "\tbatch %d\t", rate.Batch)
	}
	fmt.Fprintln(t, "\toff at 99%\tat most\tmoves")
	for _, c := range r.Contenders {
		fmt.Fprint(t, c.Name)
		for _, rate := range c.Rates {
			fmt.Fprintf(t, "\t%s\t%.2f (%.2f-%.2f)", si(rate.Rate), rate.Ratio, rate.Least, rate.Most)
		}
		fmt.Fprintf(t, "\t%.4f\t%.4f\t%.1f%%\n", c.WDL99, c.WDLMost, 100*c.Changed)
	}
	return t.Flush()
}
