package game

// Outlook is what the rules alone foresee of a position.
type Outlook struct {
	// Result is the side to move's with best play, or Ongoing where the rules do not decide.
	Result Result

	// Moves is the set of cells to play: those that win at once; where all is lost, which takes the other side one more
	// stone, every legal cell; else those after which the other side has no winning stone. It is never empty.
	Moves Bits

	// Next is the position that Plies forced moves, each the only one in Moves, lead to: the first one with several moves, or
	// a decided one. Where it is decided by a full board or not at all, what is said of Next holds for the position itself,
	// seen from the other side where Plies is odd.
	Next  Position
	Plies int
}

// Outlook looks at the stones that win at once, and follows forced moves to their end. The game at p must not be over.
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
