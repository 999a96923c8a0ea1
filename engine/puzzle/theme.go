package puzzle

import (
	"slices"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// Theme classifies a puzzle: it is the first of the themes below that applies. A threat is a cell in which a side would win with its next
// stone.
type Theme string

// The themes. "After the move" the other side is to move. The first two occur only in won positions.
const (
	// DoubleThreat: after the move there are two threats, or one that the other side can block only by enabling the next stone above it to
	// win.
	DoubleThreat Theme = "double-threat"
	// Attack: each stone of the winner makes a threat that the other side must block, until there is a double threat.
	Attack Theme = "attack"
	// Sacrifice: the move is right below a cell in which its side would win, so that the other side can take that cell.
	Sacrifice Theme = "sacrifice"
	// Defence: the other side has an attack: if the side to move passed, it would lose to one.
	Defence Theme = "defence"
	// Tempo: the move makes a threat, which forces the reply.
	Tempo Theme = "tempo"
	// Zugzwang: after the move the other side loses because it must move. If it could pass, it would not lose.
	Zugzwang Theme = "zugzwang"
	// Plan: any other win.
	Plan Theme = "plan"
	// Hold: any other draw.
	Hold Theme = "hold"
)

var themes = []Theme{DoubleThreat, Attack, Sacrifice, Defence, Tempo, Zugzwang, Plan, Hold}

// Themes returns all themes in the order above.
func Themes() []Theme { return slices.Clone(themes) }

// ThemeOf returns the theme of a puzzle with the given position, result and move. It returns "" if the prober's nodes do not suffice.
func ThemeOf(prober *solver.Prober, b *game.Board, p game.Position, result game.Result, move int) Theme {
	cell := b.Cell(p, move)
	after := b.PlayCell(p, cell)
	switch {
	case result == game.Win && forks(b, after):
		return DoubleThreat
	case result == game.Win && attacks(b, p):
		return Attack
	case b.Rules().Gravity && !cell.Shl(1).And(b.Completes(p.Own)).And(b.Full()).IsZero():
		return Sacrifice
	case attacks(b, pass(p)):
		return Defence
	case !threats(b, after).IsZero():
		return Tempo
	case result == game.Draw:
		return Hold
	}
	switch prober.Probe(pass(after)) { // for the side that has just moved, as if the other side had passed
	case game.Ongoing:
		return ""
	case game.Win:
		return Plan
	}
	return Zugzwang
}

// pass returns the position with the other side to move.
func pass(p game.Position) game.Position { return game.Position{Own: p.Other(), All: p.All} }

// threats returns the cells in which the side not to move would win with the next stone.
func threats(b *game.Board, p game.Position) game.Bits { return b.Wins(pass(p)) }

// forks reports whether the side not to move has a double threat: the other side cannot win with its next stone, and whatever it blocks, it
// loses to the stone after that.
func forks(b *game.Board, p game.Position) bool {
	threat := threats(b, p)
	switch {
	case threat.IsZero() || !b.Wins(p).IsZero():
		return false
	case !threat.WithoutFirst().IsZero():
		return true
	}
	return !b.Wins(b.PlayCell(p, threat)).IsZero()
}

// mostAttack is the maximum number of positions of a search for attacks. No position of 7x6 comes near it; on large boards without gravity
// the search would otherwise not end.
const mostAttack = 100_000

// attacks reports whether the side to move has an attack: it can win with stones each of which makes a threat, so that the other side has
// only one reply. attacks returns false if it does not find one within mostAttack positions.
func attacks(b *game.Board, p game.Position) bool {
	left := mostAttack
	return attack(b, p, &left)
}

func attack(b *game.Board, p game.Position, left *int) bool {
	if !b.Wins(p).IsZero() {
		return true
	}
	if *left--; *left < 0 {
		return false
	}
	moves := b.Legal(p)
	if must := threats(b, p); !must.IsZero() {
		if !must.WithoutFirst().IsZero() {
			return false
		}
		moves = must
	}
	for ; !moves.IsZero(); moves = moves.WithoutFirst() {
		after := b.PlayCell(p, moves.LowBit())
		threat := threats(b, after)
		if threat.IsZero() || !b.Wins(after).IsZero() {
			continue
		}
		if !threat.WithoutFirst().IsZero() || attack(b, b.PlayCell(after, threat), left) {
			return true
		}
	}
	return false
}
