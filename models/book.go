package models

import (
	_ "embed"
	"sync"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
	"github.com/evald/evald/engine/solver/book"
)

//go:embed 7x6x4.book
var connect4Book []byte

var connect4 = sync.OnceValue(func() *book.Lazy {
	b, err := book.NewLazy(connect4Book)
	if err != nil {
		panic(err)
	}
	return b
})

// ExactBook returns the exact scores of a game's first plies that ship with the program, or nil if there are none. evald
// solve --build-book made them.
func ExactBook(r game.Rules) solver.Book {
	if b := connect4(); b.Rules() == r {
		return b
	}
	return nil
}
