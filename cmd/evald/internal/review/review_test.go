package review

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// scorer is the plain definition of a score: the best of all games that can follow.
type scorer struct {
	b     *game.Board
	known map[game.Position]int
}

func (s scorer) score(p game.Position) int {
	left := s.b.Cells() - p.Plies()
	switch s.b.Result(p) {
	case game.Loss:
		return -(left + 2) / 2
	case game.Draw:
		return 0
	}
	if score, ok := s.known[p]; ok {
		return score
	}
	best := -left
	for l := s.b.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
		best = max(best, -s.score(s.b.PlayCell(p, l.LowBit())))
	}
	s.known[p] = best
	return best
}

// mark is the plain definition of a mark.
func (s scorer) mark(p game.Position, a int) Mark {
	best, made := s.score(p), -s.score(s.b.Play(p, a))
	sign := func(x int) int { return min(max(x, -1), 1) }
	switch {
	case sign(best) == 1 && sign(made) == 0:
		return Mark{Kind: WinDraw}
	case sign(best) == 1 && sign(made) == -1:
		return Mark{Kind: WinLoss}
	case sign(best) == 0 && sign(made) == -1:
		return Mark{Kind: DrawLoss}
	case best == made:
		return Mark{Kind: Best}
	case best > 0:
		return Mark{Kind: Slower, By: best - made}
	}
	return Mark{Kind: Sooner, By: best - made}
}

func (s scorer) critical(p game.Position) Critical {
	best := game.ResultOf(s.score(p))
	for l := s.b.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
		if made := game.ResultOf(-s.score(s.b.PlayCell(p, l.LowBit()))); best != game.Loss && made != best {
			return Yes
		}
	}
	return No
}

// small are boards whose games can be searched whole.
func small(t testing.TB) (boards []*game.Board) {
	for _, text := range []string{"3x3x3free", "4x4x3", "4x4x4", "5x3x3", "2x7x2", "3x4x3free", "4x5x4", "1x1x1"} {
		boards = append(boards, game.MustBoard(gametest.Must(game.ParseRules(text))(t)))
	}
	return boards
}

// randomGame returns legal moves, to the end of the game or, now and then, not so far.
func randomGame(b *game.Board, seed uint64) (moves []int) {
	r := gametest.Rand(seed)
	var p game.Position
	for b.Result(p) == game.Ongoing && r.IntN(4*b.Cells()) > 0 {
		legal := b.Legal(p)
		if wins := b.Wins(p); !wins.IsZero() && r.IntN(2) == 0 {
			legal = wins
		}
		a := b.Action(legal.Nth(r.IntN(legal.OnesCount())).First())
		moves, p = append(moves, a), b.Play(p, a)
	}
	return moves
}

// On small boards of both kinds, marks, critical moves and the lines of explanations agree with a search of all games.
func TestReviewPlain(t *testing.T) {
	kinds, ends := map[Kind]int{}, map[How]int{}
	for _, b := range small(t) {
		plain := scorer{b, map[game.Position]int{}}
		r := gametest.Must(New(b, Options{TableMiB: 1}))(t)
		for seed := range uint64(12) {
			moves := randomGame(b, seed)
			g := r.Game(t.Context(), moves)
			for i, p := range g.Positions {
				if want := plain.score(p); g.Scores[i] != (Bounds{want, want}) {
					t.Fatalf("%v %v: after %d moves the score is %v, want %d", b.Rules(), moves, i, g.Scores[i], want)
				}
			}
			for i, a := range moves {
				p := g.Positions[i]
				kinds[g.Marks[i].Kind]++
				if want := plain.mark(p, a); g.Marks[i] != want {
					t.Errorf("%v %v: move %d is %+v, want %+v", b.Rules(), moves, i, g.Marks[i], want)
				}
				if want := plain.critical(p); g.Critical[i] != want {
					t.Errorf("%v %v: move %d is critical %v, want %v", b.Rules(), moves, i, g.Critical[i], want)
				}
				if !g.Marks[i].Mistake() {
					continue
				}
				w := r.Why(t.Context(), moves, i)
				var best []int
				for a := range b.Actions() {
					if b.CanPlay(p, a) && plain.score(p) == -plain.score(b.Play(p, a)) {
						best = append(best, a)
					}
				}
				slices.Sort(w.Best)
				if !slices.Equal(w.Best, best) || slices.Contains(w.Best, a) {
					t.Errorf("%v %v: best moves for move %d are %v, want %v", b.Rules(), moves, i, w.Best, best)
				}
				ends[w.After.Ends.How]++
				plain.follow(t, p, w.Instead)
				plain.follow(t, b.Play(p, a), w.After)
			}
		}
	}
	for _, k := range []Kind{Best, WinDraw, WinLoss, DrawLoss, Slower, Sooner} {
		if kinds[k] == 0 {
			t.Errorf("no move is %s: %v", k, kinds)
		}
	}
	for _, h := range []How{Drawn, AtOnce, Double, Stacked, Zugzwang} {
		if ends[h] == 0 {
			t.Errorf("no line ends by %s: %v", h, ends)
		}
	}
}

