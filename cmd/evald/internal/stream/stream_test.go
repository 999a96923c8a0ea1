package stream

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/parquet-go/parquet-go"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/fault"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
)

func job(e *eval.Evaluator) Job { return Job{Evaluator: e, Model: m, Rows: 16, Workers: 3} }

func m(game.Rules) string { return "m" }

func bitsquares(t testing.TB) *eval.Evaluator {
	return gametest.Must(heuristic.New(eval.Bitsquares))(t)
}

// answer is a line of JSONL.
type answer struct {
	Line     int
	Error    string
	Position string
	ToMove   int `json:"to_move"`
	WDL      []float32
	Value    float32
	Policy   []float32
	Best     *int
	Source   string
	Model    string
}

func decode(t *testing.T, text string) []answer {
	t.Helper()
	var all []answer
	for line := range strings.Lines(text) {
		var a answer
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&a); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, a)
	}
	return all
}

// input returns a file of games on many boards with bad lines among them, and the expected answer to each line that counts.
func input(n int) (text string, want []answer) {
	r := gametest.Rand(1)
	boards := gametest.Boards()
	var b strings.Builder
	for line := 1; line <= n; line++ {
		board := boards[0]
		if r.IntN(3) == 0 {
			board = boards[r.IntN(len(boards))]
		}
		a := answer{Line: line}
		switch r.IntN(10) {
		case 0:
			b.WriteString([]string{"\n", "  \r\n", "# 4455\n"}[r.IntN(3)])
			continue
		case 1:
			a.Error = fmt.Sprintf(`line %d: moves "4x": move 2 is "x", not one of 1 to 7`, line)
			b.WriteString("4x\n")
		case 2:
			a.Error = fmt.Sprintf(`line %d: line "": is longer than 65536 bytes`, line)
			b.WriteString(strings.Repeat("1", maxLine+r.IntN(2*maxLine)) + "\n")
		case 3:
			p := gametest.Position(r, board, r.IntN(board.Cells()), false)
			a.Position = game.State{Board: board, Position: p, Mark: p.Mover()}.Observation()
			b.WriteString(a.Position + "\n")
		default:
			a.Position = game.FormatNotation(board.Rules(), moves(r.IntN, board))
			b.WriteString(a.Position + []string{"\n", "\r\n", " -1\n", "\t4 good\n"}[r.IntN(4)])
		}
		want = append(want, a)
	}
	return b.String(), want
}

// moves returns the moves of a random game.
func moves(intN func(int) int, board *game.Board) []int {
	var actions []int
	var p game.Position
	for range intN(board.Cells() + 1) {
		a := intN(board.Actions())
		if !board.CanPlay(p, a) || board.Result(p) != game.Ongoing {
			break
		}
		p = board.Play(p, a)
		actions = append(actions, a)
	}
	return actions
}

