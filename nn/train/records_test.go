package train

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
	"github.com/evald/evald/engine/selfplay"
	exact "github.com/evald/evald/engine/solver"
)

// writeRecords writes n records whose weights number them from 1 to n.
func writeRecords(t testing.TB, b *game.Board, n int, source eval.Source) string {
	t.Helper()
	all := make([]record.Record, n)
	for i, p := range gametest.Positions(gametest.Rand(1), b, n, true) {
		all[i] = record.Record{
			Rules: b.Rules(), Position: p, Q: 0.5, Z: int8(i%3 - 1), GameOver: b.Result(p).GameOver(), Ply: p.Plies(),
			Source: source, Weight: float32(i + 1),
		}
		if all[i].GameOver == game.NotOver {
			all[i].Visits = make([]uint32, b.Actions())
			for a := range all[i].Visits {
				if b.CanPlay(p, a) {
					all[i].Visits[a] = uint32(1 + a)
				}
			}
		}
	}
	return writeAll(t, all)
}

// Each pass has every record once, in a different order, and any step can be asked for at any time.
func TestRecords(t *testing.T) {
	gametest.OneGoroutine(t)
	b := game.MustBoard(game.Connect4)
	const rows, batch = 3*chunkRows + 100, 644 // 19.24 batches a pass
	path := writeRecords(t, b, rows, eval.Searched)
	open := func() *Records {
		r := gametest.Must(OpenRecords(b, RecordOptions{Seed: 5}, path))(t)
		t.Cleanup(func() { r.Close() })
		return r
	}
	r := open()
	var order []int
	dst := make([]Example, batch)
	for step := range 2*rows/batch + 1 {
		gametest.OK(t, r.Source(step, dst))
		for _, e := range dst {
			order = append(order, int(e.Weight))
		}
	}
	seen := map[int]int{}
	for _, w := range order[:rows] {
		seen[w]++
	}
	if len(seen) != rows {
		t.Errorf("a pass over %d records has %d different ones", rows, len(seen))
	}
	if cmp.Equal(order[:100], order[rows:rows+100]) {
		t.Error("both passes begin with the same records")
	}
	late := open()
	gametest.OK(t, late.Source(21, dst))
	for i, e := range dst {
		if int(e.Weight) != order[21*batch+i] {
			t.Fatalf("example %d of step 21 is record %v when nothing came before it, want %d", i, e.Weight, order[21*batch+i])
		}
	}
}

func TestRecordsConvert(t *testing.T) {
	r := &Records{}
	got := r.convert(&record.Record{Visits: []uint32{0, 3, 1}, Z: -1, GameOver: game.OtherWin, Source: eval.Bitsquares, Weight: 2})
	want := Example{Policy: []float32{0, 0.75, 0.25}, WDL: [3]float32{0, 0, 1}, GameOver: game.OtherWin}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for source, learned := range map[eval.Source]bool{
		eval.CPU: true, eval.Cached: true, eval.Terminal: true, eval.Searched: true, eval.Solved: true, eval.Rules: true, eval.Forced: false, eval.None: false, eval.Rollout: false,
	} {
		if learnable(source) != learned {
			t.Errorf("records of source %v are learned from: %t, want %t", source, !learned, learned)
		}
	}
}

// The target of Gumbel's searches with few visits is the column policy where a record has one, bit for
// bit and also in mirror images, and otherwise the shares of the visits. Training from it leads to
// another network than training from the visits.
func TestPolicyColumn(t *testing.T) {
	c := selfplay.DefaultConfig()
	c.Rules, c.Network, c.Selection, c.Visits, c.FullShare, c.Policy = "4x4x3", "bitsquares", "gumbel", 4, 1, true
	dir := t.TempDir()
	gametest.OK(t, selfplay.Run(t.Context(), gametest.Must(heuristic.New(eval.Bitsquares))(t), c, dir, 20, nil))
	b := game.MustBoard(game.Rules{Columns: 4, Rows: 4, InARow: 3, Gravity: true})
	column, visits := recordtest.Read(t, filepath.Join(dir, "games-000000-000019.parquet")), []record.Record(nil)
	rounded := 0
	for i := range column {
		if column[i].Move%2 == 0 { // some rows have none
			column[i].Policy = nil
		}
		column[i].Weight = float32(i + 1)
		rec := column[i]
		rec.Policy = nil
		visits = append(visits, rec)
	}
	var networks [2][]byte
	for k, records := range [][]record.Record{column, visits} {
		r := gametest.Must(OpenRecords(b, RecordOptions{Heuristics: true}, writeAll(t, records)))(t)
		examples := make([]Example, len(records))
		gametest.OK(t, r.Once(0, examples))
		for symmetry := range 2 {
			batch := NewBatch(b, len(examples))
			images := slices.Clone(examples)
			for i := range images {
				images[i] = images[i].Image(b, symmetry)
			}
			gametest.OK(t, batch.Fill(images))
			for i, e := range examples {
				rec := &records[int(e.Weight)-1]
				want := rec.Policy
				if want == nil {
					want = make([]float32, b.Actions())
					for a, n := range rec.Visits {
						total := uint32(0)
						for _, m := range rec.Visits {
							total += m
						}
						want[a] = float32(float64(n) / float64(total))
					}
				}
				for set := b.Legal(rec.Position); !set.IsZero(); set = set.WithoutFirst() {
					a := b.Action(set.First())
					image := b.Cell(images[i].Position, b.ImageAction(a, symmetry)).First()
					if got := batch.cells.Float32s()[i*b.Cells()+b.Flat(image)]; got != want[a]*e.Weight {
						t.Fatalf("record %d, symmetry %d: target of action %d is %v, want %v", int(e.Weight)-1, symmetry, a, got, want[a]*e.Weight)
					}
					if rec.Policy != nil && math.Abs(float64(want[a])*4-math.Round(float64(want[a])*4)) > 0.1 {
						rounded++
					}
				}
			}
		}
		gametest.OK(t, r.Close())
		tr := newTrainerOf(t, testConfig(), nil, same(examples), Compute{Threads: 1})
		steps(t, tr, 1)
		var err error
		networks[k], _, err = tr.Files()
		gametest.OK(t, err)
	}
	if rounded == 0 || bytes.Equal(networks[0], networks[1]) {
		t.Errorf("%d shares are far from whole visits; the networks are equal: %t", rounded, bytes.Equal(networks[0], networks[1]))
	}
}

