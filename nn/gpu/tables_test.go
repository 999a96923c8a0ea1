package gpu

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu/pattern"
	"github.com/evald/evald/kernels/cuda"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/pattern"
)

// Every kernel for tables gives the bits of plain Go on the CPU: with networks that fill its lanes and with padded ones, rows of bytes with
// large factors and rows of words, full and part-filled last warps, few positions a warp and many, in any order of warps. The shipped
// network answers positions of all kinds; a million of them in make soak. Each day has half of the kernels.
func TestTablesAreTheCPUs(t *testing.T) {
	e := emulator(t)
	board := game.MustBoard(game.Connect4)
	r := gametest.Rand(3)
	few := append(gametest.Open(r, board, 44), game.Position{})
	for i, test := range []struct {
		lanes, h1, h2 int
		words         bool
		on            Target
		kernel        string
	}{
		{64, 16, 16, false, turing, "tables_128"},
		{128, 48, 32, true, turing, "tables_128_words"},
		{256, 256, 208, false, hopper, "tables_256"},
		{160, 32, 64, true, turing, "tables_256_words"},
		{288, 16, 128, false, geforce, "tables_512"},
		{512, 64, 32, true, hopper, "tables_512_words"},
	} {
		if !gametest.Today(t, i, 2) {
			continue
		}
		t.Run(test.kernel, func(t *testing.T) {
			n := randomTables(t, uint64(i), test.lanes, test.h1, test.h2, test.words)
			p := gametest.Must(planTables(ofTables(n), game.Connect4, test.on))(t)
			if p.Kernel.Name != test.kernel {
				t.Fatalf("%s is planned for %s, want %s", n, p.Kernel.Name, test.kernel)
			}
			weights := packTables(p.tables, n)
			for _, d := range []struct {
				positions int
				emulated
			}{{len(few), emulated{blocks: 1, processors: 1, order: 1}}, {41, emulated{processors: 2, order: 9}}, {1, emulated{processors: 132}}} {
				sameAsCPU(t, board, n, p, few[len(few)-d.positions:], emulate(t, e, p, weights, few[len(few)-d.positions:], d.emulated))
			}
		})
	}
	t.Run("shipped", func(t *testing.T) {
		n, count := shippedTables(t), 400
		if gametest.Soak() {
			count = 340_000
		}
		p := gametest.Must(planTables(ofTables(n), game.Connect4, hopper))(t)
		weights := packTables(p.tables, n)
		for i, pos := range [][]game.Position{
			gametest.Positions(gametest.Rand(4), board, count, true),
			gametest.Open(gametest.Rand(5), board, count),
			late(gametest.Rand(6), board, count),
		} {
			sameAsCPU(t, board, n, p, pos, emulate(t, e, p, weights, pos, emulated{blocks: 4, processors: 2, order: uint32(i)}))
		}
	})
}

// turing is a card for games of the oldest architecture that the kernels for tables run on.
var turing = Target{7, 5, 64 << 10, 40}

func shippedTables(t testing.TB) *pattern.Network {
	t.Helper()
	file, _, err := models.Open("default-fast")
	gametest.OK(t, err)
	return gametest.Must(pattern.Parse(file))(t)
}

// late returns unfinished positions with at least 28 stones.
func late(r *rand.Rand, board *game.Board, n int) []game.Position {
	all := make([]game.Position, 0, n)
	for len(all) < n {
		if p := gametest.Position(r, board, 30+r.IntN(12), true); p.Plies() >= 28 {
			all = append(all, p)
		}
	}
	return all
}

// randomTables returns a network with random rows: bytes times factors up to 255, or with words also a row that is no such product.
func randomTables(t testing.TB, seed uint64, lanes, h1, h2 int, words bool) *pattern.Network {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	w := kernel.Random(r, 1, lanes, h1, h2)
	w.Table = make([]int16, pattern.RowCount()*lanes)
	for row := range slices.Chunk(w.Table, lanes) {
		factor := 1 + r.IntN(255)
		most := min(127, 900/factor)
		for i := range row {
			row[i] = int16(factor * (r.IntN(2*most+1) - most))
		}
	}
	if words {
		for row := range slices.Chunk(w.Table, lanes) {
			row[0], row[1] = int16(r.IntN(1801)-900), 1
		}
	}
	return gametest.Must(pattern.New(*w))(t)
}