// Moves separated by blanks are not a position with scores after it, and a byte order mark is not a move.
func TestTextAfterMoves(t *testing.T) {
	text := "\ufeff44\n4 4 5\n4 4\n44 0 1 2 3 4 3 -1000\n44 0 1 2\n44 a draw?\n3x3x3free:5 1 2 3 4 5 6 7 8 9\n" +
		"4 -1\n4 44\n4 4 # two moves\n44 3 # a score\n4 -4 -2 -2 -1 -2 -2 -4\n4 4 4 4 4 4 3 3\n3x3x3free:51 1 2 3 4 5 6 7 8 9\n"
	var out bytes.Buffer
	gametest.Must(Run(t.Context(), strings.NewReader(text), JSONL{&out}, job(bitsquares(t))))(t)
	const (
		split   = "write moves together (445); behind them may be the position's score, or one for each of "
		unclear = "it is unclear whether "
	)
	want := []string{
		"44", `line 2: moves "4": 2 numbers follow: ` + split + "7 moves", `line 3: moves "4": ` + unclear + "4 follows as a move or as a score: " + split + "7 moves",
		"44", `line 5: moves "44": 3 numbers follow: ` + split + "7 moves", "44", `line 7: moves "3x3x3free:5": ` + unclear + "9 follows as a move or as a score: " + split + "9 moves",
		"4", `line 9: moves "4": 44 follows, which is no score on this board: ` + split + "7 moves",
		`line 10: moves "4": ` + unclear + "4 follows as a move or as a score: " + split + "7 moves",
		"44", "4", `line 13: moves "4": ` + unclear + "4 follows as a move or as a score: " + split + "7 moves", "3x3x3free:51",
	}
	var got []string
	for _, a := range decode(t, out.String()) {
		got = append(got, cmp.Or(a.Error, a.Position))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Every line is answered, in order, as if it were the only one.
func TestRun(t *testing.T) {
	text, want := input(3000)
	var out bytes.Buffer
	e := bitsquares(t)
	sum, err := Run(t.Context(), strings.NewReader(strings.TrimSuffix(text, "\n")), JSONL{&out}, job(e))
	gametest.OK(t, err)
	got := decode(t, out.String())
	if len(got) != len(want) {
		t.Fatalf("%d answers, want %d", len(got), len(want))
	}
	bad := int64(0)
	var parser game.Parser
	for i, w := range want {
		g := got[i]
		if g.Line != w.Line || g.Error != w.Error || g.Position != w.Position {
			t.Fatalf("answer %d: %+v, want %+v", i, g, w)
		}
		if w.Error != "" {
			bad++
			continue
		}
		s := gametest.Must(parser.Parse(w.Position))(t)
		alone := eval.NewBatch(s.Board, 1)
		alone.Pos[0] = s.Position
		gametest.OK(t, e.Evaluate(t.Context(), alone))
		if !slices.Equal(g.WDL, alone.WDL) || !slices.Equal(g.Policy, alone.Policy) || g.ToMove != s.Mark ||
			g.Source != alone.Source[0].String() || g.Model != alone.Source[0].By("m") || g.Value != g.WDL[0]-g.WDL[2] {
			t.Fatalf("line %d: %+v, alone %+v", w.Line, g, alone)
		}
		best := slices.Max(g.Policy)
		if over := s.Board.Result(s.Position) != game.Ongoing; over != (g.Best == nil) || !over && g.Policy[*g.Best-1] != best {
			t.Fatalf("line %d: best %v of %v", w.Line, g.Best, g.Policy)
		}
	}
	if sum.Bad != bad || sum.Lines != int64(len(want)) || sum.Bytes != int64(len(text)-1) {
		t.Errorf("%+v, want %d lines, %d of them bad, %d bytes", sum, len(want), bad, len(text)-1)
	}
}

// Parquet has the same content as JSONL.
func TestParquet(t *testing.T) {
	text, _ := input(2000)
	var lines, file bytes.Buffer
	for _, f := range []Format{JSONL{&lines}, NewParquet(&file)} {
		gametest.Must(Run(t.Context(), strings.NewReader(text), f, job(bitsquares(t))))(t)
	}
	rows := gametest.Must(parquet.Read[Row](bytes.NewReader(file.Bytes()), int64(file.Len())))(t)
	want := decode(t, lines.String())
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for i, w := range want {
		r := rows[i]
		if w.Error != "" {
			if r.Error == nil || *r.Error != w.Error || r.Line != int64(w.Line) || r.Value != nil || len(r.Policy) != 0 {
				t.Fatalf("row %d: %+v, want %+v", i, r, w)
			}
			continue
		}
		if r.Line != int64(w.Line) || r.Position != w.Position || *r.ToMove != int32(w.ToMove) || !slices.Equal(r.WDL, w.WDL) ||
			!slices.Equal(r.Policy, w.Policy) || *r.Value != w.Value || *r.Source != w.Source || r.Model != w.Model || r.Error != nil ||
			(r.Best == nil) != (w.Best == nil) || w.Best != nil && *r.Best != int32(*w.Best) {
			t.Fatalf("row %d: %+v, want %+v", i, r, w)
		}
	}
}

// many is a text of n lines.
func many(n int) *strings.Reader { return strings.NewReader(strings.Repeat("4455\n", n)) }

func TestMillionLinesInBoundedMemory(t *testing.T) {
	n := 1_000_000
	if testing.Short() || gametest.Race {
		n = 100_000
	}
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	in := many(n)
	before, most := live(), uint64(0)
	j := job(bitsquares(t))
	j.Rows = 1024
	chunks := 0
	j.Progress = func(Summary) {
		if chunks++; chunks%50 == 0 {
			most = max(most, live())
		}
	}
	var lines counter
	sum, err := Run(t.Context(), in, JSONL{&lines}, j)
	if err != nil || sum.Lines != int64(n) || int(lines) != n || sum.Bad != 0 {
		t.Fatalf("%+v, %d lines out, %v; want %d", sum, lines, err, n)
	}
	if most > before+32<<20 {
		t.Errorf("%d MiB of heap in use, %d MiB before; want at most 32 more", most>>20, before>>20)
	}
}

// counter counts lines.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(bytes.Count(p, []byte("\n")))
	return len(p), nil
}

// A line is answered before the next one is written, so a program on the other end of a pipe can hold a dialogue.
func TestAnswersAtOnce(t *testing.T) {
	in, feed := io.Pipe()
	results, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), in, JSONL{out}, job(bitsquares(t)))
		done <- err
	}()
	buffer := make([]byte, 4096)
	for i := 1; i <= 3; i++ {
		fmt.Fprintf(feed, "44%d\n", i)
		n := gametest.Must(results.Read(buffer))(t)
		if a := decode(t, string(buffer[:n])); len(a) != 1 || a[0].Line != i {
			t.Fatalf("after line %d: %q", i, buffer[:n])
		}
	}
	feed.Close()
	gametest.OK(t, <-done)
}

