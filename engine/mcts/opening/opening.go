// Package opening stores results of searches as an opening book: searched positions with the values of their moves. The book is a graph
// whose values are backed up as in minimax: a position has the value of its best move, and a move that of the position after it, if that
// was searched too. So a search improves the values of all positions from which its position is reached (Lincke, Strategies for the
// automatic construction of opening books, 2000).
//
// A book file is compressed by gzip (RFC 1952), which contains a checksum. It consists of
//
//	the line  "evald opening book 2 RULES N\n", RULES such as 7x6x4, N the number of positions
//	N times   All, then Own, as differences (below)
//	          visits of the search as uvarint
//	          for each legal move, in the order of the board's bits, the value that the search found, as a signed byte:
//	          127 a proved win, -127 a proved loss, else the value, -1..1, times 126
//
// The positions are canonical and sorted by All, then by Own, as 128-bit numbers. All is two uvarints: its high word minus that of the
// previous position, and its low word, minus that of the previous position if the high words are equal. Own is two uvarints, high and low.
// All values are for the side to move.
package opening

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// The value of a proved win, and the largest of other moves.
const (
	won  = 127
	most = 126
)

// Book holds results of searches for positions of one game. It treats mirror images as one position. It is safe for concurrent use.
type Book struct {
	board *game.Board

	mu    sync.RWMutex
	found map[game.Position]entry // of canonical positions
}

// entry is the result of the search of a position. Its values are those of the file.
type entry struct {
	visits uint32
	value  int8   // of the best move, backed up
	moves  []int8 // of each legal move, as the search found it
}

// New returns an empty book.
func New(b *game.Board) *Book {
	return &Book{board: b, found: map[game.Position]entry{}}
}

// Rules are the rules of the book's game.
func (b *Book) Rules() game.Rules { return b.board.Rules() }

// Positions is the number of positions in the book.
func (b *Book) Positions() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.found)
}

// Value returns the value of p, -1..1 for the side to move, or false if the book does not have p. Exactly 1 and -1 are proved.
func (b *Book) Value(p game.Position) (float64, bool) {
	p, _ = b.board.Canonical(p)
	b.mu.RLock()
	defer b.mu.RUnlock()
	e, ok := b.found[p]
	return float64(e.value) / won, ok
}

// Add stores the result of a search of the same game for its root, unless the book has one of as many visits or more.
func (b *Book) Add(t *mcts.Tree) {
	p, mirrored := b.board.Canonical(t.Root())
	var values [game.MaxBits]int8
	moves := t.Moves(nil)
	if len(moves) == 0 {
		return // the next stone wins, or the search was too short
	}
	for _, m := range moves {
		values[b.image(m.Action, mirrored)] = valueOf(m)
	}
	e := entry{visits: uint32(t.Visits())}
	for l := b.board.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
		e.moves = append(e.moves, values[b.board.Action(l.First())])
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.found[p].visits < e.visits {
		b.found[p] = e
		b.backUp(p)
	}
}

func (b *Book) image(action int, mirrored bool) int {
	if mirrored {
		return b.board.MirrorAction(action)
	}
	return action
}

// valueOf is the value of a searched move. The search considers a move without visits bad.
func valueOf(m mcts.Move) int8 {
	switch {
	case m.Result == game.Win:
		return won
	case m.Result == game.Loss:
		return -won
	case m.Visits == 0 && m.Result == game.Ongoing:
		return -most
	}
	return int8(math.Round(most * m.Q))
}

// BackUp updates the values of the positions of a game, the last one first. Positions that the book does not have are ignored.
func (b *Book) BackUp(line []game.Position) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range slices.Backward(line) {
		p, _ = b.board.Canonical(p)
		b.backUp(p)
	}
}

// BackUpAll updates the values of all positions. Unlike BackUp it also finds those from which other move orders lead to a new result.
func (b *Book) BackUpAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.SortedFunc(maps.Keys(b.found), func(p, q game.Position) int { return cmp.Compare(q.Plies(), p.Plies()) })
	for _, p := range all {
		b.backUp(p)
	}
}

// backUp updates the value of a canonical position from those after it. mu must be held.
func (b *Book) backUp(p game.Position) {
	if e, ok := b.found[p]; ok {
		_, e.value, _ = b.best(p, e, false)
		b.found[p] = e
	}
}

// best returns the best move of a canonical position and its value. With searched it considers only moves that end the game or lead to
// positions of the book; ok is false if there are none. mu must be held.
func (b *Book) best(p game.Position, e entry, searched bool) (action int, value int8, ok bool) {
	i := 0
	for l := b.board.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
		v, sure := e.moves[i], true
		next := b.board.PlayCell(p, l.LowBit())
		if r := b.board.Result(next); r != game.Ongoing {
			v = -won * int8(r.Value())
		} else {
			next, _ = b.board.Canonical(next)
			var after entry
			if after, sure = b.found[next]; sure {
				v = -after.value
			}
		}
		if i++; (sure || !searched) && (!ok || v > value) {
			action, value, ok = b.board.Action(l.First()), v, true
		}
	}
	return action, value, ok
}

// Move returns the move to play in p: of the moves whose positions the book also has, the best one. ok is false if there is none, or if it
// is proved to lose: a search can find the longest defence.
func (b *Book) Move(p game.Position) (action int, ok bool) {
	action, value, ok := b.choose(p, true)
	return action, ok && value > -won
}

// Next returns the move of p by which the book should grow: the best one, whether or not the book has the position after it. Deep
// searches of a move tend to lower its value, so other moves have their turns. ok is false if the book does not have p.
func (b *Book) Next(p game.Position) (action int, ok bool) {
	action, _, ok = b.choose(p, false)
	return action, ok
}

func (b *Book) choose(p game.Position, searched bool) (action int, value int8, ok bool) {
	p, mirrored := b.board.Canonical(p)
	b.mu.RLock()
	defer b.mu.RUnlock()
	e, ok := b.found[p]
	if !ok {
		return 0, 0, false
	}
	action, value, ok = b.best(p, e, searched)
	return b.image(action, mirrored), value, ok
}
