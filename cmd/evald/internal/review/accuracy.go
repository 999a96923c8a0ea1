package review

// Critical says whether some legal move of a position gives the result away: it turns a win into a draw or a loss, or a draw into a loss.
type Critical int8

// A lost position has No, because no move can make it worse.
const (
	Unknown Critical = iota
	No
	Yes
)

// Phase is a third of a game, by the share of the board's cells that are full before a move.
type Phase int

// The phases.
const (
	Opening Phase = iota
	Middle
	End
	phases
)

// PhaseOf returns the phase of a move after a number of stones.
func PhaseOf(stones, cells int) Phase { return Phase(min(3*stones/cells, int(End))) }

// Accuracy counts the moves of one side in one phase. The accuracy is Kept / Critical.
type Accuracy struct {
	Critical int `json:"critical"` // moves that could have given the result away
	Kept     int `json:"kept"`     // critical moves that kept the result
	Slower   int `json:"slower"`   // moves of the kinds Slower and Sooner, which kept the result and lost time
	Open     int `json:"open"`     // moves for which one of these facts is not proved
}

// Accuracy returns the counts by side, 0 moved first, and phase.
func (g *Review) Accuracy(cells int) (counts [2][phases]Accuracy) {
	for i, m := range g.Marks {
		a := &counts[i%2][PhaseOf(i, cells)]
		switch {
		case m.Kind == NotProved || m.Kind == Worse || g.Critical[i] == Unknown:
			a.Open++
		case g.Critical[i] == Yes:
			a.Critical++
			if !m.Lost() {
				a.Kept++
			}
		}
		if m.Kind == Slower || m.Kind == Sooner {
			a.Slower++
		}
	}
	return counts
}
