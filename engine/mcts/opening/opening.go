// Package opening keeps what searches have found as an opening book: positions with their visits and values, which a
// tree begins with. A book grows with the games that are played and is pruned by visits.
//
// A book file is gzip (RFC 1952, whose checksum guards it) around
//
//	the line  "evald opening book 1 RULES N\n", RULES such as 7x6x4, N the number of positions
//	N times   All, then Own, as differences (below)
//	          visits as uvarint
//	          value, -1..1, as int16 of value * 32767, little-endian
//	          draw, 0..1, as a byte of draw * 255
//	          result: 0 ongoing, 1 win, 2 draw, 3 loss
//
// with positions canonical, in the order of All and then Own as 128-bit numbers. All is written as the uvarint of its
// high word less the last position's, then of its low word, less the last one's where the high word is the same; Own as
// two uvarints, high and low. All values are those of the side to move.
package opening

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/mcts"
)

// Book is what searches have found of one game's positions; mirror images are one position. It is safe for concurrent
// use.
type Book struct {
	board *game.Board

	mu    sync.RWMutex
	known map[game.Position]mcts.Known // of canonical positions
}

// New is a book without positions.
func New(b *game.Board) *Book {
	return &Book{board: b, known: map[game.Position]mcts.Known{}}
}

// Rules are those of the game that the book is for.
func (b *Book) Rules() game.Rules { return b.board.Rules() }

// Positions is how many the book has.
func (b *Book) Positions() int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.known)
}

// Find is what the book has of p. It is what Tree.Warm asks for.
func (b *Book) Find(p game.Position) (mcts.Known, bool) {
	q, _ := b.board.Canonical(p)
	b.mu.RLock()
	defer b.mu.RUnlock()
	k, ok := b.known[q]
	return k, ok
}

// Add takes over what a tree of the same game has found of positions with so many visits or more. Of two findings the
// proved one stays, then the one of more visits: a tree that was warmed counts the book's visits among its own.
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
	switch {
	case aProved != bProved && aProved, aProved == bProved && a.Visits >= b.Visits:
		a.Visits = max(a.Visits, b.Visits)
		return a
	}
	b.Visits = max(a.Visits, b.Visits)
	return b
}

// Prune forgets the positions with fewer visits.
func (b *Book) Prune(visits int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.known, func(_ game.Position, k mcts.Known) bool { return int64(k.Visits) < int64(visits) })
}

// sorted are the book's positions in the order of the file.
func (b *Book) sorted() []game.Position {
	return slices.SortedFunc(maps.Keys(b.known), compare)
}

func compare(p, q game.Position) int {
	return cmp.Or(
		cmp.Compare(p.All.Hi, q.All.Hi), cmp.Compare(p.All.Lo, q.All.Lo),
		cmp.Compare(p.Own.Hi, q.Own.Hi), cmp.Compare(p.Own.Lo, q.Own.Lo),
	)
}
