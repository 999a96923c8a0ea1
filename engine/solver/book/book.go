// Package book keeps the exact scores of all positions of a game's first plies.
//
// A book file holds no positions. The positions of the first plies are enumerated in a fixed order, and the file has one
// byte for each. A position and its mirror image count once. Finished games are left out.
//
//	8 bytes    "EVALDBK1"
//	8 bytes    rows, columns, in-a-row, 1 for gravity, plies, three zeros
//	4 bytes    number of scores, little-endian
//	n bytes    scores as int8, sorted by plies, then by All and Own as 128-bit numbers
//	32 bytes   SHA-256 of everything before
package book

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/evald/evald/engine/game"
)

// Book knows the exact score of every position of up to Plies stones. It is safe for concurrent use.
type Book struct {
	board  *game.Board
	levels [][]game.Position // canonical, sorted, by plies
	scores [][]int8          // of the same positions
}

// Plies is the number of stones up to which the book has scores.
func (b *Book) Plies() int { return len(b.levels) - 1 }

// Positions is the number of positions in the book.
func (b *Book) Positions() int { return count(b.levels) }

// Rules are those of the game that the book is for.
func (b *Book) Rules() game.Rules { return b.board.Rules() }

// Score is the exact score of p for the side to move, if the book has it.
func (b *Book) Score(p game.Position) (score int, ok bool) {
	n := p.Plies()
	if n >= len(b.levels) {
		return 0, false
	}
	q, _ := b.board.Canonical(p)
	i, ok := slices.BinarySearchFunc(b.levels[n], q, game.Position.Compare)
	if !ok {
		return 0, false
	}
	return int(b.scores[n][i]), true
}

func count(levels [][]game.Position) int {
	n := 0
	for _, l := range levels {
		n += len(l)
	}
	return n
}

// maxPositions bounds a book's memory to a few GiB.
const maxPositions = 1 << 26

// enumerate lists the canonical positions of 0 to plies stones whose game is not over, each level sorted.
func enumerate(b *game.Board, plies int) ([][]game.Position, error) {
	if plies < 0 || plies >= b.Cells() {
		return nil, fmt.Errorf("book of %d plies: %v has books of 0 to %d", plies, b.Rules(), b.Cells()-1)
	}
	levels := [][]game.Position{{{}}}
	total := 1
	for range plies {
		var next []game.Position
		for _, p := range levels[len(levels)-1] {
			for l := b.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
				q := b.PlayCell(p, l.LowBit())
				if b.Result(q) == game.Ongoing {
					q, _ = b.Canonical(q)
					next = append(next, q)
				}
			}
			if len(next) > maxPositions {
				slices.SortFunc(next, game.Position.Compare)
				if next = slices.Compact(next); total+len(next) > maxPositions {
					return nil, fmt.Errorf("book of %d plies: more than %d positions", plies, maxPositions)
				}
			}
		}
		slices.SortFunc(next, game.Position.Compare)
		next = slices.Clip(slices.Compact(next))
		levels = append(levels, next)
		total += len(next)
	}
	return levels, nil
}

const (
	magic      = "EVALDBK1"
	headerSize = len(magic) + 8
)

// header is the file's first 16 bytes.
func header(r game.Rules, plies int) []byte {
	gravity := byte(0)
	if r.Gravity {
		gravity = 1
	}
	return append([]byte(magic), byte(r.Rows), byte(r.Columns), byte(r.InARow), gravity, byte(plies), 0, 0, 0)
}

// parseHeader is the reverse of header. It accepts only what header writes.
func parseHeader(h []byte) (r game.Rules, plies int, err error) {
	if len(h) < headerSize || string(h[:len(magic)]) != magic {
		return r, 0, errors.New("is not a book of exact scores")
	}
	f := h[len(magic):]
	r = game.Rules{Rows: int(f[0]), Columns: int(f[1]), InARow: int(f[2]), Gravity: f[3] == 1}
	plies = int(f[4])
	if !bytes.Equal(header(r, plies), h[:headerSize]) {
		return r, 0, errors.New("has a damaged header")
	}
	return r, plies, r.Validate()
}

// maxFile is the limit of what Load reads, in bytes.
const maxFile = headerSize + 4 + maxPositions + sha256.Size

// Load reads a book file. An error names the file and what is wrong with it.
func Load(path string) (*Book, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	defer f.Close()
	b, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("book %s: %w", path, err)
	}
	return b, nil
}

// Read reads a book.
func Read(r io.Reader) (*Book, error) {
	file, err := io.ReadAll(io.LimitReader(r, int64(maxFile)+1))
	if err != nil {
		return nil, err
	}
	rules, plies, err := parseHeader(file)
	if err != nil {
		return nil, err
	}
	if len(file) < headerSize+4+sha256.Size {
		return nil, errors.New("is truncated")
	}
	body, sum := file[:len(file)-sha256.Size], file[len(file)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return nil, errors.New("is damaged: its checksum does not fit")
	}
	// The checksum fits, so somebody meant this file to be a book. Only then are the positions enumerated, which is expensive.
	board, err := game.NewBoard(rules)
	if err != nil {
		return nil, err
	}
	data := body[headerSize+4:]
	if n := binary.LittleEndian.Uint32(body[headerSize:]); int(n) != len(data) {
		return nil, fmt.Errorf("says that it has %d scores, but has %d", n, len(data))
	}
	levels, err := enumerate(board, plies)
	if err != nil {
		return nil, err
	}
	if n := count(levels); n != len(data) {
		return nil, fmt.Errorf("has %d scores, but %v has %d positions of up to %d plies", len(data), rules, n, plies)
	}
	b := &Book{board: board, levels: levels}
	for _, level := range levels {
		scores := make([]int8, len(level))
		for i := range scores {
			scores[i] = int8(data[i])
		}
		b.scores, data = append(b.scores, scores), data[len(level):]
	}
	return b, nil
}

// marshal is the book's file.
func (b *Book) marshal() []byte {
	file := header(b.board.Rules(), b.Plies())
	file = binary.LittleEndian.AppendUint32(file, uint32(b.Positions()))
	for _, scores := range b.scores {
		for _, s := range scores {
			file = append(file, byte(s))
		}
	}
	sum := sha256.Sum256(file)
	return append(file, sum[:]...)
}

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
