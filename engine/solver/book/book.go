// Package book stores the solver's results for all positions of a game's first plies: their exact scores, or only win, draw or loss.
//
// A book file contains no positions. The positions of the first plies are enumerated in a fixed order, and the file has a value for each. A
// position and its mirror image count once. Finished games are omitted.
//
//	8 bytes    "EVALDBK2"
//	8 bytes    rows, columns, in-a-row, plies, 1 for results or 0 for scores, three zeros
//	4 bytes    number of values, little-endian
//	n bytes    scores as int8, or results of four positions a byte, the first in its lowest bits: 0 a loss, 1 a draw, 2 a
//	           win; sorted by plies, then by key
//	32 bytes   SHA-256 of everything before
//
// A packed book (packed.go) has the scores of one number of stones alone, compressed, and finds those of up to three stones fewer by minimax.
// The one of 12 stones of 7x6 will take some 2 MB; its finished scores take 3.8 bits each, apart from those that follow from the rules. A book
// of 12 plies has 9,188,816 positions, each with a byte. A book that ships looks up in the packed one what it does not have itself.
//
// 7x6x4-12.packed is empty, and without effect, until all scores of 12 plies are known. The folder 7x6x4-12.book.parts has those that are
// finished; the others take some eight hours of one core. To complete them, pack them and check the result:
//
//	cd engine/solver/book
//	evald solve --build-book 7x6x4-12.book --plies 12 --table-mib 64       # resumes; more processes share the work
//	evald solve --book 7x6x4-12.book --pack-book 7x6x4-12.packed           # and compares each score
//	EVALD_SOAK=1m go test . -run Connect4 -timeout 3h                      # 100,000 scores by another search, and earlier books
//	go test . -run - -bench Packed
//
// The first command deletes the folder. 7x6x4-12.book is not needed any more, and must not be committed.
//
// Read the files in this order: book.go, the format; build.go, how parts become a book; distinct.go, sorted positions; packed.go,
// numbering.go and rans.go, the packed book, its slots and its coder.
package book

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/bits"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/evald/evald/engine/game"
)

// Book contains the exact score, or only the result, of every position of up to Plies stones. It is safe for concurrent use.
type Book struct {
	board   *game.Board
	results bool       // the values are results: -1, 0 or 1
	levels  [][]uint64 // keys of canonical positions, sorted, by plies
	scores  [][]int8   // their values
}

// Plies is the number of stones up to which the book has positions.
func (b *Book) Plies() int { return len(b.levels) - 1 }

// Positions is the number of positions in the book.
func (b *Book) Positions() int { return count(b.levels) }

// Rules are the rules of the book's game.
func (b *Book) Rules() game.Rules { return b.board.Rules() }

// Score is the exact score of p for the side to move, if the book has it.
func (b *Book) Score(p game.Position) (score int, ok bool) {
	if b.results {
		return 0, false
	}
	return b.find(p)
}

// Result is the result of p for the side to move, or Ongoing if the book does not have it.
func (b *Book) Result(p game.Position) game.Result {
	score, ok := b.find(p)
	if !ok {
		return game.Ongoing
	}
	return game.ResultOf(score)
}

// find returns the book's value for p: a score, or the sign of one.
func (b *Book) find(p game.Position) (score int, ok bool) {
	n := p.Plies()
	if n >= len(b.levels) {
		return 0, false
	}
	i, ok := slices.BinarySearch(b.levels[n], b.key(p))
	if !ok {
		return 0, false
	}
	return int(b.scores[n][i]), true
}

func count(levels [][]uint64) int {
	n := 0
	for _, l := range levels {
		n += len(l)
	}
	return n
}

// key is the same for p and its mirror image. Each column becomes a number: 1<<h - 1 for h stones, plus the bits of those of the side to
// move. No two other positions have the same key.
func (b *Book) key(p game.Position) uint64 {
	q, _ := b.board.Canonical(p)
	return q.All.Lo + q.Own.Lo
}

// position is the canonical position of a key.
func (b *Book) position(key uint64) (p game.Position) {
	height := b.board.Rules().Rows + 1
	for at := 0; key>>at != 0; at += height {
		column := key >> at & (1<<height - 1)
		all := uint64(1)<<(bits.Len64(column+1)-1) - 1
		p.All.Lo |= all << at
		p.Own.Lo |= (column - all) << at
	}
	return p
}

// maxPositions bounds a book's memory to 1 GiB.
const maxPositions = 1 << 26

// check returns an error if the board cannot have a book of this many plies.
func (b *Book) check(plies int) error {
	switch {
	case b.board.Wide() || !b.board.Rules().Gravity:
		return fmt.Errorf("%v has no books, only boards with gravity and (rows + 1) x columns up to 64 have", b.Rules())
	case plies < 0 || plies >= b.board.Cells():
		return fmt.Errorf("book of %d plies: %v has books of 0 to %d", plies, b.Rules(), b.board.Cells()-1)
	}
	return nil
}

