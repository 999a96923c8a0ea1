package heuristic

import (
	"unsafe"

	"github.com/evald/evald/engine/game"
)

// lanes is how many positions scoreGroups takes at once.
const lanes = 2

// scoreGroups reads own.Lo and all.Lo of positions laid out like this.
var _ = [1]struct{}{}[unsafe.Sizeof(game.Position{})-32|unsafe.Offsetof(game.Position{}.All)-16|unsafe.Offsetof(game.Bits{}.Lo)]

// scoreGroups is Bitsquares.Score for groups of 2 positions of a 64-bit board with four in a row, bit for bit.
//
//go:noescape
func scoreGroups(ps *game.Position, groups int, full uint64, shifts *[4]uint, weight *[game.MaxBits + 1]float64, out *float64)
