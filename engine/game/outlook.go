package game

// Outlook is what the next stones decide in a position, by the rules alone.
type Outlook struct {
	// Result is the result for the side to move with best play, or Ongoing if the next stones do not decide it.
	Result Result

	// Moves is the set of cells worth playing, empty only if the game is over. If some cells win at
	// once, Moves contains these. If the other side wins with its next stone after any move, Moves
	// contains all legal cells. Otherwise it contains the cells after which the other side cannot
	// win with its next stone.
	Moves Bits

	// Next is the position after Plies forced moves: the first that has several Moves or is decided. A move is forced if it is the only one
	// in Moves. The value of Next is that of the position itself, seen from the other side if Plies is odd.
	Next  Position
	Plies int
}

// Outlook reports what the rules decide: a finished game, or which stones win at once. It follows
// forced moves to their end.
func (b *Board) Outlook(p Position) (o Outlook) {
	if b.four64() {
		b.outlook64(p.Own.Lo, p.All.Lo, &o)
		return o
	}
	b.outlook(p, &o)
	return o
}

// Outlooks sets to[i] to the Outlook of ps[i]; to may be longer. It is faster than calls of
// Outlook, which copy arguments and results.
func (b *Board) Outlooks(to []Outlook, ps []Position) {
	if !b.four64() {
		for i, p := range ps {
			to[i] = Outlook{}
			b.outlook(p, &to[i])
		}
		return
	}
	to = to[:len(ps)]
	for i := range ps {
		b.outlook64(ps[i].Own.Lo, ps[i].All.Lo, &to[i])
	}
}

// four64 reports whether outlook64 knows the board.
func (b *Board) four64() bool { return b.four && b.rules.Gravity && 3*(b.stride+1) < 64 }

// outlook is Outlook on all boards. *o must be zero.
func (b *Board) outlook(p Position, o *Outlook) {
	o.Next = p
	result, moves := b.Result(p), Bits{}
	if result == Ongoing {
		result, moves = b.decide(p)
	}
	o.Moves = moves
	for result == Ongoing && moves.WithoutFirst().IsZero() {
		o.Next = b.PlayCell(o.Next, moves)
		if o.Plies++; o.Next.All == b.full {
			result = Draw
			break
		}
		result, moves = b.decide(o.Next)
	}
	if o.Result = result; o.Plies&1 == 1 {
		o.Result = result.Flip()
	}
}

// decide is Outlook without forced moves. The game at p must not be over.
func (b *Board) decide(p Position) (Result, Bits) {
	if wins := b.Wins(p); !wins.IsZero() {
		return Win, wins
	}
	if safe := b.Safe(p); !safe.IsZero() {
		return Ongoing, safe
	}
	return Loss, b.Legal(p)
}

// outlook64 is outlook for four in a row on boards with gravity and at most 64 bits. It sets all
// fields of *o. A side has a line exactly if one of its stones completes four, so the bits that
// complete four answer all questions.
func (b *Board) outlook64(own, all uint64, o *Outlook) {
	other, full, bottom := all^own, b.full.Lo, b.bottom.Lo
	wins, threats := CompletesFour(own, b.stride), CompletesFour(other, b.stride)
	result, moves, plies := Ongoing, uint64(0), 0
	if threats&other|wins&own != 0 || all == full {
		result = b.Result(Position{Bits{Lo: own}, Bits{Lo: all}})
	} else {
		result, moves = decide64((all+bottom)&full, wins, threats&full)
	}
	o.Moves = Bits{Lo: moves}
	for result == Ongoing && moves&(moves-1) == 0 {
		own, other, all = other, own|moves, all|moves
		if plies++; all == full {
			result = Draw
			break
		}
		wins, threats = threats, CompletesFour(other, b.stride)
		result, moves = decide64((all+bottom)&full, wins, threats&full)
	}
	o.Next = Position{Bits{Lo: own}, Bits{Lo: all}}
	if o.Plies = plies; plies&1 == 1 {
		result = result.Flip()
	}
	o.Result = result
}

// decide64 is decide in a position with these legal cells. wins and threats are the bits that
// complete four for the side to move and the cells that do for the other side.
func decide64(legal, wins, threats uint64) (Result, uint64) {
	if wins &= legal; wins != 0 {
		return Win, wins
	}
	safe := legal
	if now := threats & legal; now != 0 {
		if safe = now; now&(now-1) != 0 {
			return Loss, legal
		}
	}
	if safe &^= threats >> 1; safe == 0 {
		return Loss, legal
	}
	return Ongoing, safe
}
