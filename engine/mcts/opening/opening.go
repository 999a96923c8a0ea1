// Package opening stores results of searches as an opening book: positions with their visits and values, with which later searches begin. A
// book grows with each game that is played; positions with few visits can be pruned.
//
// A book file is compressed by gzip (RFC 1952), which contains a checksum. It consists of
//
//	the line  "evald opening book 1 RULES N\n", RULES such as 7x6x4, N the number of positions
//	N times   All, then Own, as differences (below)
//	          visits as uvarint
//	          value, -1..1, as int16 of value * 32767, little-endian
//	          draw, 0..1, as a byte of draw * 255
//	          result: 0 ongoing, 1 win, 2 draw, 3 loss
//
// The positions are canonical and sorted by All, then by Own, as 128-bit numbers. All is two uvarints: its high word minus that of the
// previous position, and its low word, minus that of the previous position if the high words are equal. Own is two uvarints, high and low.
// All values are for the side to move.
package opening

import (
	"maps"
	"sync"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// Book holds results of searches for positions of one game. It treats mirror images as one position. It is safe for concurrent use.
type Book struct {
	board *game.Board

	mu    sync.RWMutex
	known map[game.Position]mcts.Known // of canonical positions
}

// New returns an empty book.
func New(b *game.Board) *Book {
	return &Book{board: b, known: map[game.Position]mcts.Known{}}
}

// Rules are the rules of the book's game.
func (b *Book) Rules() game.Rules { return b.board.Rules() }

// Positions is the number of positions in the book.
func (b *Book) Positions() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.known)
}

// Find returns the book's result for p, or false if p is not in the book. It is an argument for Tree.Warm.
func (b *Book) Find(p game.Position) (mcts.Known, bool) {
	q, _ := b.board.Canonical(p)
	b.mu.RLock()
	defer b.mu.RUnlock()
	k, ok := b.known[q]
	return k, ok
}

// Add stores a tree's results for positions of the same game that have at least the given number of visits (see Tree.Each). Of two results
// for a position it keeps a proved one, else the one with more visits. It does not add up visits, because a tree that began with the book
// counts the book's visits among its own.
func (b *Book) Add(t *mcts.Tree, visits int) {
	found := map[game.Position]mcts.Known{}
	t.Each(visits, func(p game.Position, k mcts.Known) {
		q, _ := b.board.Canonical(p)
		found[q] = better(found[q], k)
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	for p, k := range found {
		b.known[p] = better(b.known[p], k)
	}
}

func better(a, b mcts.Known) mcts.Known {
	aProved, bProved := a.Result != game.Ongoing, b.Result != game.Ongoing
	if aProved != bProved && bProved || aProved == bProved && a.Visits < b.Visits {
		a, b = b, a
	}
	a.Visits = max(a.Visits, b.Visits)
	return a
}

// Prune removes the positions with fewer than the given number of visits.
func (b *Book) Prune(visits int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.known, func(_ game.Position, k mcts.Known) bool { return int64(k.Visits) < int64(visits) })
}
