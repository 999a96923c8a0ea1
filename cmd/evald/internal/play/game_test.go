package play

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// slow is a slow, obvious session: two piles of moves.
type slow struct {
	board        *game.Board
	past, future []int // future: the next move last
	human        [2]bool
	paused       bool
}

func (s *slow) position() (p game.Position) {
	for _, a := range s.past {
		p = s.board.Play(p, a)
	}
	return p
}

func (s *slow) agents() bool { return !s.human[0] && !s.human[1] }

// undo moves moves to the other pile until a person is to move; if no person ever is, they all come back.
func (s *slow) undo() bool {
	past, future := slices.Clone(s.past), slices.Clone(s.future)
	for len(past) > 0 {
		n := len(past) - 1
		future = append(future, past[n])
		past = past[:n]
		if s.agents() || s.human[n%2] {
			s.past, s.future, s.paused = past, future, s.agents()
			return true
		}
	}
	return false
}

// redo takes moves back from the other pile: one, and then all that agents made.
func (s *slow) redo() bool {
	if len(s.future) == 0 {
		return false
	}
	for {
		n := len(s.future) - 1
		s.past, s.future = append(s.past, s.future[n]), s.future[:n]
		if s.agents() {
			s.paused = true
			return true
		}
		if s.human[len(s.past)%2] {
			s.paused = false
			return true
		}
		if n == 0 {
			return true
		}
	}
}

func TestSession(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 80
	}
	boards := gametest.Boards()
	done := map[string]int{}
	for seed := range rounds {
		r := gametest.Rand(uint64(seed))
		b := boards[r.IntN(len(boards))]
		human := [2]bool{r.IntN(2) == 0, r.IntN(2) == 0}
		var start []int
		for p := (game.Position{}); len(start) < r.IntN(4) && b.Result(p) == game.Ongoing; {
			a := b.Action(b.Legal(p).First())
			start, p = append(start, a), b.Play(p, a)
		}
		s := Resume(b, start, len(start), human)
		s.start = start
		want := &slow{board: b, past: slices.Clone(start), human: human}
		original := slices.Clone(start)
		for step := range 60 {
			op := [...]string{"play", "play", "play", "play", "undo", "undo", "redo", "redo", "swap", "restart", "pause", "resume"}[r.IntN(12)]
			got, expected := true, true
			switch op {
			case "play":
				a := r.IntN(b.Actions()+2) - 1
				p := want.position()
				expected = b.Result(p) == game.Ongoing && b.CanPlay(p, a)
				got = s.Play(a) == nil
				if expected {
					want.past, want.future, want.paused = append(want.past, a), nil, false
				}
			case "undo":
				got, expected = s.Undo(), want.undo()
			case "redo":
				got, expected = s.Redo(), want.redo()
			case "swap":
				s.Swap()
				want.human[0], want.human[1] = want.human[1], want.human[0]
			case "restart":
				s.Restart()
				want.past, want.future, want.paused = slices.Clone(start), nil, false
			case "pause":
				s.paused = !s.paused
				want.paused = !want.paused
			case "resume":
				s = Resume(b, s.Line(), len(s.Moves()), want.human)
				s.start, s.paused = start, want.paused
			}
			if got {
				done[op]++
			} else {
				done["no "+op]++
			}
			p, last := want.position(), -1
			if n := len(want.past); n > 0 {
				before := &slow{board: b, past: want.past[:n-1]}
				last = p.All.AndNot(before.position().All).First()
			}
			line := slices.Clone(want.future)
			slices.Reverse(line)
			thinks := b.Result(p) == game.Ongoing && !want.human[len(want.past)%2] && !want.paused
			if got != expected || !slices.Equal(s.Moves(), want.past) || !slices.Equal(s.Line(), slices.Concat(want.past, line)) || !slices.Equal(start, original) || s.LastCell() != last || s.Position() != p || s.paused != want.paused ||
				s.agentToMove() != thinks || s.Result() != b.Result(p) || s.Side() != len(want.past)%2 {
				t.Fatalf("seed %d, step %d, %s: %v, %v %+v; want %v, %+v", seed, step, op, got, s.Moves(), s, expected, want)
			}
		}
	}
	for _, op := range []string{"play", "no play", "undo", "no undo", "redo", "no redo"} {
		if done[op] < rounds/10 {
			t.Errorf("%s: only %d times in %d rounds", op, done[op], rounds)
		}
	}
}