// next lists the positions of n stones whose game is not over. The positions of fewer stones must already be listed.
// The race detector does not watch it: it would take seconds in every test program that searches,
// and no other goroutine has access to its memory.
//
//go:norace
func (b *Book) next(n int) ([]uint64, error) {
	if n == 0 {
		return []uint64{0}, nil
	}
	total := count(b.levels[:n])
	level := make([]uint64, 0, min(maxPositions, b.board.Columns()*len(b.levels[n-1])))
	for _, key := range b.levels[n-1] {
		p := b.position(key) // the next stone cannot fill the board
		for l := b.board.Legal(p).AndNot(b.board.Completes(p.Own)); !l.IsZero(); l = l.WithoutFirst() {
			level = append(level, b.key(b.board.PlayCell(p, l.LowBit())))
		}
		if len(level) > maxPositions {
			if level = distinct(level); total+len(level) > maxPositions {
				return nil, fmt.Errorf("book of %d plies: more than %d positions", n, maxPositions)
			}
		}
	}
	return slices.Clone(distinct(level)), nil
}

// enumerate lists the positions of 0 to plies stones.
func (b *Book) enumerate(plies int) (err error) {
	if err := b.check(plies); err != nil {
		return err
	}
	b.levels, b.scores = make([][]uint64, plies+1), make([][]int8, plies+1)
	for n := range b.levels {
		if b.levels[n], err = b.next(n); err != nil {
			return err
		}
	}
	return nil
}

const (
	magic      = "EVALDBK2"
	headerSize = len(magic) + 8
)

// header is the file's first 16 bytes.
func (b *Book) header(plies int) []byte {
	r, results := b.Rules(), byte(0)
	if b.results {
		results = 1
	}
	return append([]byte(magic), byte(r.Rows), byte(r.Columns), byte(r.InARow), byte(plies), results, 0, 0, 0)
}

// parseHeader is the inverse of header: it returns a book without positions. It accepts only headers that header returns.
func parseHeader(h []byte) (b *Book, plies int, err error) {
	if len(h) < headerSize || string(h[:len(magic)]) != magic {
		return nil, 0, errors.New("is not a book of exact scores")
	}
	f := h[len(magic):]
	board, err := game.NewBoard(game.Rules{Rows: int(f[0]), Columns: int(f[1]), InARow: int(f[2]), Gravity: true})
	if err != nil {
		return nil, 0, err
	}
	b, plies = &Book{board: board, results: f[4] == 1}, int(f[3])
	if !bytes.Equal(b.header(plies), h[:headerSize]) {
		return nil, 0, errors.New("has a damaged header")
	}
	return b, plies, nil
}

// maxFile is the maximum size of a file for Load, in bytes.
const maxFile = headerSize + 4 + maxPositions + sha256.Size

// Load reads a book file of scores. An error names the file and the mistake.
func Load(path string) (*Book, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	defer f.Close()
	b, err := Read(f)
	if err == nil && b.results {
		err = errors.New("has only results, and no scores")
	}
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
	b, plies, data, err := parse(file)
	if err != nil {
		return nil, err
	}
	if err := b.enumerate(plies); err != nil {
		return nil, err
	}
	if said, n := data.values, b.Positions(); n != said || b.bytes(n) != len(data.bytes) {
		return nil, fmt.Errorf("claims %d values and has %d bytes of them, but %v has %d positions of up to %d plies", said, len(data.bytes), b.Rules(), n, plies)
	}
	next := 0
	for n, level := range b.levels {
		b.scores[n] = b.unpack(data.bytes, next, len(level))
		next += len(level)
	}
	return b, nil
}

// values is the part of a file with the values.
type values struct {
	values int
	bytes  []byte
}

// parse checks a file and returns its values without decoding them. It compares the checksum first, because listing the positions is
// expensive.
func parse(file []byte) (b *Book, plies int, data values, err error) {
	if b, plies, err = parseHeader(file); err != nil {
		return nil, 0, data, err
	}
	if len(file) < headerSize+4+sha256.Size {
		return nil, 0, data, errors.New("is truncated")
	}
	body, sum := file[:len(file)-sha256.Size], file[len(file)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return nil, 0, data, errors.New("is damaged: its checksum does not fit")
	}
	return b, plies, values{int(binary.LittleEndian.Uint32(body[headerSize:])), body[headerSize+4:]}, nil
}

// unpack returns n of the file's values.
func (b *Book) unpack(data []byte, from, n int) []int8 {
	scores := make([]int8, n)
	for i := range scores {
		if at := from + i; b.results {
			scores[i] = int8(data[at/4]>>(at%4*2)&3) - 1
		} else {
			scores[i] = int8(data[at])
		}
	}
	return scores
}

// bytes is the number of bytes in the file for this number of values.
func (b *Book) bytes(values int) int {
	if b.results {
		return (values + 3) / 4
	}
	return values
}