// An interrupt ends the reading, even of a silent input. Work under way is answered.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, feed := io.Pipe()
	defer feed.Close()
	var out bytes.Buffer
	slow := &evaltest.Stub{Source: eval.CPU, Before: func(ctx context.Context, _ *eval.Batch) error {
		cancel()
		return ctx.Err() // some time is left
	}}
	go fmt.Fprintf(feed, "44\n45\n46\n4") // the last line is incomplete
	sum, err := Run(ctx, in, JSONL{&out}, job(evaltest.Raw(slow)))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if a := decode(t, out.String()); len(a) != 3 || a[2].Position != "46" || sum.Lines != 3 || sum.Bad != 0 || sum.GivenUp != 0 {
		t.Errorf("%+v, answers %v; want the three complete lines", sum, out.String())
	}
}

// After an interrupt, lines read ahead are dropped, and so are a batch that takes too long and those behind it.
func TestInterruptDrops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	batches := 0
	stuck := &evaltest.Stub{Source: eval.CPU, Before: func(ctx context.Context, _ *eval.Batch) error {
		if batches++; batches < 3 {
			return nil
		}
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}}
	j := job(evaltest.Raw(stuck))
	j.Workers = 1
	sum, err := Run(ctx, many(100_000), JSONL{&out}, j)
	if !errors.Is(err, context.Canceled) || batches != 3 || sum.Lines != 32 || sum.GivenUp != 16 || sum.Bad != 0 {
		t.Errorf("%d batches, %+v, error %v; want two batches of 16 answered and the third given up", batches, sum, err)
	}
	if a := decode(t, out.String()); len(a) != 32 || a[31].Line != 32 {
		t.Errorf("%d answers, want those to the first 32 lines", len(a))
	}
}

// If an evaluator fails, each line of its batch gets the error; the other lines are answered.
func TestEvaluatorFails(t *testing.T) {
	e := &evaltest.Stub{Source: eval.CPU, Before: func(_ context.Context, b *eval.Batch) error {
		if b.Board.Columns() == 9 {
			return errors.New("no kernel for this board")
		}
		return nil
	}}
	var out bytes.Buffer
	sum := gametest.Must(Run(t.Context(), strings.NewReader("44\n9x5x4:44\n45\n"), JSONL{&out}, job(evaltest.Raw(e))))(t)
	a := decode(t, out.String())
	if len(a) != 3 || a[1].Error != "no kernel for this board" || a[0].Source != "cpu" || a[2].Source != "cpu" || sum.Bad != 1 {
		t.Errorf("%+v: %s", sum, out.String())
	}
}

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

// A panic in the evaluator ends the run with an error: it is no fault of a line.
func TestEvaluatorPanics(t *testing.T) {
	broken := &evaltest.Stub{Source: eval.CPU, Before: func(context.Context, *eval.Batch) error { panic("broken network") }}
	var out bytes.Buffer
	sum, err := Run(t.Context(), strings.NewReader("4\n44\n"), JSONL{&out}, job(evaltest.Raw(broken)))
	if fault.In(err) == nil || out.Len() > 0 {
		t.Errorf("%+v, error %v, output %q; want a fault", sum, err, out.String())
	}
}

func TestFaults(t *testing.T) {
	sum, err := Run(t.Context(), many(100_000), JSONL{&failing{after: 3}}, job(bitsquares(t)))
	if fmt.Sprint(err) != "disk full" || sum.Lines == 0 || sum.Lines > 100 {
		t.Errorf("full disk: %+v, error %v", sum, err)
	}
	var out bytes.Buffer
	sum, err = Run(t.Context(), io.MultiReader(strings.NewReader("44\n45\n4"), iotest.ErrReader(errors.New("unplugged"))), JSONL{&out}, job(bitsquares(t)))
	if fmt.Sprint(err) != "unplugged" || sum.Lines != 2 || len(decode(t, out.String())) != 2 {
		t.Errorf("broken input: %+v, error %v, answers %q", sum, err, out.String())
	}
}

// Any bytes are split into the lines of a plain split, and the answers are JSON.
func FuzzRun(f *testing.F) {
	f.Add([]byte("44554\n\n# x\n448\r\n{\"board\":[]}\n9x5x4:44 3"))
	f.Add([]byte("\xff\xfe\n\"\\\n\x00\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var want []int
		for i, line := range bytes.Split(text, []byte("\n")) {
			if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
				want = append(want, i+1)
			}
		}
		var out bytes.Buffer
		sum := gametest.Must(Run(t.Context(), bytes.NewReader(text), JSONL{&out}, job(evaltest.Raw(&evaltest.Stub{Source: eval.CPU}))))(t)
		got := decode(t, out.String())
		if len(got) != len(want) || sum.Lines != int64(len(want)) {
			t.Fatalf("%d answers for %d lines", len(got), len(want))
		}
		for i, g := range got {
			if g.Line != want[i] || (g.Error == "") == (g.Source == "") {
				t.Fatalf("answer %d: %+v, want line %d", i, g, want[i])
			}
		}
	})
}
