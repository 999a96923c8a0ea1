package record_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/record/recordtest"
)

// sources are all that a record can have.
var sources = func() []eval.Source {
	all := []eval.Source{eval.None, eval.GPU, eval.CPU, eval.Cached, eval.Terminal, eval.Searched, eval.Solved, eval.Rules, eval.Forced}
	for _, h := range heuristic.All() {
		all = append(all, h.Source)
	}
	return all
}()

// records draws n valid records of all boards.
func records(seed uint64, n int) []record.Record {
	r := gametest.Rand(seed)
	boards := gametest.Boards()
	rs := make([]record.Record, n)
	for i := range rs {
		b := boards[r.IntN(len(boards))]
		p := gametest.Position(r, b, r.IntN(b.Cells()+1), false)
		rec := record.Record{
			Rules: b.Rules(), Position: p, GameOver: b.Result(p).GameOver(), Ply: p.Plies(), Q: 2*r.Float32() - 1, Z: int8(r.IntN(3) - 1),
			Source: sources[r.IntN(len(sources))], Network: []string{"", "default@3", "ü"}[r.IntN(3)], Weight: r.Float32(),
			Game: r.Int64N(1<<r.IntN(63)) + record.NoGame,
		}
		switch {
		case rec.GameOver != game.NotOver:
			rec.Z = [...]int8{game.OwnWin: 1, game.OtherWin: -1, game.Drawn: 0}[rec.GameOver]
		case r.IntN(4) > 0:
			rec.Visits = make([]uint32, b.Actions())
			for legal := b.Legal(p); !legal.IsZero(); legal = legal.WithoutFirst() {
				rec.Visits[b.Action(legal.First())] = 1 + r.Uint32()/2
			}
			rec.Move = uint8(1 + b.Action(b.Legal(p).Nth(r.IntN(b.Legal(p).OnesCount())).First()))
		}
		rs[i] = rec
	}
	return rs
}

// addPolicies gives most of the records with visits a policy.
func addPolicies(rs []record.Record) {
	r := gametest.Rand(uint64(len(rs)))
	for i := range rs {
		if len(rs[i].Visits) == 0 || r.IntN(4) == 0 {
			continue
		}
		total := 0.0
		rs[i].Policy = make([]float32, len(rs[i].Visits))
		for _, n := range rs[i].Visits {
			total += float64(n)
		}
		for a, n := range rs[i].Visits {
			rs[i].Policy[a] = float32(float64(n) / total)
		}
	}
}

func open(t testing.TB, paths ...string) *record.Reader {
	t.Helper()
	r := gametest.Must(record.Open(paths...))(t)
	t.Cleanup(func() { r.Close() })
	return r
}

// same compares records that were read twice. It takes a tenth of the time of package cmp.
func same(a, b []record.Record) bool {
	return slices.EqualFunc(a, b, func(x, y record.Record) bool { return reflect.DeepEqual(x, y) })
}

// What is written to one or more files comes back in order, from any row on.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	if err := flag.Set("rapid.checks", "30"); err != nil { // each writes up to two files to the disk
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		var all []record.Record
		var paths []string
		for i, n := range rapid.SliceOfN(rapid.IntRange(0, 600), 0, 2).Draw(rt, "rows") {
			rs := records(rapid.Uint64().Draw(rt, "seed"), n)
			if rapid.Bool().Draw(rt, "policies") {
				addPolicies(rs)
			}
			path := filepath.Join(dir, fmt.Sprintf("%d.parquet", i))
			recordtest.Write(t, path, rs)
			all, paths = append(all, rs...), append(paths, path)
		}
		r := open(t, paths...)
		defer r.Close()
		if r.Rows() != int64(len(all)) {
			rt.Fatalf("Rows is %d, want %d", r.Rows(), len(all))
		}
		read := recordtest.Rest(t, r)
		if diff := cmp.Diff(all, read, cmpopts.EquateEmpty()); diff != "" {
			rt.Fatal(diff)
		}
		for range 3 {
			from := rapid.IntRange(0, len(all)).Draw(rt, "from")
			gametest.OK(t, r.SeekRow(int64(from)))
			if again := recordtest.Rest(t, r); !same(again, read[from:]) {
				rt.Fatalf("from row %d: %s", from, cmp.Diff(read[from:], again))
			}
		}
	})
}