func (b *Book) marshal() []byte {
	file, n := b.header(b.Plies()), 0
	file = binary.LittleEndian.AppendUint32(file, uint32(b.Positions()))
	for _, scores := range b.scores {
		for _, s := range scores {
			switch {
			case !b.results:
				file = append(file, byte(s))
			case n%4 == 0:
				file = append(file, byte(s+1))
			default:
				file[len(file)-1] |= byte(s+1) << (n % 4 * 2)
			}
			n++
		}
	}
	sum := sha256.Sum256(file)
	return append(file, sum[:]...)
}

// Lazy is a book in memory whose plies are decoded when they are first needed. It is safe for concurrent use.
type Lazy struct {
	plies  int
	book   *Book
	data   values
	packed func() *Packed // the book of positions with more stones; nil, or returns nil, if there is none

	mu    sync.Mutex   // held by the reader of the file
	ready atomic.Int32 // number of levels already read
	next  int          // index of the first unread value
}

// NewLazy checks the file, but not whether its number of values equals the number of positions. If it does not, a later call panics,
// because the file is part of the program.
func NewLazy(file []byte) (*Lazy, error) {
	b, plies, data, err := parse(file)
	if err == nil {
		err = b.check(plies)
	}
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	b.levels, b.scores = make([][]uint64, plies+1), make([][]int8, plies+1)
	return &Lazy{plies: plies, book: b, data: data}, nil
}

// Rules are the rules of the book's game.
func (l *Lazy) Rules() game.Rules { return l.book.Rules() }

// Plies is the number of stones up to which Positions has positions.
func (l *Lazy) Plies() int { return l.plies }

// Reach is the number of stones up to which Score and Result have positions. It exceeds Plies if a packed book ships for the game.
func (l *Lazy) Reach() int {
	if k := l.more(); k != nil {
		return k.Plies()
	}
	return l.plies
}

// more is the packed book, or nil.
func (l *Lazy) more() *Packed {
	if l.packed == nil {
		return nil
	}
	return l.packed()
}

// Score is Book.Score, for positions of up to Reach stones.
func (l *Lazy) Score(p game.Position) (score int, ok bool) {
	if p.Plies() > l.plies {
		if k := l.more(); k != nil {
			return k.Score(p)
		}
	}
	if l.book.results || !l.read(p.Plies()) {
		return 0, false
	}
	return l.book.Score(p)
}

// Result is Book.Result, for positions of up to Reach stones.
func (l *Lazy) Result(p game.Position) game.Result {
	if p.Plies() > l.plies {
		if k := l.more(); k != nil {
			return k.Result(p)
		}
	}
	if !l.read(p.Plies()) {
		return game.Ongoing
	}
	return l.book.Result(p)
}

// Positions yields the book's positions with this number of stones in the order of the file, each in its canonical form (Board.Canonical).
// There are none beyond Plies.
func (l *Lazy) Positions(stones int) iter.Seq[game.Position] {
	return func(yield func(game.Position) bool) {
		if !l.read(stones) {
			return
		}
		for _, key := range l.book.levels[stones] {
			if !yield(l.book.position(key)) {
				return
			}
		}
	}
}

// read prepares the positions of up to n stones, and reports whether the book has that many plies.
// The tenth ply of 7x6 takes a tenth of a second, all earlier ones together a third of that.
func (l *Lazy) read(n int) bool {
	if n > l.plies || n < int(l.ready.Load()) {
		return n <= l.plies
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for at := int(l.ready.Load()); at <= n; at++ {
		level, err := l.book.next(at)
		if err != nil {
			panic(fmt.Sprintf("book: %v", err))
		}
		l.book.levels[at], l.book.scores[at] = level, l.book.unpack(l.data.bytes, l.next, len(level))
		l.next += len(level)
		l.ready.Store(int32(at + 1))
	}
	return true
}

//go:embed 7x6x4.book
var connect4Scores []byte

//go:embed 7x6x4-results.book
var connect4Results []byte

//go:embed 7x6x4-12.packed
var connect4Packed []byte

// shipsPacked returns the packed book, or nil while the file in the source is empty.
var shipsPacked = sync.OnceValue(func() *Packed {
	if len(connect4Packed) == 0 {
		return nil
	}
	k, err := ParsePacked(connect4Packed)
	if err != nil {
		panic(err)
	}
	return k
})

var ships = sync.OnceValue(func() (books [2]*Lazy) {
	for i, file := range [][]byte{connect4Scores, connect4Results} {
		var err error
		if books[i], err = NewLazy(file); err != nil {
			panic(err)
		}
		books[i].packed = shipsPacked
	}
	return books
})

// Scores is the book of exact scores that ships for a game, or nil. evald solve --build-book created it.
func Scores(r game.Rules) *Lazy { return shipped(0, r) }

// Results is the book of results that ships for a game, or nil. It has more plies than the book of scores.
func Results(r game.Rules) *Lazy { return shipped(1, r) }

func shipped(kind int, r game.Rules) *Lazy {
	if b := ships()[kind]; b.Rules() == r {
		return b
	}
	return nil
}
