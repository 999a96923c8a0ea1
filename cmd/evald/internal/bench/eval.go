package bench

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/evald/evald/cmd/evald/internal/stream"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/nn/open"
)

// Numbers of 64-bit operations (arithmetic and logic) per call, counted in the source code. They determine the ceilings of the bit-parallel
// figures.
const (
	wonOperations        = 4*4 + 3 + 4           // per direction two shifts and two ands; the ors; the doubled distances
	bitsquaresOperations = 4*2*(5+3+9+3+3+3) + 9 // per direction and side: starts, shifts, adders, masks, counts, sums; the weights
	vectorOperations     = 4*(2*26+3) + 13 + 17  // 512-bit operations for eight positions: sides and shifts of each direction; loads; the weights
)

// Model is a model to measure besides the heuristics: a network of this program, or a model of a service.
type Model struct {
	Name    string
	Network open.Network
	Remote  *eval.Evaluator // the model of a service; nil: Network
}

// Eval measures evaluation, from the win test to whole files. Each round of a figure takes about d.
func Eval(ctx context.Context, d time.Duration, model Model, progress Progress) ([]Figure, error) {
	e := &evalBench{ctx: ctx, d: d, board: game.MustBoard(game.Connect4), progress: progress}
	e.positions = playedPositions(e.board, 1024)
	e.kernels()
	if err := e.evaluators(model); err != nil {
		return nil, err
	}
	return e.figures, e.err
}

type evalBench struct {
	ctx       context.Context
	d         time.Duration
	board     *game.Board
	positions []game.Position
	progress  Progress
	values    float64 // bitsquares values per second on one core
	figures   []Figure
	err       error // first error of an evaluator
}

// playedPositions returns n positions of randomPositions in random order, which branch predictors cannot follow, as with leaves of many
// games.
func playedPositions(b *game.Board, n int) []game.Position {
	ps := randomPositions(b, 1, -1, n)
	slices.SortFunc(ps, func(a, b game.Position) int { return cmp.Compare(a.Hash(), b.Hash()) })
	return ps
}

// randomPositions returns n unfinished positions of pseudo-random games, which depend only on the seed. If plies is -1, it takes every
// position of the games, else the position of each game with this number of plies.
func randomPositions(b *game.Board, seed uint64, plies, n int) []game.Position {
	var ps []game.Position
	var p game.Position
	for x := seed; len(ps) < n; {
		x = x*6364136223846793005 + 1442695040888963407
		a := int(x >> 33 % uint64(b.Actions()))
		if !b.CanPlay(p, a) {
			continue
		}
		if p = b.Play(p, a); b.Result(p) != game.Ongoing {
			p = game.Position{}
		}
		if plies < 0 || p.Plies() == plies {
			ps = append(ps, p)
		}
		if p.Plies() == plies {
			p = game.Position{}
		}
	}
	return ps
}

func (e *evalBench) measure(f Figure, n int, work func()) float64 {
	e.progress.show("%s", f.Name)
	if e.ctx.Err() != nil {
		e.err = e.ctx.Err()
		return 0
	}
	f.Rate = rate(e.d, n, work)
	e.figures = append(e.figures, f)
	return f.Rate
}

// Number of turns of the loops of spin and spinVector, and of the operations in them.
const (
	spinTurns      = 1 << 14
	spinOperations = 16 * spinTurns
)

// spin runs eight independent chains of operations.
func spin(n int) uint64 {
	a, b, c, d, e, f, g, h := uint64(1), uint64(2), uint64(3), uint64(4), uint64(5), uint64(6), uint64(7), uint64(8)
	for range n {
		a, b, c, d, e, f, g, h = a+9, b+3, c+5, d+7, e+9, f+11, g+13, h+15
		a, b, c, d, e, f, g, h = a^0x55, b^0x33, c^0x77, d^0x11, e^0x19, f^0x3b, g^0x5d, h^0x7f
	}
	return a + b + c + d + e + f + g + h
}

// kernels measures the bit-parallel loops on one core.
func (e *evalBench) kernels() {
	e.progress.show("64-bit operations")
	peak := rate(e.d, spinOperations, func() { runtime.KeepAlive(spin(spinTurns)) })
	b, ps := e.board, e.positions
	e.measure(Figure{Name: "win test, 1 core", Unit: "tests", Ceiling: peak / wonOperations, Why: "64-bit operations of one core"}, len(ps), func() {
		won := 0
		for i := range ps {
			if b.Won(ps[i].Own) {
				won++
			}
		}
		runtime.KeepAlive(won)
	})
	h := heuristic.NewBitsquares(heuristic.DefaultPower)
	scores := make([]float64, len(ps))
	e.measure(Figure{Name: "bitsquares one by one, 1 core", Unit: "values", Ceiling: peak / bitsquaresOperations, Why: "64-bit operations of one core"}, len(ps), func() {
		for i := range ps {
			scores[i] = h.Score(b, ps[i])
		}
	})
	f := Figure{Name: "bitsquares, 1 core", Unit: "values"}
	if hasVector {
		f.Ceiling, f.Why = 8*rate(e.d, spinOperations, func() { spinVector(spinTurns) })/vectorOperations, "512-bit operations of one core"
	}
	e.values = e.measure(f, len(ps), func() { h.Scores(b, ps, scores) })
}

// evaluators measures evaluators' answers, and files of answers.
func (e *evalBench) evaluators(model Model) error {
	var all float64 // bitsquares on one core
	for _, h := range heuristic.All() {
		backend, f := h.New(), Figure{Name: h.Source.String() + " with policy, 1 core", Unit: "positions"}
		if h.Source == eval.Bitsquares {
			// A position takes its own value and one for each of at most seven moves.
			f.Ceiling, f.Why = e.values/8, "bitsquares values, 8 a position"
		}
		b := newBatch(e.board, e.positions, len(e.positions))
		r := e.measure(f, len(e.positions), func() {
			if err := backend.Compute(e.ctx, b); err != nil && e.err == nil {
				e.err = err
			}
		})
		if h.Source == eval.Bitsquares {
			all = r * float64(runtime.GOMAXPROCS(0))
		}
	}
	h, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		return err
	}
	var figures []Figure
	if model.Remote != nil {
		figures, err = remote(e.ctx, e.d, model.Remote, model.Name, e.progress)
	} else {
		var of kind
		if of, err = kindOf(model.Name, model.Network); err == nil {
			figures, err = of.onCPU(e.ctx, e.d, model.Name, e.progress)
		}
	}
	if err != nil {
		return err
	}
	e.figures = append(e.figures, figures...)
	const lines = 50_000
	text := []byte(strings.Repeat("44554433\n4455\n12345\n445566123\n-\n", lines/5))
	for _, format := range []struct {
		name string
		new  func() stream.Format
	}{
		{"jsonl", func() stream.Format { return stream.JSONL{W: io.Discard} }},
		{"parquet", func() stream.Format { return stream.NewParquet(io.Discard) }},
	} {
		e.measure(Figure{
			Name: "eval of a file by bitsquares, " + format.name, Unit: "lines",
			Ceiling: all, Why: "the evaluator alone on all cores",
		}, lines, func() {
			job := stream.Job{Evaluator: h, Model: func(game.Rules) string { return "bitsquares" }, Rows: 1024, Workers: runtime.GOMAXPROCS(0)}
			if _, err := stream.Run(e.ctx, bytes.NewReader(text), format.new(), job); err != nil && e.err == nil {
				e.err = err
			}
		})
	}
	return e.err
}
