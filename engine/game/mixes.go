package game

// NamedMix is a name that ParseMix accepts in place of a list of games.
type NamedMix struct {
	Name  string
	Games string // in the form of ParseMix
}

// AnyMix is the name of the mix on which the network for many boards is trained.
const AnyMix = "any"

// AnyRange contains the games of all Mixes, and many more. A network that was trained on AnyMix answers all games of this range.
func AnyRange() Ranges {
	return Ranges{
		{Columns: [2]int{3, 12}, Rows: [2]int{3, 13}, InARow: [2]int{3, 6}, Gravity: true},
		{Columns: [2]int{3, 6}, Rows: [2]int{3, 6}, InARow: [2]int{3, 6}},
	}
}

// Mixes returns the named mixes: AnyMix, 48 games, and "unseen", ten other games of AnyRange. They have no game in common, because networks
// are trained on the first and tested on the second.
func Mixes() []NamedMix {
	return []NamedMix{
		{AnyMix, anyGames},
		{"unseen", unseenGames},
	}
}

// The smallest boards have small shares, because they have only a few thousand positions. 7x6x4 has the largest share, because it is the
// game that most people play. Four in a row without gravity has large shares, because few games show the network such boards.
const (
	anyGames = "4x3x3=0.3,4x4x3=0.3,5x4x3=0.5,5x7x3=0.5,7x6x3=0.5," +
		"4x4x4=0.5,5x4x4=0.7,4x5x4=0.7,5x5x4,6x4x4,6x5x4,5x7x4,6x6x4,7x5x4,7x6x4=8,7x7x4=1.5," +
		"4x9x4,11x4x4,9x5x4,8x7x4=1.5,10x6x4,8x8x4=1.5,9x7x4=1.5,12x9x4," +
		"5x5x5=0.7,6x6x5,7x6x5=1.5,8x7x5,5x12x5,8x8x5,9x7x5=1.5,10x9x5=1.5,11x10x5=1.5," +
		"7x7x6,8x8x6,9x7x6,10x9x6,6x13x6=0.7," +
		"3x3x3free=0.2,4x4x3free=0.3,4x4x4free=0.5,5x4x4free=2,4x5x4free=2,6x5x4free=3,5x6x4free=3,6x6x4free=2,5x5x5free=0.7,6x6x5free=0.7"
	unseenGames = "8x6x4,6x7x4,10x5x4,5x6x4,9x8x4,6x5x3,7x7x5,10x8x5,9x6x6,5x5x4free"
)