// writeScores writes n lines of positions of 4x4x3 whose moves to columns 1 to 4 have the scores -1, 0, 1 and 1.
func writeScores(t *testing.T, n int) string {
	t.Helper()
	b := game.MustBoard(game.Rules{Columns: 4, Rows: 4, InARow: 3, Gravity: true})
	random := gametest.Rand(2)
	var lines strings.Builder
	for range n {
		var p game.Position
		var actions []int
		for range random.IntN(8) {
			if a := random.IntN(4); b.CanPlay(p, a) && b.Result(b.Play(p, a)) == game.Ongoing {
				p, actions = b.Play(p, a), append(actions, a)
			}
		}
		lines.WriteString(game.FormatNotation(b.Rules(), actions))
		for a, s := range []int{-1, 0, 1, 1} {
			if !b.CanPlay(p, a) {
				s = exact.NoMove
			}
			fmt.Fprintf(&lines, " %d", s)
		}
		lines.WriteByte('\n')
	}
	path := filepath.Join(t.TempDir(), "scores")
	gametest.OK(t, os.WriteFile(path, []byte(lines.String()), 0o644))
	return path
}

// Known scores give known targets, in every pass.
func TestSolvedTargets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scores")
	const lines = "44444 -2 1 -2 0 -2 2 2\n444444 -3 -2 -2 -1000 -3 -2 -3\n" + `{"position":"4444445","scores":[-1,0,0,null,0,0,0]}`
	gametest.OK(t, os.WriteFile(path, []byte(lines), 0o644))
	b := game.MustBoard(game.Connect4)
	r := gametest.Must(OpenSolved(b, RecordOptions{Seed: 1}, path))(t)
	defer r.Close()
	const third = float32(1) / 3
	want := map[int]Example{
		5: {WDL: [3]float32{1, 0, 0}, Policy: []float32{0, 0, 0, 0, 0, 0.5, 0.5}, Weight: 1, Solved: true},
		6: {WDL: [3]float32{0, 0, 1}, Policy: []float32{0, third, third, 0, 0, third, 0}, Weight: 1, Solved: true},
		7: {WDL: [3]float32{0, 1, 0}, Policy: []float32{0, 0.2, 0.2, 0, 0.2, 0.2, 0.2}, Weight: 1, Solved: true},
	}
	dst := make([]Example, 3)
	for step := range 3 {
		gametest.OK(t, r.Source(step, dst))
		got := map[int]Example{}
		for _, e := range dst {
			plies := e.Position.Plies()
			if p, _, _ := b.ParseMoves("4444445"[:plies]); p != e.Position {
				t.Errorf("position %+v after %d plies, want %+v", e.Position, plies, p)
			}
			e.Position = game.Position{}
			got[plies] = e
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("step %d: %s", step, d)
		}
	}
}

