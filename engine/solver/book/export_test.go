package book

import (
	"fmt"
	"os"
	"sync"

	"github.com/evald/evald/engine/game"
)

// WithPacked returns the book with a packed one for positions with more stones.
func (l *Lazy) WithPacked(k *Packed) *Lazy {
	l.packed = func() *Packed { return k }
	return l
}

// connect4Parts is the folder of parts of the scores of 12 plies, until the book is complete.
const connect4Parts = "7x6x4-12.book.parts"

// Connect4Packed returns the packed book that ships for 7x6. Until then it returns one of the finished parts, and their positions; the other
// positions have the scores of random ones of the parts. If there are no parts either, it returns nil.
var Connect4Packed = sync.OnceValues(func() (k *Packed, parts []game.Position) {
	if k = shipsPacked(); k != nil {
		return k, nil
	}
	const stones = 12
	b := &Book{board: game.MustBoard(game.Connect4)}
	if _, err := os.Stat(connect4Parts); err != nil {
		return nil, nil
	}
	if err := b.enumerate(stones); err != nil {
		panic(err)
	}
	a := newBuilding(b, connect4Parts, nil)
	known := map[game.Position]int8{}
	for number := 0; ; number++ {
		from, to := a.part(number)
		if from == to {
			break
		}
		complete, err := a.read(number)
		if err != nil {
			panic(err)
		}
		for i := from; i < to && complete; i++ {
			p := b.position(b.levels[stones][a.lines[i]])
			parts = append(parts, p)
			known[p] = a.found[i]
		}
	}
	b.scores[stones] = make([]int8, len(b.levels[stones]))
	file, err := pack(b.board, stones, func(p game.Position) (int, bool) {
		p, _ = b.board.Canonical(p)
		score, ok := known[p]
		if _, open := b.find(p); open && !ok {
			score, ok = known[parts[p.Hash()%uint64(len(parts))]], true
		}
		return int(score), ok
	})
	if err == nil {
		k, err = ParsePacked(file)
	}
	if err != nil {
		panic(fmt.Sprintf("the parts of 12 plies: %v", err))
	}
	return k, parts
})

// CheckPacked returns an error if the board can have no packed book of this many stones.
func CheckPacked(b *game.Board, stones int) error {
	_, err := newPacked(b, stones)
	return err
}
