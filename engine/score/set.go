package score

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"github.com/evald/evald/engine/game"
)

// Set is a set of positions up to mirror image, by rules.
type Set map[game.Rules]map[game.Position]bool

// ReadSet reads the positions of files whose lines begin with one: sets of evald positions and of others that have scores behind
// it, or positions alone. Lines of JSON with Kaggle's board are positions too. Blank lines and those that begin with # are skipped.
func ReadSet(paths ...string) (Set, error) {
	s := Set{}
	for _, path := range paths {
		if err := s.read(path); err != nil {
			return nil, err
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
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	var parser game.Parser
	for number := 1; lines.Scan(); number++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		if text[0] != '{' {
			text = strings.Fields(text)[0]
		}
		state, err := parser.Parse(text)
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", path, number, err)
		}
		s.Add(state.Board, state.Position)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
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
