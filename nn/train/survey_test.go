package train

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
)

// gameRecords are the records of n random games on 7x6. Their weights number the records from 1.
func gameRecords(n int) (all []record.Record) {
	b, random := game.MustBoard(game.Connect4), gametest.Rand(4)
	for number := range n {
		var p game.Position
		for over := false; !over; {
			rec := record.Record{
				Rules: b.Rules(), Position: p, GameOver: b.Result(p).GameOver(), Z: int8(number%3 - 1), Ply: p.Plies(), Source: eval.CPU,
				Weight: float32(len(all) + 1), Game: int64(number),
			}
			if over = rec.GameOver != game.NotOver; over {
				rec.Z = [...]int8{game.OwnWin: 1, game.OtherWin: -1, game.Drawn: 0}[rec.GameOver]
			} else {
				legal := b.Legal(p)
				move := b.Action(legal.Nth(random.IntN(legal.OnesCount())).First())
				rec.Move, rec.Visits = uint8(move+1), make([]uint32, b.Actions())
				rec.Visits[move] = 1
				p = b.Play(p, move)
			}
			all = append(all, rec)
		}
	}
	return all
}

func writeAll(t testing.TB, records []record.Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.parquet")
	recordtest.Write(t, path, records)
	return path
}

func openSplit(t *testing.T, seed uint64, share float64, paths ...string) *Records {
	t.Helper()
	r := gametest.Must(OpenRecords(game.MustBoard(game.Connect4), RecordOptions{Seed: seed, HeldOut: share, Heuristics: true}, paths...))(t)
	t.Cleanup(func() { r.Close() })
	return r
}

// weights counts the records' weights in one pass by Once, and in two passes by Source.
func weights(t *testing.T, r *Records) (once, twice map[int]int) {
	t.Helper()
	once, twice = map[int]int{}, map[int]int{}
	const batch = 100
	dst := make([]Example, batch)
	for step := range int(r.Rows())/batch + 2 {
		gametest.OK(t, r.Once(step, dst))
		for i, e := range dst {
			if at := int64(step*batch + i); at < r.Rows() {
				once[int(e.Weight)]++
			} else if e.Weight != 0 || e.GameOver >= 0 {
				t.Fatalf("behind the last example comes %+v", e)
			}
		}
	}
	for step := range int(2 * r.Rows() / batch) {
		gametest.OK(t, r.Source(step, dst))
		for _, e := range dst {
			twice[int(e.Weight)]++
		}
	}
	return once, twice
}

// Whole games are held out, by their numbers: the same ones for the same seed, in any order of the records. No pass learns
// from them, and every pass learns from all others.
func TestHeldOut(t *testing.T) {
	if gametest.Race {
		t.Skip("10 s under the race detector, and TestSurveyWithoutHeldOut surveys in the same goroutines")
	}
	const games = 600
	rs := gameRecords(games)
	gameOf := map[int]int64{}
	for _, rec := range rs {
		gameOf[int(rec.Weight)] = rec.Game
	}
	shuffled := slices.Clone(rs)
	gametest.Rand(5).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	in, mixed := writeAll(t, rs), writeAll(t, shuffled)
	held := func(seed uint64, share float64, path string) map[int64]bool {
		r := openSplit(t, seed, share, path)
		learned, twice := weights(t, r)
		out, _ := weights(t, r.HeldOut())
		if len(learned)+len(out) != len(rs) || int(r.Rows()) != len(learned) || int(r.HeldOut().Rows()) != len(out) {
			t.Errorf("%d records are learned from and %d held out, of %d", len(learned), len(out), len(rs))
		}
		games := map[int64]bool{}
		for w := range out {
			games[gameOf[w]] = true
		}
		for w := range learned {
			if games[gameOf[w]] {
				t.Fatalf("game %d is learned from and held out", gameOf[w])
			}
		}
		for w := range twice {
			if learned[w] != 1 {
				t.Fatalf("record %d is in two passes %d times, in one %d times", w, twice[w], learned[w])
			}
		}
		return games
	}
	first := held(1, 0.25, in)
	if diff := cmp.Diff(first, held(1, 0.25, mixed)); diff != "" {
		t.Errorf("the same records in another order (-first +other):\n%s", diff)
	}
	if maps.Equal(first, held(2, 0.25, in)) {
		t.Error("another seed holds out the same games")
	}
	for _, share := range []float64{0.02, 0.25, 0.5} {
		n := float64(len(held(3, share, in)))
		if want, spread := share*games, math.Sqrt(share*(1-share)*games); math.Abs(n-want) > 4*spread {
			t.Errorf("%v of %d games are held out, want about %v", n, games, want)
		}
	}
	if r := openSplit(t, 1, 0, in); r.HeldOut() != nil || int(r.Rows()) != len(rs) {
		t.Errorf("without a share %d of %d records are learned from", r.Rows(), len(rs))
	}
}

// The rows of a game stay together even if they have no number.
func TestHeldOutUnnumbered(t *testing.T) {
	gametest.OneGoroutine(t)
	rs := gameRecords(300)
	gameOf := map[int]int64{}
	for i := range rs {
		gameOf[int(rs[i].Weight)] = rs[i].Game
		rs[i].Game, rs[i].Move = record.NoGame, 0
	}
	r := openSplit(t, 1, 0.3, writeAll(t, rs))
	out, _ := weights(t, r.HeldOut())
	games := map[int64]bool{}
	for w := range out {
		games[gameOf[w]] = true
	}
	for _, rec := range rs {
		if games[gameOf[int(rec.Weight)]] != (out[int(rec.Weight)] == 1) {
			t.Fatalf("record %v of game %d is alone on its side", rec.Weight, gameOf[int(rec.Weight)])
		}
	}
	if len(games) < 60 || len(games) > 120 {
		t.Errorf("%d of 300 games are held out, want about 90", len(games))
	}
}

