package score

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/evald/evald/engine/game"
)

// Set is a set of positions of each game, in which mirror images are equal.
type Set map[game.Rules]map[game.Position]bool

// ReadSet reads the positions of files in all formats of Reader.
func ReadSet(paths ...string) (Set, error) {
	s := Set{}
	for _, path := range paths {
		if err := s.read(path); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return s, nil
}

func (s Set) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := NewReader(f, Place{})
	r.Unsolved = true
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		s.Add(p.State.Board, p.State.Position)
	}
}

// Add adds a position and its mirror image.
func (s Set) Add(b *game.Board, p game.Position) {
	of := s[b.Rules()]
	if of == nil {
		of = map[game.Position]bool{}
		s[b.Rules()] = of
	}
	key, _ := b.Canonical(p)
	of[key] = true
}

// Has reports whether the set has a position or its mirror image.
func (s Set) Has(b *game.Board, p game.Position) bool {
	of := s[b.Rules()]
	if len(of) == 0 {
		return false
	}
	key, _ := b.Canonical(p)
	return of[key]
}

// Len is the number of positions.
func (s Set) Len() (n int) {
	for _, of := range s {
		n += len(of)
	}
	return n
}