// The targets of win, draw and loss. All numbers are exact in float32.
func TestQShare(t *testing.T) {
	for _, c := range []struct {
		share float64
		z     int8
		q     float32
		want  [3]float32
	}{
		{0, 1, -0.5, [3]float32{1, 0, 0}},
		{0, 0, 1, [3]float32{0, 1, 0}},
		{1, 1, -0.25, [3]float32{0, 0.75, 0.25}},
		{1, -1, 1, [3]float32{1, 0, 0}},
		{0.5, 1, 0.5, [3]float32{0.75, 0.25, 0}},
		{0.25, -1, 0.5, [3]float32{0.125, 0.125, 0.75}},
		{0.75, -1, -0.5, [3]float32{0, 0.375, 0.625}},
	} {
		r := &Records{options: RecordOptions{QShare: c.share}, ends: rates([foretoldSteps + 1][3]float64{})}
		e := r.convert(&record.Record{Q: c.q, Z: c.z, Source: eval.Searched, Weight: 1})
		if e.WDL != c.want {
			t.Errorf("share %v, outcome %d, value %v: target %v, want %v", c.share, c.z, c.q, e.WDL, c.want)
		}
		r.ends = foretold{} // which a proof does without
		e = r.convert(&record.Record{Q: float32(c.z), Z: c.z, Source: eval.Solved, Weight: 1})
		if want := [...][3]float32{{0, 0, 1}, {0, 1, 0}, {1, 0, 0}}[1+c.z]; e.WDL != want {
			t.Errorf("share %v, proved %d: target %v, want %v", c.share, c.z, e.WDL, want)
		}
	}
	for _, share := range []float64{-0.001, 1.001, math.NaN(), math.Inf(1)} {
		if _, err := OpenRecords(game.MustBoard(game.Connect4), RecordOptions{QShare: share}); err == nil || !strings.Contains(err.Error(), "q share is") {
			t.Errorf("share %v: error %v", share, err)
		}
		c := testConfig()
		c.QShare = share
		if _, _, err := c.Validate(); err == nil || !strings.Contains(err.Error(), "q share is") {
			t.Errorf("share %v in the configuration: error %v", share, err)
		}
	}
}

// What a value foretells is how the records' games with that value ended, for either side.
func TestForetold(t *testing.T) {
	gametest.OneGoroutine(t)
	b := game.MustBoard(game.Connect4)
	var all []record.Record
	// Of the games with |q| = 0.5 the side ahead wins 7 of 10, draws 2 and loses 1. Of those with q = 0 half are drawn and
	// half are won.
	for i := range 40_000 {
		rec := record.Record{Rules: b.Rules(), Q: 0.5, Z: []int8{1, 1, 1, 1, 1, 1, 1, 0, 0, -1}[i%10], Source: eval.CPU, Weight: 1, Visits: []uint32{1, 0, 0, 0, 0, 0, 0}}
		switch i / 10 % 4 {
		case 1:
			rec.Q, rec.Z = -rec.Q, -rec.Z
		case 2:
			rec.Q, rec.Z = 0, int8(i%2)
		case 3: // does not count
			rec.Source, rec.Z = []eval.Source{eval.Bitsquares, eval.Solved}[i/40%2], -1
		}
		all = append(all, rec)
	}
	r := gametest.Must(OpenRecords(b, RecordOptions{QShare: 1}, writeAll(t, all)))(t)
	defer r.Close()
	for q, want := range map[float32][3]float32{
		0.5: {0.7, 0.2, 0.1}, -0.5: {0.1, 0.2, 0.7}, 0: {0.25, 0.5, 0.25}, 1: {1, 0, 0}, -1: {0, 0, 1}, // no record has q = 1
		0.5125: {0.6125, 0.3375, 0.05}, // halfway to 0.525, which no record has
	} {
		for k, p := range r.ends.wdl(q) {
			if math.Abs(float64(p-want[k])) > 0.001 {
				t.Errorf("q = %v foretells %v, want %v", q, r.ends.wdl(q), want)
				break
			}
		}
	}
}

func TestRecordsRefuses(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	dst := make([]Example, 4)
	for want, open := range map[string]func() (*Records, error){
		"10 were answered by heuristics": func() (*Records, error) {
			return OpenRecords(b, RecordOptions{Seed: 1}, writeRecords(t, b, 10, eval.Bitsquares))
		},
		"a run learns one game": func() (*Records, error) {
			return OpenRecords(b, RecordOptions{Seed: 1, Heuristics: true}, writeRecords(t, game.MustBoard(game.TicTacToe), 10, eval.CPU))
		},
		"there are none": func() (*Records, error) {
			return OpenRecords(b, RecordOptions{Seed: 1, Heuristics: true}, writeRecords(t, b, 0, eval.CPU))
		},
	} {
		r, err := open()
		if err == nil {
			err = r.Source(0, dst)
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
	if _, err := OpenSolved(b, RecordOptions{Seed: 1}, writeScores(t, 20)); err == nil || !strings.Contains(err.Error(), ": line 1 is of 4x4x3, and the run is one of 7x6x4") {
		t.Errorf("scores of another game: error %v", err)
	}
	r := gametest.Must(OpenRecords(b, RecordOptions{Seed: 1, Heuristics: true}, writeRecords(t, b, 10, eval.Bitsquares)))(t)
	defer r.Close()
	if r.Ignored != 0 || r.Count != 10 || r.Rows() != 10 {
		t.Errorf("of %d examples %d are ignored and %d count, want 0 and 10 of 10", r.Rows(), r.Ignored, r.Count)
	}
	if err := WithRules(r.Source, b, 1)(0, make([]Example, 16)); err != nil {
		t.Error(err)
	}
}