// follow checks that each move of a line keeps the score, and what is said of the line's end.
func (s scorer) follow(t *testing.T, p game.Position, l Line) {
	t.Helper()
	b, start := s.b, p
	if want := game.ResultOf(s.score(p)); l.Result != want {
		t.Errorf("%v %+v: the line's result is %v, want %v", b.Rules(), p, l.Result, want)
	}
	for i, a := range l.Moves {
		if !b.CanPlay(p, a) || s.score(p) != -s.score(b.Play(p, a)) {
			t.Fatalf("%v %+v: move %d of the line %v is not the best", b.Rules(), start, i, l.Moves)
		}
		if e := l.Ends; i == e.At && (e.How == Double || e.How == Stacked || e.How == Zugzwang) {
			s.decided(t, p, e)
		}
		p = b.Play(p, a)
	}
	e := l.Ends
	switch b.Result(p) {
	case game.Draw:
		if e.How != Drawn {
			t.Errorf("%v %+v: the drawn line ends by %s", b.Rules(), start, e.How)
		}
	case game.Loss:
		if e.Side != (p.Plies()+1)%2 || e.How == AtOnce != (len(l.Moves) < 2) || e.How == Open || e.How == Drawn {
			t.Errorf("%v %+v: the line %v ends with %+v", b.Rules(), start, l.Moves, e)
		}
	default:
		t.Errorf("%v %+v: the line %v has no end", b.Rules(), start, l.Moves)
	}
}

// decided checks an ending by the moves of both sides: whatever the loser plays at p, the winner completes a line at once.
func (s scorer) decided(t *testing.T, p game.Position, e Ending) {
	t.Helper()
	b := s.b
	cells, now := game.Bits{}, b.Completes(p.Other()).And(b.Legal(p))
	for l := b.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
		wins := b.Wins(b.PlayCell(p, l.LowBit()))
		if wins.IsZero() {
			t.Errorf("%v %+v: is no %s: the loser has a move", b.Rules(), p, e.How)
		}
		cells = cells.Or(wins)
	}
	if e.How == Stacked {
		cells = cells.Or(now) // of which the loser takes the lower one
	}
	if !e.Cells.AndNot(cells).IsZero() || e.Cells.IsZero() {
		t.Errorf("%v %+v: %s names cells %v that win nothing, of %v", b.Rules(), p, e.How, e.Cells, cells)
	}
	if want := map[int]How{0: Zugzwang, 1: Stacked}[now.OnesCount()]; want != "" && e.How != want || want == "" && e.How != Double {
		t.Errorf("%v %+v: %d cells to take at once, and the ending is %s", b.Rules(), p, now.OnesCount(), e.How)
	}
}

// Reviews that continue each other end with what one review finds, and bounds only improve.
func TestReviewContinue(t *testing.T) {
	b := game.MustBoard(gametest.Must(game.ParseRules("5x4x4"))(t))
	moves := randomGame(b, 5)
	want := gametest.Must(New(b, Options{}))(t).Game(t.Context(), moves)
	var from Earlier
	improved := 0
	for nodes := uint64(100); nodes < 1<<30 && !reflect.DeepEqual(from.Scores, want.Scores); nodes *= 2 {
		g := gametest.Must(New(b, Options{Nodes: nodes}))(t).Continue(t.Context(), moves, from)
		for i, s := range g.Scores {
			if exact := want.Scores[i].Low; s.Low > exact || s.High < exact || from.Scores != nil && (s.Low < from.Scores[i].Low || s.High > from.Scores[i].High) {
				t.Fatalf("%d nodes, position %d: bounds %v after %v, is %d", nodes, i, s, from.Scores, exact)
			}
		}
		if from.Scores != nil && !reflect.DeepEqual(g.Scores, from.Scores) {
			improved++
		}
		from = Earlier{g.Scores, g.Limit}
	}
	if !reflect.DeepEqual(from.Scores, want.Scores) || improved == 0 {
		t.Errorf("after %d better reviews %v, want %v", improved, from.Scores, want.Scores)
	}
}

