package book

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
)

// Solve finds the exact score of a position for the side to move, or only a number with the same sign.
type Solve func(ctx context.Context, p game.Position) (score int, err error)

// frame is a line of the journal of an unfinished book, which lies beside the book as FILE.part. The first line contains only the book's
// header. Each other line has the scores of frameSize consecutive positions of the last ply, in the order of lines; the last frame may have
// fewer.
type frame struct {
	Header []byte `json:"header,omitempty"`
	Number int    `json:"frame"`
	Scores []int8 `json:"scores"`
}

const frameSize = 64

// Build solves all positions of the given number of plies, derives the scores of positions with fewer, and writes the book to path. If
// results is set, it stores only the signs of the scores. Each worker solves one position at a time, in its own goroutine. Build resumes an
// interrupted call. progress, if not nil, is called at once and after each position with the number of finished positions and of all
// positions. Its calls do not overlap.
func Build(ctx context.Context, path string, board *game.Board, plies int, results bool, workers []Solve, progress func(done, total int)) (*Book, error) {
	b := &Book{board: board, results: results}
	if err := b.enumerate(plies); err != nil {
		return nil, err
	}
	file, err := durable.Create(path)
	if errors.Is(err, durable.ErrInUse) {
		return nil, fmt.Errorf("book %s: another program is building this book: wait for it to end, or name another file", path)
	}
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	defer file.Abort()
	part := path + ".part"
	lines := b.lines()
	found := make([]int8, len(lines))
	journal, missing, err := openPart(part, b.header(plies), found)
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	err = b.solve(ctx, lines, found, missing, journal, workers, progress)
	if err := errors.Join(err, journal.Close()); err != nil {
		return nil, fmt.Errorf("book %s: %w; solved positions are kept in %s", path, err, part)
	}
	b.scores[plies] = make([]int8, len(lines))
	for k, i := range lines {
		b.scores[plies][i] = found[k]
	}
	for n := plies - 1; n >= 0; n-- {
		b.derive(n)
	}
	if _, err := file.Write(b.marshal()); err != nil {
		return nil, fmt.Errorf("book %s: %w", path, err)
	}
	if err := file.Commit(); err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	return b, os.Remove(part)
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
		p, _ = b.board.Canonical(p)
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

// frameOf returns a frame's part of scores.
func frameOf(scores []int8, number int) []int8 {
	return scores[min(number*frameSize, len(scores)):min((number+1)*frameSize, len(scores))]
}

// openPart opens the journal of an unfinished book, or rewrites it if it belongs to another book. It reads the stored scores, and returns
// the numbers of the missing frames. Frames on damaged lines count as missing.
func openPart(path string, head []byte, scores []int8) (journal *durable.Journal, missing []int, err error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	lines, solved, ours := []frame{{Header: head}}, map[int]bool{}, false
	for line := range bytes.Lines(text) {
		var l frame
		switch {
		case durable.Unmarshal(line, &l) != nil:
		case l.Header != nil:
			ours = bytes.Equal(l.Header, head)
		case ours && l.Number >= 0 && len(l.Scores) == len(frameOf(scores, l.Number)):
			copy(frameOf(scores, l.Number), l.Scores)
			lines, solved[l.Number] = append(lines, l), true
		}
	}
	for i := range (len(scores) + frameSize - 1) / frameSize {
		if !solved[i] {
			missing = append(missing, i)
		}
	}
	journal, err = durable.BeginJournal(path, lines)
	return journal, missing, err
}

// solve finds the scores of the missing frames. lines are the positions of the last ply.
func (b *Book) solve(ctx context.Context, lines []int32, scores []int8, missing []int, journal *durable.Journal, workers []Solve, progress func(done, total int)) error {
	done := len(lines)
	for _, i := range missing {
		done -= len(frameOf(scores, i))
	}
	var mu sync.Mutex // guards done and the journal
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		if done += n; progress != nil {
			progress(done, len(lines))
		}
	}
	count(0)
	last := b.levels[b.Plies()]
	return jobs.Each(ctx, len(workers), len(missing), func(ctx context.Context, worker, item int) error {
		i := missing[item]
		found := frameOf(scores, i)
		for k := range found {
			s, err := workers[worker](ctx, b.position(last[lines[i*frameSize+k]]))
			if err != nil {
				return err
			}
			found[k] = int8(b.value(s))
			count(1)
		}
		mu.Lock()
		defer mu.Unlock()
		return journal.Add(frame{Number: i, Scores: found})
	})
}
