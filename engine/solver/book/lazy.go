package book

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/evald/evald/engine/game"
)

// Lazy is a book in memory. It is read at the first question about a position that it may have. It is safe for concurrent
// use.
type Lazy struct {
	rules game.Rules
	plies int
	book  func() *Book
}

// NewLazy checks only the file's header. If the rest is damaged, the first question panics: the file is part of the program,
// so damage is a programmer's mistake.
func NewLazy(file []byte) (*Lazy, error) {
	rules, plies, err := parseHeader(file)
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	return &Lazy{rules, plies, sync.OnceValue(func() *Book {
		b, err := Read(bytes.NewReader(file))
		if err != nil {
			panic(fmt.Sprintf("book: %v", err))
		}
		return b
	})}, nil
}

// Rules are those of the game that the book is for.
func (l *Lazy) Rules() game.Rules { return l.rules }

// Plies is the number of stones up to which the book has scores.
func (l *Lazy) Plies() int { return l.plies }

// Score is the exact score of p for the side to move, if the book has it.
func (l *Lazy) Score(p game.Position) (score int, ok bool) {
	if p.Plies() > l.plies {
		return 0, false
	}
	return l.book().Score(p)
}