// The bounds hold, whatever the nodes, and with the same nodes a review is the same.
func TestReviewBounds(t *testing.T) {
	b := game.MustBoard(gametest.Must(game.ParseRules("5x4x4"))(t))
	full := gametest.Must(New(b, Options{}))(t)
	for seed := range uint64(6) {
		moves := randomGame(b, seed)
		want := full.Game(t.Context(), moves)
		open := -1
		for _, nodes := range []uint64{1, 1000, 30_000, 1 << 40} {
			g := gametest.Must(New(b, Options{Nodes: nodes}))(t).Game(t.Context(), moves)
			again := gametest.Must(New(b, Options{Nodes: nodes}))(t).Game(t.Context(), moves)
			if !reflect.DeepEqual(g, again) {
				t.Fatalf("%v: two reviews of %d nodes differ: %s", moves, nodes, cmp.Diff(g, again))
			}
			left := 0
			for i, s := range g.Scores {
				if exact := want.Scores[i].Low; s.Low > exact || s.High < exact {
					t.Errorf("%v, %d nodes: after %d moves %v, is %d", moves, nodes, i, s, exact)
				}
				left += s.High - s.Low
			}
			for i, m := range g.Marks {
				agrees(t, moves, i, m, want.Marks[i])
				if g.Critical[i] != Unknown && g.Critical[i] != want.Critical[i] {
					t.Errorf("%v, %d nodes: move %d is critical %v, is %v", moves, nodes, i, g.Critical[i], want.Critical[i])
				}
			}
			if open >= 0 && left > open {
				t.Errorf("%v: %d nodes leave %d open, fewer nodes %d", moves, nodes, left, open)
			}
			open = left
		}
		if open != 0 {
			t.Errorf("%v: %d are open with all nodes", moves, open)
		}
	}
}

// agrees checks that a mark says nothing wrong of a move whose mark is exact.
func agrees(t *testing.T, moves []int, i int, m, exact Mark) {
	t.Helper()
	ok := m == exact
	switch m.Kind {
	case NotProved:
		ok = true
	case Kept:
		ok = !exact.Lost()
	case Worse:
		ok = exact.Mistake()
	case Slower, Sooner:
		ok = ok || m.AtLeast && m.Kind == exact.Kind && m.By <= exact.By
	}
	if !ok {
		t.Errorf("%v: move %d is marked %+v, is %+v", moves, i, m, exact)
	}
}

// A review whose context has ended has what the rules and the game alone say, and nothing wrong.
func TestReviewCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, b := range gametest.Boards() {
		r := gametest.Must(New(b, Options{Book: solver.ShippedBook(b.Rules())}))(t)
		g := r.Game(ctx, randomGame(b, 3))
		for i, s := range g.Scores {
			if s.Low > s.High {
				t.Errorf("%v: after %d moves %v", b.Rules(), i, s)
			}
		}
	}
}

// Scores of known positions lie within the bounds that a review of the moves to them has.
func TestReviewTruth(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	r := gametest.Must(New(b, Options{Book: solver.ShippedBook(b.Rules()), Nodes: 20_000}))(t)
	exact, all := 0, 0
	for _, file := range []string{"pons/Test_L3_R1", "pons/Test_L2_R1", "book6_7x6x4"} {
		for i, line := range gametest.DataLines(t, file) {
			if i%40 != 0 {
				continue
			}
			var text string
			var score int
			fields := strings.Fields(line)
			text = fields[0]
			for _, c := range fields[1] {
				if c >= '0' && c <= '9' {
					score = 10*score + int(c-'0')
				}
			}
			if fields[1][0] == '-' {
				score = -score
			}
			_, moves, err := b.ParseMoves(text)
			gametest.OK(t, err)
			g := r.Game(t.Context(), moves)
			s := g.Scores[len(moves)]
			if s.Low > score || s.High < score {
				t.Errorf("%s: %v, is %d", text, s, score)
			}
			if all++; s.Exact() {
				exact++
			}
		}
	}
	if exact < all*9/10 {
		t.Errorf("%d of %d scores are found", exact, all)
	}
}
