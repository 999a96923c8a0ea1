package book

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
)

// Solve finds the exact score of a position for the side to move, or only a number with the same sign.
type Solve func(ctx context.Context, p game.Position) (score int, err error)

// A build divides the positions of the last ply into parts, in the order of lines. A finished part is a file in the folder FILE.parts
// beside the book, named after the part's number:
//
//	16 bytes   the book's header
//	4 bytes    the number of the part, little-endian
//	n bytes    the scores as int8, compressed by zstd
//	32 bytes   SHA-256 of everything before
//
// Several programs can build one book together: each claims a part by the lock of its file.
const (
	mostParts = 512 // so that a kill loses little work of a large book
	leastPart = 64  // positions
)

// Build solves all positions of the given number of plies, derives the scores of positions with fewer, and writes the book to path. If
// results is set, it stores only the signs of the scores. Each worker solves one position at a time, in its own goroutine. Build resumes an
// interrupted call, and shares the work with concurrent calls of other programs; the last to end writes the book, and the others return an
// error. progress, if not nil, is called at once and after each position that this call solves, with the number of finished
// positions and of all positions. Its calls do not overlap.
func Build(ctx context.Context, path string, board *game.Board, plies int, results bool, workers []Solve, progress func(done, total int)) (*Book, error) {
	b := &Book{board: board, results: results}
	if err := b.enumerate(plies); err != nil {
		return nil, err
	}
	a := newBuilding(b, path+".parts", progress)
	if err := durable.MkdirAllIn(durable.OS, a.dir); err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	if err := a.solve(ctx, workers); err != nil {
		return nil, fmt.Errorf("book %s: %w; solved parts are kept in %s", path, err, a.dir)
	}
	b.scores[plies] = make([]int8, len(a.lines))
	for k, i := range a.lines {
		b.scores[plies][i] = a.found[k]
	}
	for n := plies - 1; n >= 0; n-- {
		b.derive(n)
	}
	if err := durable.WriteFile(path, b.marshal()); err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	return b, os.RemoveAll(a.dir)
}

// lines lists the indices of the last level's positions in the order of one walk through all games. Neighbours in this order lead to the
// same positions, so a solver with a table needs half as many nodes as in the order of keys.
func (b *Book) lines() (order []int32) {
	seen := make([][]bool, len(b.levels))
	for n, level := range b.levels {
		seen[n] = make([]bool, len(level))
	}
	var walk func(p game.Position, n int)
	walk = func(p game.Position, n int) {
		i, open := slices.BinarySearch(b.levels[n], b.key(p))
		switch {
		case !open || seen[n][i]:
			return
		case n == b.Plies():
			order = append(order, int32(i))
		default:
			for l := b.board.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
				walk(b.board.PlayCell(p, l.LowBit()), n+1)
			}
		}
		seen[n][i] = true
	}
	walk(game.Position{}, 0)
	return order
}

// derive computes the scores of the positions of n plies from those of n+1.
func (b *Book) derive(n int) {
	b.scores[n] = make([]int8, len(b.levels[n]))
	for i, key := range b.levels[n] {
		p, best := b.position(key), -b.board.Cells()
		for l := b.board.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
			child := b.board.PlayCell(p, l.LowBit())
			score, ok := b.find(child)
			switch b.board.Result(child) {
			case game.Loss:
				score = b.value(-(b.board.Cells() + 1 - n) / 2)
			case game.Draw:
				score = 0
			default:
				if !ok {
					panic("book: a position's child is not in the enumeration")
				}
			}
			best = max(best, -score)
		}
		b.scores[n][i] = int8(best)
	}
}

// value converts a score to the book's value.
func (b *Book) value(score int) int {
	if b.results {
		return min(max(score, -1), 1)
	}
	return score
}

// building is a book that is being built.
type building struct {
	*Book
	lines  []int32 // positions of the last ply
	found  []int8  // their scores, in this order
	dir    string  // of the finished parts
	header []byte
	zip    *zstd.Encoder
	unzip  *zstd.Decoder

	mu       sync.Mutex // guards done; held during calls of progress
	done     int
	progress func(done, total int)
}

