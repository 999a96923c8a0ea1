package game

// Outlook is what the next stones decide in a position, by the rules alone.
type Outlook struct {
	// Result is the result for the side to move with best play, or Ongoing if the next stones do not decide it.
	Result Result

	// Moves is the set of cells worth playing, never empty. If some cells win at once, Moves contains these. If the other side wins with
	// its next stone after any move, Moves contains all legal cells. Otherwise it contains the cells after which the other side cannot win
	// with its next stone.
	Moves Bits

	// Next is the position after Plies forced moves: the first that has several Moves or is decided. A move is forced if it is the only one
	// in Moves. The value of Next is that of the position itself, seen from the other side if Plies is odd.
	Next  Position
	Plies int
}

// Outlook checks which stones win at once, and follows forced moves to their end. The game at p must not be over.
func (b *Board) Outlook(p Position) Outlook {
	o := Outlook{Next: p}
	for {
		result, moves := b.decide(o.Next)
		if o.Plies == 0 {
			o.Moves = moves
		}
		if result == Ongoing && moves.WithoutFirst().IsZero() {
			o.Next = b.PlayCell(o.Next, moves)
			o.Plies++
			if o.Next.All != b.full {
				continue
			}
			result = Draw
		}
		if o.Result = result; o.Plies&1 == 1 {
			o.Result = result.Flip()
		}
		return o
	}
}

// decide is Outlook without forced moves.
func (b *Board) decide(p Position) (Result, Bits) {
	if wins := b.Wins(p); !wins.IsZero() {
		return Win, wins
	}
	if safe := b.Safe(p); !safe.IsZero() {
		return Ongoing, safe
	}
	return Loss, b.Legal(p)
}
