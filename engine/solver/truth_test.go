package solver

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// sets are the files of exact scores. quick is the number of rows that are always tested, full the number with
// EVALD_SOLVER_FULL=1. most is the limit on the mean number of nodes per position over the full rows; 0 means no limit.
var sets = []struct {
	file        string
	quick, full int
	most        float64
}{
	{"pons/Test_L3_R1", 1000, 1000, 51},
	{"pons/Test_L2_R1", 1000, 1000, 309},
	{"pons/Test_L2_R2_first500", 500, 500, 9400},
	{"pons/Test_L1_R1", 1000, 1000, 3300},
	{"pons/Test_L1_R2_first500", 20, 200, 372e3},
	{"pons/Test_L1_R3_first500", 1, 10, 4.4e6},
	{"sizes/9x5x4_endgame_L1", 1000, 1000, 0},
	{"sizes/9x5x4_midgame_L1", 20, 200, 0},
	{"book6_7x6x4", 0, 100, 0},
}

// row is a position, its score and the line of the file.
type row struct {
	line  string
	p     game.Position
	score int
}

func readSet(t testing.TB, file string) (*game.Board, []row) {
	t.Helper()
	var parser game.Parser
	var board *game.Board
	var rows []row
	for _, line := range gametest.DataLines(t, file) {
		moves, score, _ := strings.Cut(line, " ")
		state := gametest.Must(parser.Parse(moves))(t)
		n := gametest.Must(strconv.Atoi(score))(t)
		board = state.Board
		rows = append(rows, row{line, state.Position, n})
	}
	return board, rows
}

// TestTruth solves each row with an empty table.
func TestTruth(t *testing.T) {
	gametest.OneGoroutine(t)
	full := os.Getenv("EVALD_SOLVER_FULL") == "1"
	for _, set := range sets {
		t.Run(set.file, func(t *testing.T) {
			b, rows := readSet(t, set.file)
			n := set.quick
			if full {
				n = set.full
			}
			if n == 0 {
				return // tested only with EVALD_SOLVER_FULL=1
			}
			// Longer files: take rows spread over the whole file.
			if !strings.HasPrefix(set.file, "pons") {
				step := len(rows) / n
				for i := range n {
					rows[i] = rows[len(rows)-1-i*step]
				}
			}
			s := mustNew(t, b, Options{})
			var nodes uint64
			var seconds float64
			for _, row := range rows[:n] {
				s.Reset()
				r, err := s.Solve(t.Context(), row.p)
				if err != nil || r.Score != row.score {
					t.Errorf("%s: %d, %v", row.line, r.Score, err)
				}
				nodes += r.Nodes
				seconds += r.Elapsed.Seconds()
			}
			mean := float64(nodes) / float64(n)
			t.Logf("%d positions: mean %.1f nodes, %.3f ms; %.2f M nodes/s", n, mean, 1e3*seconds/float64(n), float64(nodes)/seconds/1e6)
			if set.most > 0 && n == set.full && mean > set.most {
				t.Errorf("mean %.1f nodes, more than %g", mean, set.most)
			}
		})
	}
}

// TestFhourstones checks positions of which only win, draw or loss is known.
func TestFhourstones(t *testing.T) {
	gametest.OneGoroutine(t)
	b := game.MustBoard(game.Connect4)
	s := mustNew(t, b, Options{})
	for _, line := range gametest.DataLines(t, "fhourstones.txt") {
		moves, sign, _ := strings.Cut(line, " ")
		p, _, err := b.ParseMoves(moves)
		gametest.OK(t, err)
		if p.Plies() < 12 && os.Getenv("EVALD_SOLVER_FULL") != "1" {
			continue
		}
		want := map[string]int{"+": 1, "=": 0, "-": -1}[sign]
		s.Reset()
		if r, err := s.WDL(t.Context(), p); err != nil || r.Score != want {
			t.Errorf("%s: %d, %v", line, r.Score, err)
		}
	}
}

// TestBoardSizes solves empty boards and compares who wins and when the game ends.
func TestBoardSizes(t *testing.T) {
	gametest.OneGoroutine(t)
	const most = 36 // cells; larger boards take many minutes
	for i, line := range gametest.DataLines(t, "boardsizes.csv") {
		f := strings.Split(line, ",")
		columns, _ := strconv.Atoi(f[0])
		rows, _ := strconv.Atoi(f[1])
		if columns*rows > most || columns*rows > 30 && !gametest.Today(t, i, 4) {
			continue
		}
		b := game.MustBoard(game.Rules{Rows: rows, Columns: columns, InARow: 4, Gravity: true})
		sign, last, _ := strings.Cut(f[2], "/")
		end, _ := strconv.Atoi(last)
		want := 0
		if sign != "=" {
			want = (b.Cells() + 1 - (end - 1)) / 2
		}
		if sign == "-" {
			want = -want
		}
		r, err := mustNew(t, b, Options{}).Solve(t.Context(), game.Position{})
		if err != nil || r.Score != want {
			t.Errorf("%s: %d, %v; want %d", line, r.Score, err, want)
		}
		t.Logf("%s: %d nodes, %v", line, r.Nodes, r.Elapsed)
	}
}

// BenchmarkEmpty solves 7x6 from the empty board and reports nodes and time for each number of threads.
func BenchmarkEmpty(b *testing.B) {
	for _, threads := range []int{1, 2} {
		b.Run("threads="+strconv.Itoa(threads), func(b *testing.B) {
			s := mustNew(b, game.MustBoard(game.Connect4), Options{Threads: threads})
			for b.Loop() {
				s.Reset()
				r, err := s.Solve(b.Context(), game.Position{})
				if err != nil || r.Score != 1 {
					b.Fatalf("%+v, %v", r, err)
				}
				b.ReportMetric(float64(r.Nodes), "nodes")
				b.ReportMetric(float64(r.Nodes)/r.Elapsed.Seconds(), "nodes/s")
			}
		})
	}
}
