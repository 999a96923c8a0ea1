package puzzle

import (
	"testing"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/solver"
)

// table is a position on an array of cells with a player to move, 1 or 2. It says what themes are by trying every stone.
type table struct {
	*gametest.Naive
	player int
}

// after returns the position after a stone of the player, or ok false if there is no room for it.
func (t table) after(a int) (next table, ok bool) {
	next = table{gametest.NewNaive(t.Rules), 3 - t.player}
	for c := range t.Cell {
		copy(next.Cell[c], t.Cell[c])
	}
	for row := range next.Cell[a] {
		if next.Cell[a][row] == 0 {
			next.Cell[a][row] = t.player
			return next, true
		}
	}
	return next, false
}

// wins lists the columns in which the player to move wins with the next stone.
func (t table) wins() (columns []int) {
	for a := range t.Rules.Columns {
		if next, ok := t.after(a); ok && next.Won(t.player) {
			columns = append(columns, a)
		}
	}
	return columns
}

func (t table) pass() table { return table{t.Naive, 3 - t.player} }

// lost reports whether the player to move does not win at once, has a threat to meet, and loses to the next stone whatever it plays.
func (t table) lost() bool {
	if len(t.wins()) > 0 || len(t.pass().wins()) == 0 {
		return false
	}
	for a := range t.Rules.Columns {
		if next, ok := t.after(a); ok && len(next.wins()) == 0 {
			return false
		}
	}
	return true
}

// attacks reports whether the player to move wins by threats alone.
func (t table) attacks() bool {
	if len(t.wins()) > 0 {
		return true
	}
	for a := range t.Rules.Columns {
		next, ok := t.after(a)
		if !ok || len(next.wins()) > 0 {
			continue // the other side wins first
		}
		switch threats := next.pass().wins(); {
		case len(threats) > 1:
			return true
		case len(threats) == 1:
			if blocked, _ := next.after(threats[0]); blocked.attacks() {
				return true
			}
		}
	}
	return false
}

// sacrifices reports whether a stone is put right below a cell where its side would win.
func (t table) sacrifices(a int) bool {
	next, _ := t.after(a)
	above, ok := next.pass().after(a) // the same side's stone again
	if !ok {
		return false
	}
	for row := range above.Cell[a] { // without the stone below
		if above.Cell[a][row] != t.Cell[a][row] {
			above.Cell[a][row] = 0
			break
		}
	}
	return above.Won(t.player)
}

// slowTheme is ThemeOf. passed is the result of the position after the move for the side that made it, if the other side passes.
func slowTheme(t table, result game.Result, move int, passed func() game.Result) Theme {
	next, _ := t.after(move)
	win := result == game.Win
	switch {
	case win && next.lost():
		return DoubleThreat
	case win && t.attacks():
		return Attack
	case t.sacrifices(move):
		return Sacrifice
	case t.pass().attacks():
		return Defence
	case len(next.pass().wins()) > 0:
		return Tempo
	case !win:
		return Hold
	case passed() != game.Win:
		return Zugzwang
	}
	return Plan
}

// Themes are what their definitions say, and the same for mirror images.
func TestThemes(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	prober := gametest.Must(solver.NewProber(b, 1<<20))(t)
	s := gametest.Must(solver.New(b, solver.Options{}))(t)
	tested := map[Theme]int{}
	puzzles := all(t)
	gametest.Rand(5).Shuffle(len(puzzles), func(i, j int) { puzzles[i], puzzles[j] = puzzles[j], puzzles[i] })
	for _, p := range puzzles {
		if tested[p.Theme] >= 8 && !gametest.Soak() {
			continue
		}
		tested[p.Theme]++
		at := table{gametest.NewNaive(b.Rules()), 1}
		for _, a := range p.Moves {
			at.Play(a)
		}
		at.player = at.Mover()
		slow := slowTheme(at, p.Result, p.Move, func() game.Result {
			return game.ResultOf(gametest.Must(s.WDL(t.Context(), pass(b.Play(p.Position(), p.Move))))(t).Score)
		})
		mirrored := ThemeOf(prober, b, b.Mirror(p.Position()), p.Result, b.MirrorAction(p.Move))
		if slow != p.Theme || mirrored != p.Theme {
			t.Errorf("%v: by definition %s, of the mirror image %s", &p, slow, mirrored)
		}
	}
	for _, theme := range Themes() {
		if tested[theme] == 0 {
			t.Errorf("no puzzle has theme %s", theme)
		}
	}
}

// Positions made by hand, one for each theme that the next stones decide.
func TestThemesByHand(t *testing.T) {
	b := game.MustBoard(game.Connect4)
	prober := gametest.Must(solver.NewProber(b, 1<<16))(t)
	for _, c := range []struct {
		moves  string
		move   int // from 1
		result game.Result
		want   Theme
	}{
		{"4455", 3, game.Win, DoubleThreat}, // three in the bottom row, open at both ends
		{"4455", 6, game.Win, DoubleThreat},
		{"445", 3, game.Draw, Defence}, // the other side would have an open three
		{"44", 4, game.Draw, Hold},
	} {
		p, _, err := b.ParseMoves(c.moves)
		gametest.OK(t, err)
		if got := ThemeOf(prober, b, p, c.result, c.move-1); got != c.want {
			t.Errorf("%s, %d: %s, want %s", c.moves, c.move, got, c.want)
		}
	}
}

// On a large board without gravity the search for attacks ends.
func TestAttackEnds(t *testing.T) {
	b := game.MustBoard(game.Rules{Rows: 9, Columns: 9, InARow: 5})
	random := gametest.Rand(2)
	for range 20 {
		attacks(b, gametest.Position(random, b, 30, true))
	}
}
