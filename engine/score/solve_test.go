package score_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/engine/solver"
)

// small returns the positions of one game on 5x4x4, and the moves to each.
func small() (b *game.Board, games [][]int, positions []game.Position) {
	b = game.MustBoard(game.Rules{Rows: 4, Columns: 5, InARow: 4, Gravity: true})
	all := []int{2, 2, 1, 3, 4, 4, 0, 2, 4, 0}
	for n := range len(all) + 1 {
		games, positions = append(games, all[:n]), append(positions, b.PlayMoves(all[:n]))
	}
	return b, games, positions
}

// Scores are the solver's for any number of threads, Solved is called once for each position, and the lines say the same
// after they are read back.
func TestSolve(t *testing.T) {
	b, games, positions := small()
	one, err := solver.New(b, solver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var want [][]int
	for _, p := range positions {
		scores, _, err := one.Scores(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, scores)
	}
	for _, threads := range []int{0, 1, 3, 50} {
		heard := make([]int, len(positions))
		got, err := score.Solve(t.Context(), b, positions, score.SolveOptions{Threads: threads, Solved: func(i int, p score.Position) error {
			if heard[i]++; !slices.Equal(want[i], p.Scores) || p.State.Position != positions[i] {
				t.Errorf("position %d, reported %+v, want %v", i, p, want[i])
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		var text []byte
		for i, p := range got {
			if diff := cmp.Diff(want[i], p.Scores); diff != "" || p.State.Position != positions[i] || p.State.Board != b || heard[i] != 1 {
				t.Errorf("%d threads, position %d: reported %d times (-want +got):\n%s", threads, i, heard[i], diff)
			}
			text = score.AppendLine(text, game.FormatNotation(b.Rules(), games[i]), p.Scores)
		}
		read, err := score.Read(strings.NewReader(string(text)))
		if err != nil || len(read) != len(got) {
			t.Fatalf("%d positions read, error %v", len(read), err)
		}
		for i := range read {
			if read[i].State.Position != got[i].State.Position || !slices.Equal(read[i].Scores, got[i].Scores) || read[i].State.Mark != got[i].State.Mark {
				t.Errorf("%+v, read %+v", got[i], read[i])
			}
		}
	}
}

// askedBook counts the questions, and knows nothing.
type askedBook struct{ asked *int }

func (b askedBook) Score(game.Position) (int, bool) {
	*b.asked++
	return 0, false
}

func TestSolveBook(t *testing.T) {
	b, _, positions := small()
	asked := 0
	if _, err := score.Solve(t.Context(), b, positions[:1], score.SolveOptions{Book: askedBook{&asked}}); err != nil || asked == 0 {
		t.Errorf("the book was asked %d times, error %v", asked, err)
	}
}

// The first error ends Solve: a position that is over, an error of Solved, or the end of ctx.
func TestSolveErrors(t *testing.T) {
	b, _, positions := small()
	over := append(slices.Clone(positions), b.PlayMoves([]int{0, 1, 0, 1, 0, 1, 0}))
	if _, err := score.Solve(t.Context(), b, over, score.SolveOptions{Threads: 2}); err == nil || !strings.Contains(err.Error(), "position 12 of 12: the game is over") {
		t.Errorf("a game that is over: %v", err)
	}
	full, calls := errors.New("disk full"), 0
	_, err := score.Solve(t.Context(), b, positions, score.SolveOptions{Solved: func(int, score.Position) error { calls++; return full }})
	if !errors.Is(err, full) || calls != 1 {
		t.Errorf("%d calls, error %v", calls, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls = 0
	_, err = score.Solve(ctx, b, positions, score.SolveOptions{Threads: 1, Solved: func(int, score.Position) error { calls++; cancel(); return nil }})
	if !errors.Is(err, context.Canceled) || calls != 1 {
		t.Errorf("cancelled: %d calls, error %v", calls, err)
	}
	if got, err := score.Solve(t.Context(), b, nil, score.SolveOptions{}); err != nil || len(got) != 0 {
		t.Errorf("nothing to solve: %v, %v", got, err)
	}
}

// Positions with their own score get those of their moves, on boards that change from line to line. A wrong score is an error
// that names the line.
func TestSolveMoves(t *testing.T) {
	b, games, positions := small()
	exact, err := score.Solve(t.Context(), b, positions, score.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text := "# c\n"
	for i, moves := range games {
		text += fmt.Sprintf("%s %d\n4x4x3:2 -4\n", game.FormatNotation(b.Rules(), moves), slices.Max(exact[i].Scores))
	}
	for _, threads := range []int{1, 3} {
		read, err := readUnsolved(text)
		if err != nil {
			t.Fatal(err)
		}
		var counts []int
		err = score.SolveMoves(t.Context(), read, threads, func(n int) { counts = append(counts, n) })
		if err != nil {
			t.Fatal(err)
		}
		for i := range counts {
			if len(counts) != len(read) || counts[i] != i+1 {
				t.Fatalf("%d positions, counted %v", len(read), counts)
			}
			if i%2 == 0 && !slices.Equal(read[i].Scores, exact[i/2].Scores) || i%2 == 1 && len(read[i].Scores) != 4 {
				t.Errorf("position %d: %+v", i, read[i])
			}
		}
	}
	read, err := readUnsolved(text + "5x4x4:- 3\n")
	if err != nil {
		t.Fatal(err)
	}
	last := slices.Max(exact[0].Scores)
	want := fmt.Sprintf("line %d: score 3 of the position is wrong: the solver finds %d", 1+len(read), last)
	if err := score.SolveMoves(t.Context(), read, 2, func(int) {}); fmt.Sprint(err) != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// The summaries of the kinds add up to that of all positions, and positions without a kind are in no kind.
func TestKinds(t *testing.T) {
	b, _, positions := small()
	solved, err := score.Solve(t.Context(), b, positions, score.SolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, kind := range []string{"late", "early", "early", "late"} {
		solved[i].Kind = kind
	}
	r, err := score.Measure(t.Context(), fixed([3]float32{1, 0, 0}, 1, 0, 0, 0, 0), solved, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Kinds) != 2 || r.Kinds[0].Name != "late" || r.Kinds[1].Name != "early" || r.All.Positions != len(solved) {
		t.Fatalf("%+v", r)
	}
	for _, kind := range r.Kinds {
		var some []score.Position
		for _, p := range solved {
			if p.Kind == kind.Name {
				p.Kind = ""
				some = append(some, p)
			}
		}
		alone, err := score.Measure(t.Context(), fixed([3]float32{1, 0, 0}, 1, 0, 0, 0, 0), some, nil)
		if err != nil {
			t.Fatal(err)
		}
		alone.All.Name = kind.Name
		if diff := cmp.Diff(alone.All, kind); diff != "" || alone.Kinds != nil {
			t.Errorf("%s measured alone and among others: %s", kind.Name, diff)
		}
	}
}