// More rows than a row group holds: the count, the seek and the memory.
func TestLargeFile(t *testing.T) {
	const n, different = 140_000, 1000
	rs := records(1, different)
	path := filepath.Join(t.TempDir(), "large.parquet")
	w := gametest.Must(record.Create(path))(t)
	base, peak := heap(), uint64(0)
	for i := range n {
		rs[i%different].Weight = float32(i)
		gametest.OK(t, w.Write(&rs[i%different]))
		if i%20_000 == 0 {
			peak = max(peak, heap())
		}
	}
	gametest.OK(t, w.Close())
	r := open(t, path, path)
	if r.Rows() != 2*n {
		t.Fatalf("Rows is %d, want %d", r.Rows(), 2*n)
	}
	var rec record.Record
	for i := range 2 * n {
		gametest.OK(t, r.Next(&rec))
		if rec.Weight != float32(i%n) {
			t.Fatalf("row %d has weight %v", i, rec.Weight)
		}
		if i%20_000 == 0 {
			peak = max(peak, heap())
		}
	}
	// A row group of 65536 rows is under 8 MiB in memory.
	if grown := int64(peak) - int64(base); grown > 64<<20 {
		t.Errorf("%d MiB of heap in use, want less than 64", grown>>20)
	}
	for _, at := range []int64{0, 65535, 65536, 131_072, n - 1, n, n + 70_000, 2*n - 1} {
		gametest.OK(t, r.SeekRow(at))
		if err := r.Next(&rec); err != nil || rec.Weight != float32(at%n) {
			t.Errorf("row %d has weight %v, error %v", at, rec.Weight, err)
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

func TestSeekRowRange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	recordtest.Write(t, path, records(1, 3))
	r := open(t, path)
	for _, n := range []int64{-1, 4} {
		if err := r.SeekRow(n); err == nil || err.Error() != fmt.Sprintf("records: no row %d: there are 3", n) {
			t.Errorf("SeekRow(%d): %v", n, err)
		}
	}
	if got := len(recordtest.Rest(t, r)); got != 3 {
		t.Errorf("%d records after refused seeks, want 3", got)
	}
}

// connect4 is a good record on 7x6: columns 4, 4, 5 were played.
func connect4() record.Record {
	b := game.MustBoard(game.Connect4)
	p, _, err := b.ParseMoves("445")
	if err != nil {
		panic(err)
	}
	return record.Record{
		Rules: game.Connect4, Position: p, Visits: []uint32{1, 2, 3, 4, 5, 6, 7}, Q: 0.5, Z: 1, Ply: 3, Source: eval.Searched, Weight: 1, Game: 12, Move: 7,
	}
}

// bad are records with one wrong value and the error that names it.
var bad = []struct {
	name   string
	change func(*record.Record)
	want   string
}{
	{"rules", func(r *record.Record) { r.Rules.Rows = 0 }, `column rules is "7x0x4", rows "0": must be 1 or more`},
	{"outside", func(r *record.Record) { r.Position.All.Lo |= 1 << 6 }, "column all_lo is 0x10600040, but bit 6 is no cell of 7x6x4"},
	{"outside, high", func(r *record.Record) { r.Position.All.Hi = 1 }, "column all_hi, all_lo is 0x1, 0x10600000, but bit 64 is no cell of 7x6x4"},
	{"own alone", func(r *record.Record) { r.Position.Own.Lo |= 1 }, "column own_lo is 0x400001, but bit 0 is not among all stones"},
	{"turns", func(r *record.Record) { r.Position.Own = game.Bits{} }, "column own_lo is 0x0, but 0 stones against 3 cannot come of moves in turn"},
	{"the other's turn", func(r *record.Record) { r.Position.Own = r.Position.Other() }, "column own_lo is 0x10200000, but 2 stones against 1 cannot come of moves in turn"},
	{"a line of the side to move", func(r *record.Record) { play(r, "12121272"); r.Position.Own = r.Position.Other() }, "column own_lo is 0x780, but the side to move has a line, and the game was over before"},
	{"floats", func(r *record.Record) { r.Position.All.Lo |= 1 << 36; r.Position.Own.Lo |= 1 << 36 }, "column all_lo is 0x1010600000, but the stone of bit 36 floats"},
	{"visits, length", func(r *record.Record) { r.Visits = r.Visits[:6] }, "column visits is of 6 actions, but 7x6x4 has 7"},
	{"visits, none", func(r *record.Record) { clear(r.Visits) }, "column visits is [0 0 0 0 0 0 0], which is no policy; leave them empty"},
	{"visits, illegal", fullColumn, "column visits is [0 0 0 9 0 0 0], but action 3 is illegal"},
	{"visits, over", func(r *record.Record) { over(r); r.Visits = make([]uint32, 7) }, "column visits is [0 0 0 0 0 0 0], but the game is over (loss); leave it empty"},
	{"q", func(r *record.Record) { r.Q = -1.5 }, "column q is -1.5, must be -1 to 1"},
	{"q NaN", func(r *record.Record) { r.Q = float32(math.NaN()) }, "column q is NaN, must be -1 to 1"},
	{"z", func(r *record.Record) { r.Z = 2 }, "column z is 2, must be 1, 0 or -1"},
	{"z, over", func(r *record.Record) { over(r); r.Z = 1 }, "column z is 1, but the game is over (loss)"},
	{"gameover", func(r *record.Record) { r.GameOver = 1 }, "column gameover is 1, but the position's class is 0 (ongoing)"},
	{"gameover, range", func(r *record.Record) { r.GameOver = 200 }, "column gameover is 200, but the position's class is 0 (ongoing)"},
	{"ply", func(r *record.Record) { r.Ply = 4 }, "column ply is 4, but 3 stones are on the board"},
	{"source", func(r *record.Record) { r.Source = "nobody" }, `column source is "nobody", which is unknown`},
	{"network", func(r *record.Record) { r.Network = "\xff" }, `column network is "\xff", must be UTF-8 of at most 255 bytes`},
	{"weight", func(r *record.Record) { r.Weight = -1 }, "column weight is -1, must be a finite number from 0"},
	{"weight NaN", func(r *record.Record) { r.Weight = float32(math.NaN()) }, "column weight is NaN, must be a finite number from 0"},
	{"game", func(r *record.Record) { r.Game = -2 }, "column game is -2, must be a number from 0, or -1 where there is none"},
	{"move", func(r *record.Record) { r.Move = 8 }, "column move is 8, which is illegal here: moves count from 1, and 0 is none"},
	{"move, illegal", func(r *record.Record) { fullColumn(r); r.Visits, r.Move = nil, 4 }, "column move is 4, which is illegal here: moves count from 1, and 0 is none"},
	{"move, over", func(r *record.Record) { over(r); r.Move = 3 }, "column move is 3, but the game is over (loss): want 0"},
	{"policy, length", policy(0.5, 0.5), "column policy is of 2 actions, but 7x6x4 has 7"},
	{"policy, NaN", policy(0.5, 0, 0.5, float32(math.NaN()), 0, 0, 0), "column policy is [0.5 0 0.5 NaN 0 0 0], but action 3 has NaN: must be 0 to 1"},
	{"policy, negative", policy(0.5, 0, 0.75, -0.25, 0, 0, 0), "column policy is [0.5 0 0.75 -0.25 0 0 0], but action 3 has -0.25: must be 0 to 1"},
	{"policy, too much", policy(0, 0, 2, 0, 0, 0, 0), "column policy is [0 0 2 0 0 0 0], but action 2 has 2: must be 0 to 1"},
	{"policy, sum", policy(0, 0, 0.5, 0.25, 0, 0, 0), "column policy is [0 0 0.5 0.25 0 0 0], which sums to 0.75, must be 1"},
	{"policy, none", policy(0, 0, 0, 0, 0, 0, 0), "column policy is [0 0 0 0 0 0 0], which sums to 0, must be 1"},
	{"policy, illegal", func(r *record.Record) {
		fullColumn(r)
		r.Visits[3], r.Visits[2], r.Move, r.Policy = 0, 1, 0, []float32{0, 0, 0, 1, 0, 0, 0}
	}, "column policy is [0 0 0 1 0 0 0], but action 3 is illegal"},
	{"policy, over", func(r *record.Record) { over(r); r.Policy = make([]float32, 7) }, "column policy is [0 0 0 0 0 0 0], but the game is over (loss); leave it empty"},
	{"weight infinite", func(r *record.Record) { r.Weight = float32(math.Inf(1)) }, "column weight is +Inf, must be a finite number from 0"},
}

func policy(shares ...float32) func(*record.Record) {
	return func(r *record.Record) { r.Policy = shares }
}

func play(r *record.Record, moves string) {
	p, _, err := game.MustBoard(game.Connect4).ParseMoves(moves)
	if err != nil {
		panic(err)
	}
	r.Position, r.Ply = p, p.Plies()
}

func fullColumn(r *record.Record) {
	play(r, "444444")
	r.Visits = []uint32{0, 0, 0, 9, 0, 0, 0}
}

func over(r *record.Record) {
	play(r, "1212121")
	r.Visits, r.Move, r.GameOver, r.Z = nil, 0, game.OtherWin, -1
}

// Each bad value is refused when it is written; only its record is lost. It is refused again when a file of another program
// has it, and the error names the file and the row.
func TestBadValues(t *testing.T) {
	dir := t.TempDir()
	for _, c := range bad {
		t.Run(c.name, func(t *testing.T) {
			good, wrong := connect4(), connect4()
			c.change(&wrong)
			path := filepath.Join(dir, "written.parquet")
			w := gametest.Must(record.CreateIn(durable.OS, path, true))(t)
			for i, step := range []struct {
				rec  record.Record
				want string
			}{{good, ""}, {wrong, "record 1: " + c.want}, {good, ""}} {
				if err := w.Write(&step.rec); text(err) != step.want {
					t.Errorf("write %d: %v, want %s", i, err, step.want)
				}
			}
			gametest.OK(t, w.Close())
			if got := recordtest.Rest(t, open(t, path)); len(got) != 2 {
				t.Errorf("%d records in the file, want the 2 good ones", len(got))
			}

			foreign := filepath.Join(dir, "foreign.parquet")
			record.WriteUnchecked(t, foreign, good, wrong, good)
			r := open(t, foreign)
			var rec record.Record
			for i, want := range []string{"", "records " + foreign + ": row 1: " + c.want, "", "EOF"} {
				err := r.Next(&rec)
				if text(err) != want {
					t.Errorf("read %d: %v, want %s", i, err, want)
				}
				if wrong, ok := errors.AsType[*record.ColumnError](err); ok != (i == 1) {
					t.Errorf("read %d: column error %v", i, wrong)
				}
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// If any byte is changed, the records are the same, or there is an error that names the file. There is never a panic, and
// never another position, because pages have checksums.
func TestDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	rs := records(3, 400)
	recordtest.Write(t, path, rs)
	whole := gametest.Must(os.ReadFile(path))(t)
	random := gametest.Rand(1)
	errs := 0
	for range 300 {
		damaged := bytes.Clone(whole)
		damaged[random.IntN(len(damaged))] ^= 1 << random.IntN(8)
		gametest.OK(t, os.WriteFile(path, damaged, 0o644))
		if err := readAll(path, func(i int, r *record.Record) {
			if i >= len(rs) || r.Position != rs[i].Position {
				t.Errorf("row %d is another position", i)
			}
		}); err != nil {
			errs++
			if !strings.HasPrefix(err.Error(), "records "+path+": ") {
				t.Errorf("error %v does not begin with the file", err)
			}
		}
	}
	if errs < 150 {
		t.Errorf("%d of 300 damaged files were found out", errs)
	}
}

// readAll stops at the first error that is not of a single value.
func readAll(path string, visit func(i int, r *record.Record)) error {
	r, err := record.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	var rec record.Record
	for i := 0; ; i++ {
		err := r.Next(&rec)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if _, ok := errors.AsType[*record.ColumnError](err); err != nil && !ok {
			return err
		}
		if err == nil {
			visit(i, &rec)
		}
	}
}

// FuzzPolicy writes any policy unchecked. The reader returns it if its width, values and sum are
// those of a policy. Otherwise the error names the file, the row and the column, and the next row is
// read.
func FuzzPolicy(f *testing.F) {
	for _, shares := range [][]float32{{}, {1}, {0, 0, 0, 1, 0, 0, 0}, {0.5, 0.5, 0, 0, 0, 0, 0}, {0.5, 0, 0, 0, 0, 0, 0}, {2, -1, 0, 0, 0, 0, 0}, {float32(math.NaN()), 1, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 1}} {
		f.Add(gametest.Must(binary.Append(nil, binary.LittleEndian, shares))(f))
	}
	path := filepath.Join(f.TempDir(), "fuzz.parquet")
	f.Fuzz(func(t *testing.T, bytes []byte) {
		good, other := connect4(), connect4()
		other.Policy = make([]float32, min(len(bytes)/4, 200))
		gametest.Must(binary.Decode(bytes, binary.LittleEndian, other.Policy))(t)
		least, sum := 0.0, 0.0
		for _, p := range other.Policy {
			least, sum = min(least, float64(p)), sum+float64(p)
		}
		valid := len(other.Policy) == 0 || len(other.Policy) == 7 && least >= 0 && math.Abs(sum-1) <= 1e-3
		record.WriteUnchecked(t, path, good, other, good)
		r := open(t, path)
		var rec record.Record
		gametest.OK(t, r.Next(&rec))
		err := r.Next(&rec)
		if valid != (err == nil) || !valid && !strings.HasPrefix(err.Error(), "records "+path+": row 1: column policy is ") {
			t.Errorf("policy %v: error %v", other.Policy, err)
		}
		if valid && !slices.Equal(rec.Policy, other.Policy) {
			t.Errorf("policy %v is read as %v", other.Policy, rec.Policy)
		}
		gametest.OK(t, r.Next(&rec))
	})
}

// A file that was begun without the column does not lose a policy.
func TestPolicyWithoutColumn(t *testing.T) {
	w := gametest.Must(record.Create(filepath.Join(t.TempDir(), "a.parquet")))(t)
	defer w.Abort()
	rec := connect4()
	rec.Policy = []float32{0, 0, 0, 1, 0, 0, 0}
	if err, want := w.Write(&rec), "record 0: column policy is [0 0 0 1 0 0 0], but the file was begun without this column"; text(err) != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// A file replaced by a shorter one between Open and Next.
func TestReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.parquet")
	recordtest.Write(t, path, records(1, 5))
	r := open(t, path)
	recordtest.Write(t, path, records(1, 4))
	var rec record.Record
	want := "records " + path + ": row 0: has 4 rows, and had 5 before: it was replaced while it was read"
	for range 2 {
		if err := r.Next(&rec); text(err) != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed.parquet")
	for _, n := range []int{0, 1, 40} {
		rs := records(1, n)
		for range 2 {
			recordtest.Write(f, path, rs)
			f.Add(gametest.Must(os.ReadFile(path))(f))
			addPolicies(rs)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		path := filepath.Join(t.TempDir(), "fuzz.parquet")
		gametest.OK(t, os.WriteFile(path, file, 0o644))
		boards := map[game.Rules]*game.Board{}
		_ = readAll(path, func(i int, r *record.Record) { // errors are right; what passes must be a position
			b := boards[r.Rules]
			if b == nil {
				b = game.MustBoard(r.Rules)
				boards[r.Rules] = b
			}
			sum := float32(0)
			for a, p := range r.Policy {
				if sum += p; !(p >= 0) || p > 0 && !b.CanPlay(r.Position, a) {
					t.Errorf("row %d has the policy %v", i, r.Policy)
				}
			}
			if n := len(r.Policy); n != 0 && (n != b.Actions() || !(sum > 0.99 && sum < 1.01)) {
				t.Errorf("row %d has the policy %v", i, r.Policy)
			}
			if r.GameOver != b.Result(r.Position).GameOver() || r.Ply != r.Position.Plies() || r.Z < -1 || r.Z > 1 {
				t.Errorf("row %d is %+v", i, r)
			}
		})
	})
}

// DuckDB, pandas and pyarrow read the files, and evald reads one that pyarrow wrote.
func TestPeers(t *testing.T) {
	python := gametest.Python(t, "duckdb", "pandas", "pyarrow")
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours.parquet"), filepath.Join(dir, "theirs.parquet")
	rs := append(records(5, 500), connect4())
	recordtest.Write(t, ours, rs)
	out, err := exec.Command(python, "testdata/peers.py", ours, theirs).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := gametest.Must(os.ReadFile("testdata/peers.txt"))(t)
	if diff := cmp.Diff(string(want), string(out)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(rs, recordtest.Rest(t, open(t, theirs)), cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}