func newBuilding(b *Book, dir string, progress func(done, total int)) *building {
	a := &building{Book: b, lines: b.lines(), dir: dir, header: b.header(b.Plies()), progress: progress}
	a.found = make([]int8, len(a.lines))
	// The errors are of options alone.
	a.zip, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	a.unzip, _ = zstd.NewReader(nil, zstd.WithDecodeAllCapLimit(true))
	return a
}

// part returns a part's place in the order of lines.
func (a *building) part(number int) (from, to int) {
	size := max(leastPart, (len(a.lines)+mostParts-1)/mostParts)
	return min(number*size, len(a.lines)), min((number+1)*size, len(a.lines))
}

func (a *building) count(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done += n; a.progress != nil {
		a.progress(a.done, len(a.lines))
	}
}

// solve finds the scores of all positions of the last ply that no part has.
func (a *building) solve(ctx context.Context, workers []Solve) error {
	var missing []int
	for number := 0; ; number++ {
		if from, to := a.part(number); from == to {
			break
		}
		known, err := a.read(number)
		if err != nil {
			return err
		}
		if !known {
			missing = append(missing, number)
		}
	}
	a.count(0)
	for len(missing) > 0 {
		inUse := make([]bool, len(missing))
		err := jobs.Each(ctx, len(workers), len(missing), func(ctx context.Context, worker, item int) error {
			err := a.solvePart(ctx, missing[item], workers[worker])
			if inUse[item] = errors.Is(err, durable.ErrInUse); inUse[item] {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
		var left []int
		for item, number := range missing {
			if inUse[item] {
				left = append(left, number)
			}
		}
		if len(left) == len(missing) {
			return fmt.Errorf("other programs are solving the last parts (%d), and the last of them to end writes the book", len(left))
		}
		missing = left
	}
	return nil
}

// read reads a part's scores, and counts them, if its file is complete. Damaged parts count as missing.
func (a *building) read(number int) (known bool, err error) {
	file, err := os.ReadFile(a.name(number))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	head := a.partHeader(number)
	body, ok := bytes.CutPrefix(file, head)
	if !ok || len(body) < sha256.Size {
		return false, nil
	}
	if sum := sha256.Sum256(file[:len(file)-sha256.Size]); !bytes.HasSuffix(file, sum[:]) {
		return false, nil
	}
	from, to := a.part(number)
	scores, err := a.unzip.DecodeAll(body[:len(body)-sha256.Size], make([]byte, 0, to-from))
	if err != nil || len(scores) != to-from {
		return false, nil
	}
	for i, s := range scores {
		a.found[from+i] = int8(s)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done += to - from
	return true, nil
}

func (a *building) name(number int) string { return filepath.Join(a.dir, fmt.Sprintf("%03d", number)) }

func (a *building) partHeader(number int) []byte {
	return binary.LittleEndian.AppendUint32(slices.Clone(a.header), uint32(number))
}

// solvePart reads a part or, if it is missing, claims it, solves its positions and writes its file. The error wraps durable.ErrInUse if
// another program has claimed it. It claims no finished part, so the last program to finish one finds all others.
func (a *building) solvePart(ctx context.Context, number int, solve Solve) error {
	from, to := a.part(number)
	if known, err := a.read(number); known || err != nil {
		return err
	}
	file, err := durable.Create(a.name(number))
	if err != nil {
		return err
	}
	defer file.Abort()
	if known, err := a.read(number); known || err != nil { // another program has just finished it
		return err
	}
	last := a.levels[a.Plies()]
	scores := make([]byte, 0, to-from)
	for k := from; k < to; k++ {
		s, err := solve(ctx, a.position(last[a.lines[k]]))
		if err != nil {
			return err
		}
		a.found[k] = int8(a.value(s))
		scores = append(scores, byte(a.found[k]))
		a.count(1)
	}
	text := a.zip.EncodeAll(scores, a.partHeader(number))
	sum := sha256.Sum256(text)
	if _, err := file.Write(append(text, sum[:]...)); err != nil {
		return err
	}
	return file.Commit()
}
