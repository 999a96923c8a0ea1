package game_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// slowCheck is Check cell by cell and line by line; without a fault it is the zero value.
func slowCheck(b *game.Board, p game.Position, s game.Strictness) (e game.StonesError) {
	e, bad := slowFaults(b, p, s)
	if !bad {
		return game.StonesError{}
	}
	_, still := slowFaults(b, game.Position{Own: p.All.Xor(p.Own), All: p.All}, s)
	e.Swapped = !still
	return e
}

func slowFaults(b *game.Board, p game.Position, s game.Strictness) (e game.StonesError, bad bool) {
	cells := map[int]bool{}
	for c := range b.Columns() {
		for row := range b.Rows() {
			i := b.Index(c, row)
			cells[i] = true
			if b.Rules().Gravity && row > 0 && p.All.Has(i) && !p.All.Has(b.Index(c, row-1)) {
				e.Floating = e.Floating.Or(game.Bits{Lo: 1}.Shl(uint(i)))
			}
		}
	}
	for i := range game.MaxBits {
		one := game.Bits{Lo: 1}.Shl(uint(i))
		if p.All.Has(i) && !cells[i] {
			e.Outside = e.Outside.Or(one)
		}
		if p.Own.Has(i) && !p.All.Has(i) {
			e.Alone = e.Alone.Or(one)
		}
		if p.Own.Has(i) {
			e.Own++
		}
		if p.All.Has(i) != p.Own.Has(i) {
			e.Other++
		}
	}
	if s == game.InTurn {
		e.Uneven = e.Own != e.Other && e.Own != e.Other-1
		for _, line := range b.Lines() {
			e.Won = e.Won || line.AndNot(p.Own).IsZero()
		}
	}
	return e, e.Uneven || e.Won || !e.Alone.Or(e.Outside).Or(e.Floating).IsZero()
}

// Check finds what slowCheck finds: in positions of play, in positions with a few changed bits, and in random bits.
func TestCheck(t *testing.T) {
	r := gametest.Rand(11)
	refused, passed := 0, 0
	for _, b := range gametest.Boards() {
		var all []game.Position
		first := map[game.Strictness]int{} // the first with a fault
		for n := range 3000 {
			p := gametest.Position(r, b, r.IntN(b.Cells()+1), false)
			changed := r.IntN(4)
			for range changed {
				one := game.Bits{Lo: 1}.Shl(uint(r.IntN(game.MaxBits)))
				if r.IntN(2) == 0 {
					one = game.Bits{Lo: 1}.Shl(uint(r.IntN(b.Cells() + b.Columns())))
				}
				if p.All = p.All.Xor(one); r.IntN(3) == 0 {
					p.Own = p.Own.Xor(one)
				}
			}
			if changed == 0 && r.IntN(8) == 0 {
				p = game.Position{Own: bits(r), All: bits(r)}
			} else if changed == 0 && r.IntN(4) == 0 {
				p.Own = p.Other()
			} else if changed == 0 && b.Check(p, game.InTurn) != nil {
				t.Fatalf("%v: %+v of play is refused: %v", b.Rules(), p, b.Check(p, game.InTurn))
			}
			for _, s := range []game.Strictness{game.Placed, game.InTurn} {
				want, got := slowCheck(b, p, s), game.StonesError{}
				err := b.Check(p, s)
				if e, ok := errors.AsType[*game.StonesError](err); ok {
					got = *e
				}
				if got != want || (err != nil) != (want != game.StonesError{}) {
					t.Fatalf("%v: %+v at level %d: %+v (%v), want %+v", b.Rules(), p, s, got, err, want)
				}
				if _, found := first[s]; err == nil {
					passed++
				} else if refused++; !found {
					first[s] = n
				}
			}
			all = append(all, p)
		}
		for s, want := range first {
			if i, err := b.CheckAll(all, s); i != want || fmt.Sprint(err) != fmt.Sprint(b.Check(all[i], s)) {
				t.Errorf("%v: of all position %d is refused at level %d, want %d", b.Rules(), i, s, want)
			}
			if _, err := b.CheckAll(all[:want], s); err != nil {
				t.Errorf("%v: the positions before: %v", b.Rules(), err)
			}
		}
	}
	if passed < 10000 || refused < 10000 {
		t.Errorf("%d passed and %d were refused: the positions are too much alike", passed, refused)
	}
}

// The service checks every row of every request: a position without fault takes no memory.
func TestCheckAllocatesNothing(t *testing.T) {
	for _, b := range gametest.Boards() {
		p := gametest.Position(gametest.Rand(13), b, b.Cells()/2, false)
		if n := testing.AllocsPerRun(100, func() { _ = b.Check(p, game.InTurn) }); n != 0 {
			t.Errorf("%v: %v allocations", b.Rules(), n)
		}
	}
}

func bits(r *rand.Rand) game.Bits { return game.Bits{Lo: r.Uint64(), Hi: r.Uint64()} }

// The first cell of a flat board that is wrong, from the top left, is the one that the error names.
func TestFromKaggleNamesTheFirstCell(t *testing.T) {
	r := gametest.Rand(12)
	said := map[string]int{}
	for _, b := range gametest.Boards() {
		for range 1000 {
			p := gametest.Position(r, b, r.IntN(b.Cells()+1), false)
			cells := game.State{Board: b, Position: p, Mark: 1}.Kaggle()
			for range r.IntN(4) {
				cells[r.IntN(len(cells))] = r.IntN(5) - 1
			}
			floats := func(cells []int, i int) bool {
				below := i + b.Columns()
				return b.Rules().Gravity && cells[i] != 0 && below < len(cells) && cells[below] == 0
			}
			hint := "; is the board upside down? its first row is the top one"
			turned := make([]int, len(cells))
			for i := range cells {
				turned[i] = cells[len(cells)-b.Columns()-i+2*(i%b.Columns())]
			}
			for i := range cells {
				if floats(turned, i) {
					hint = ""
				}
			}
			want := ""
			for i, v := range cells {
				if v < 0 || v > 2 {
					want = "must be 0, 1 or 2"
				} else if floats(cells, i) {
					want = fmt.Sprintf("floats: the cell below it, %d, is empty%s", i+b.Columns(), hint)
				}
				if want != "" {
					want = fmt.Sprintf("board[%d] \"%d\": %s", i, v, want)
					break
				}
			}
			got := ""
			s, err := b.FromKaggle(cells, 1+r.IntN(2))
			if err != nil {
				got = err.Error()
			} else if again := s.Kaggle(); fmt.Sprint(again) != fmt.Sprint(cells) {
				t.Fatalf("%v: %v came back as %v", b.Rules(), cells, again)
			}
			if got != want {
				t.Fatalf("%v: %v: error %q, want %q", b.Rules(), cells, got, want)
			}
			said[want[max(0, len(want)-8):]]++
		}
	}
	if len(said) < 3 {
		t.Errorf("errors end %v: the boards are too much alike", said)
	}
}