// emptyTables returns a network of zeros.
func emptyTables(t testing.TB, lanes, h1, h2 int) *pattern.Network {
	t.Helper()
	w := kernel.Random(rand.New(rand.NewPCG(1, 1)), 1, lanes, h1, h2)
	w.Table = make([]int16, pattern.RowCount()*lanes)
	return gametest.Must(pattern.New(*w))(t)
}

// sameAsCPU compares the kernel's rows with plain Go's answers, bit for bit.
func sameAsCPU(t *testing.T, board *game.Board, n *pattern.Network, p plan, pos []game.Position, rows []byte) {
	t.Helper()
	want := eval.NewBatch(board, len(pos))
	copy(want.Pos, pos)
	gametest.OK(t, gametest.Must(pattern.NewBackendPath(n, kernel.Go))(t).Compute(context.Background(), want))
	got := read(t, p, board, pos, rows)
	for i := range pos {
		if !sameBits(got.WDLRow(i), want.WDLRow(i)) || !sameBits(got.PolicyRow(i), want.PolicyRow(i)) || got.Source[i] != eval.GPU {
			t.Fatalf("%s, position %d of %d, %s: %v %v, want %v %v", p.Kernel.Name, i, len(pos), board.Text(pos[i]), got.WDLRow(i), got.PolicyRow(i), want.WDLRow(i), want.PolicyRow(i))
		}
	}
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// Answers that no kernel gives are errors that name the row: memory that was not written, and numbers that are no probabilities.
func TestTablesAnswersDamaged(t *testing.T) {
	gametest.OneGoroutine(t)
	p := gametest.Must(planTables(ofTables(emptyTables(t, 64, 16, 16)), game.Connect4, turing))(t)
	board := game.MustBoard(game.Connect4)
	whole := make([]byte, tablesAnswer)
	whole[3] = 0xc0 // a probability of 0, with the mark
	b := eval.NewBatch(board, 1)
	gametest.OK(t, p.ReadAnswer(b, 0, whole))
	for _, test := range []struct {
		at    int
		value [4]byte
	}{
		{0, [4]byte{}},                        // no mark
		{0, [4]byte{0xcd, 0xcd, 0xcd, 0x8d}},  // another one
		{0, [4]byte{1, 0, 0x80, 0xff}},        // more than 1
		{4, [4]byte{0, 0, 0, 0x80}},           // negative
		{12, [4]byte{0, 0, 0xc0, 0x7f}},       // NaN
		{36, [4]byte{0xcd, 0xcd, 0xcd, 0xcd}}, // not written
	} {
		row := slices.Clone(whole)
		copy(row[test.at:], test.value[:])
		if err := p.ReadAnswer(b, 0, row); err == nil {
			t.Errorf("byte %d is %x: no error", test.at, test.value)
		}
	}
}

// Networks for which there is no kernel are errors that say what can be done.
func TestTablesWithoutKernel(t *testing.T) {
	gametest.OneGoroutine(t)
	n := emptyTables(t, 64, 16, 16)
	for name, test := range map[string]struct {
		n  *pattern.Network
		r  game.Rules
		on Target
	}{
		"another board":       {n, game.Rules{Rows: 6, Columns: 7, InARow: 5, Gravity: true}, hopper},
		"too old a GPU":       {n, game.Connect4, Target{7, 0, 96 << 10, 80}},
		"too few bytes":       {emptyTables(t, 64, 256, 256), game.Connect4, turing},
		"more lanes than any": {emptyTables(t, 544, 16, 16), game.Connect4, hopper},
	} {
		if p, err := planTables(ofTables(test.n), test.r, test.on); err == nil {
			t.Errorf("%s: %s", name, p.Kernel.Name)
		}
	}
	for _, k := range cuda.TablesKernels() {
		if want := fmt.Sprintf("tables_%d", k.Lanes); k.Name[:len(want)] != want {
			t.Errorf("kernel %s has %d lanes", k.Name, k.Lanes)
		}
	}
}