// Games that are held out do not influence what a value foretells.
func TestSurveyWithoutHeldOut(t *testing.T) {
	if gametest.Race {
		t.Skip("TestSurveyRefuses reads files in the same goroutines")
	}
	rs := gameRecords(200)
	b := game.MustBoard(game.Connect4)
	options := RecordOptions{Seed: 1, HeldOut: 0.4, QShare: 0.5}
	rates := func() foretold {
		r := gametest.Must(OpenRecords(b, options, writeAll(t, rs)))(t)
		defer r.Close()
		if r.heldOut.ends != r.ends {
			t.Error("the targets of what is held out are by other rates")
		}
		return r.ends
	}
	before := rates()
	r := openSplit(t, options.Seed, options.HeldOut, writeAll(t, rs))
	out, _ := weights(t, r.HeldOut())
	change := func(held bool) {
		for i := range rs {
			if rs[i].GameOver == game.NotOver && (out[int(rs[i].Weight)] == 1) == held {
				rs[i].Z = 1
			}
		}
	}
	change(true)
	if rates() != before {
		t.Error("outcomes of games that are held out have changed what a value foretells")
	}
	change(false)
	if rates() == before {
		t.Error("no outcome changes what a value foretells")
	}
}

// Any fault in the files is reported when they are opened, with its place.
func TestSurveyRefuses(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	good := gameRecords(400)
	other := slices.Clone(good)
	other[len(other)-2].Rules = game.Rules{Columns: 9, Rows: 6, InARow: 4, Gravity: true}
	other[len(other)-2].Position, other[len(other)-2].Ply, other[len(other)-2].Visits, other[len(other)-2].Move = game.Position{}, 0, nil, 0
	first, second := writeAll(t, good), writeAll(t, other)
	want := fmt.Sprintf("records %s: row %d is of 9x6x4, and the run is one of 7x6x4: a run learns one game, give its rules or other files", second, len(other)-2)
	if _, err := OpenRecords(b, RecordOptions{}, first, second); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	file := gametest.Must(os.ReadFile(second))(t)
	file[len(file)/2] ^= 1
	gametest.OK(t, os.WriteFile(second, file, 0o644))
	if _, err := OpenRecords(b, RecordOptions{}, first, second); err == nil || !strings.HasPrefix(err.Error(), "records "+second+": the file is damaged: its checksum is ") {
		t.Errorf("a damaged file: error %v", err)
	}
	for _, share := range []float64{-0.1, 1, math.NaN()} {
		if _, err := OpenRecords(b, RecordOptions{HeldOut: share}, first); err == nil || !strings.Contains(err.Error(), "share that is held out is") {
			t.Errorf("share %v: error %v", share, err)
		}
	}
}

// Held-out examples are measured with the network as it is saved, and do not change it.
func TestMeasureHeldOut(t *testing.T) {
	const n = 1500
	source, by, with := testSource(testConfig()), Compute{Threads: 2}, t.TempDir()
	r := openRun(t, with, source, by)
	examples := randomExamples(99, r.lessons[0].Board, n)
	r.HeldOut = [][]Example{examples}
	gametest.OK(t, r.Train(t.Context(), time.Hour, nil))
	without := wholeRun(t, source, by)
	if !bytes.Equal(read(t, with, NetworkFile), read(t, without, NetworkFile)) || !bytes.Equal(read(t, with, CheckpointFile), read(t, without, CheckpointFile)) {
		t.Error("the network is another")
	}
	metrics := gametest.Must(ReadMetrics(filepath.Join(with, MetricsFile)))(t)
	blank := append(slices.Clone(examples), slices.Repeat([]Example{{GameOver: -1}}, 2*measureBatch-n)...)
	want, err := Measure(t.Context(), r.Network(), r.lessons[0].Board, func(step int, dst []Example) error {
		copy(dst, blank[step*len(dst):])
		return nil
	}, len(blank), testConfig().Weights, nil)
	if err != nil {
		t.Fatal(err)
	}
	classes := 0
	for _, e := range examples {
		if e.GameOver >= 0 && e.Weight > 0 {
			classes++
		}
	}
	if want.GameOver.Count() != classes {
		t.Errorf("%d rows were measured, want %d", want.GameOver.Count(), classes)
	}
	last := metrics[len(metrics)-1]
	if last.HeldOut == nil {
		t.Fatal("the last line of the metrics has nothing of what is held out")
	}
	if diff := cmp.Diff(want.Heads(), *last.HeldOut); diff != "" {
		t.Errorf("the saved network (-measured +metrics):\n%s", diff)
	}
	tags := map[string]bool{}
	for _, s := range last.scalars() {
		tags[s.Tag] = true
	}
	for _, tag := range []string{"loss/wdl", "loss/wdl, held out", "accuracy/policy, held out", "accuracy/gameover, held out"} {
		if !tags[tag] {
			t.Errorf("no curve %q", tag)
		}
	}
}

// However few steps lie between two lines of the metrics, at least 30 examples are learned from for each one measured.
func TestLinesBetween(t *testing.T) {
	for _, c := range []struct{ held, batch, every, want int }{
		{2048, 1024, 11, 6}, {2048, 1024, 1, 60}, {1, 1024, 1, 30}, {1024, 1 << 16, 1, 1}, {1025, 512, 100, 2}, {2048, 32, 1, 1920},
	} {
		r := &Folder{config: Config{Batch: c.batch}, HeldOut: [][]Example{nil, make([]Example, c.held)}}
		if got := r.linesBetween(c.every); got != c.want {
			t.Errorf("%+v: every %d lines", c, got)
		}
	}
}
