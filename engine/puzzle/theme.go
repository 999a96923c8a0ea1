package puzzle

import (
	"slices"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// Theme classifies a puzzle: the first of the themes below that fits. A threat is a cell in which the next stone of a side would win.
type Theme string

// The themes. "After the move" the other side is to move. The first two occur only in won positions.
const (
	// DoubleThreat: after the move there are two threats, or one whose block lets the next stone win above it.
	DoubleThreat Theme = "double-threat"
	// Attack: each stone of the winner makes a threat that must be blocked, until there is a double threat.
	Attack Theme = "attack"
	// Sacrifice: the stone is placed right below a cell in which its side would win, so that the other side can take that cell.
	Sacrifice Theme = "sacrifice"
	// Defence: the other side has an attack: it would win by one if the side to move passed.
	Defence Theme = "defence"
	// Tempo: the move makes a threat, and so gains time.
	Tempo Theme = "tempo"
	// Zugzwang: after the move the other side loses because it must move. If it could pass, it would not lose.
	Zugzwang Theme = "zugzwang"
	// Plan: any other win.
	Plan Theme = "plan"
	// Hold: any other draw.
	Hold Theme = "hold"
)

var themes = []Theme{DoubleThreat, Attack, Sacrifice, Defence, Tempo, Zugzwang, Plan, Hold}

// Themes returns all themes in their order.
func Themes() []Theme { return slices.Clone(themes) }

// ThemeOf returns the theme of a puzzle with this position, result and move. It is "" if the prober's nodes do not suffice.
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
	switch prober.Probe(pass(after)) { // for the side that has just moved, as if the other had passed
	case game.Ongoing:
		return ""
	case game.Win:
		return Plan
	}
	return Zugzwang
}

// pass returns the same stones with the other side to move.
func pass(p game.Position) game.Position { return game.Position{Own: p.Other(), All: p.All} }

// threats returns the cells in which the side not to move would win with the next stone.
func threats(b *game.Board, p game.Position) game.Bits { return b.Wins(pass(p)) }

// forks reports whether the side not to move has a double threat: the other side cannot win with its next stone, and every block loses to
// the stone after it.
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

// mostAttack bounds the number of positions of a search for attacks. No position of 7x6 comes near it; on large boards without gravity the
// search would not end.
const mostAttack = 100_000

// attacks reports whether the side to move wins by stones that each make a threat, so that the other side has only one reply. An attack
// that is not found within mostAttack positions is ignored.
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