// The winning cells are those of the last player's lines, which the test finds by walking from every cell.
func TestWinning(t *testing.T) {
	r := gametest.Rand(1)
	games := 0
	for _, b := range gametest.Boards() {
		for range 30 {
			p := gametest.Position(r, b, b.Cells(), false)
			var want game.Bits
			if b.Result(p) == game.Loss {
				games++
				want = walkLines(b, p.Other())
			}
			if diff := cmp.Diff(want, (&Session{board: b, now: p}).Winning()); diff != "" {
				t.Fatalf("%v %+v (-want +got):\n%s", b.Rules(), p, diff)
			}
		}
	}
	if games < 50 {
		t.Errorf("only %d games were won", games)
	}
}

func walkLines(b *game.Board, stones game.Bits) (cells game.Bits) {
	has := func(c, r int) bool {
		return c >= 0 && c < b.Columns() && r >= 0 && r < b.Rows() && stones.Has(b.Index(c, r))
	}
	for c := range b.Columns() {
		for r := range b.Rows() {
			for _, d := range [][2]int{{0, 1}, {1, 0}, {1, 1}, {1, -1}} {
				n, line := 0, game.Bits{}
				for ; has(c+n*d[0], r+n*d[1]) && n < b.InARow(); n++ {
					line = line.Or(game.Bits{Lo: 1}.Shl(uint(b.Index(c+n*d[0], r+n*d[1]))))
				}
				if n == b.InARow() {
					cells = cells.Or(line)
				}
			}
		}
	}
	return cells
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{
		0: "0", 999: "999", 1000: "1 k", 12_345: "12.3 k", 999_499: "999 k", 999_500: "1 M", 1_234_567_890: "1.23 G",
	} {
		if got := count(n); got != want {
			t.Errorf("count(%d) = %q, want %q", n, got, want)
		}
	}
	var text []string
	for _, x := range []float64{-1, -0.999, -0.07, -0.004, 0, 0.004, 0.44, 0.996, 1} {
		text = append(text, hundredths(x))
	}
	if got := strings.Join(text, " "); got != "-99 -99 -7 0 0 0 +44 +99 +99" {
		t.Errorf("hundredths: %s", got)
	}
}

// Every level is an agent, has a unique name, and LevelOf finds that name.
func TestLevels(t *testing.T) {
	seen := map[agent.Spec]string{}
	for _, l := range Levels {
		if other, twice := seen[l.Agent]; twice {
			t.Errorf("%s and %s are the same agent", l.Name, other)
		}
		seen[l.Agent] = l.Name
		for _, text := range []string{l.Name, l.Agent.String()} {
			if spec, err := ParseAgent(text); err != nil || spec != l.Agent {
				t.Errorf("%q is agent %+v (%v), want %+v", text, spec, err, l.Agent)
			}
			if got := LevelOf(text); got != l.Name {
				t.Errorf("%q is called %q, want %q", text, got, l.Name)
			}
		}
	}
	for _, name := range []string{"instinct", "proven", "random", "negamax"} { // names that were levels, or are agents
		if _, err := ParseAgent(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for text, want := range map[string]string{
		"policy": "instinct", "proven": "proven", "uct-bitsquares:time=1s": "uct-bitsquares:time=1s", "robot": "robot", "": "",
	} {
		if got := LevelOf(text); got != want {
			t.Errorf("%q is called %q, want %q", text, got, want)
		}
	}
}
