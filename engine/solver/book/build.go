package book

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
)

// Solve finds the exact score of a position for the side to move.
type Solve func(ctx context.Context, p game.Position) (score int, err error)

// frame is a line of the unfinished book, which lies beside the file as FILE.part, a journal. The first line has the book's header
// alone. Each other line has the scores of frameSize positions of the last ply; the last frame may have fewer.
type frame struct {
	Header []byte `json:"header,omitempty"`
	Number int    `json:"frame"`
	Scores []int8 `json:"scores"`
}

const frameSize = 64

// Build solves all positions of the given number of plies, derives the scores of those with fewer, and writes the book to
// path. Each worker solves one position at a time, in its own goroutine. What an earlier, interrupted call solved is not
// solved again. progress, if not nil, is called at once and then after each position with the number of positions done and
// the number to solve. Calls of it do not overlap.
func Build(ctx context.Context, path string, board *game.Board, plies int, workers []Solve, progress func(done, total int)) (*Book, error) {
	levels, err := enumerate(board, plies)
	if err != nil {
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
	last := levels[plies]
	b := &Book{board: board, levels: levels, scores: make([][]int8, len(levels))}
	part := path + ".part"
	b.scores[plies] = make([]int8, len(last))
	journal, missing, err := openPart(part, header(board.Rules(), plies), b.scores[plies])
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	err = solve(ctx, last, b.scores[plies], missing, journal, workers, progress)
	if err := errors.Join(err, journal.Close()); err != nil {
		return nil, fmt.Errorf("book %s: %w; what was solved is kept in %s", path, err, part)
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

// derive computes the scores of the positions of n plies from those of n+1.
func (b *Book) derive(n int) {
	b.scores[n] = make([]int8, len(b.levels[n]))
	for i, p := range b.levels[n] {
		best := -b.board.Cells()
		for l := b.board.Legal(p); !l.IsZero(); l = l.WithoutFirst() {
			child := b.board.PlayCell(p, l.LowBit())
			score, ok := b.Score(child)
			switch b.board.Result(child) {
			case game.Loss:
				score = -(b.board.Cells() + 1 - n) / 2
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

// frameOf is the part of scores that a frame has.
func frameOf(scores []int8, number int) []int8 {
	return scores[min(number*frameSize, len(scores)):min((number+1)*frameSize, len(scores))]
}

// openPart continues the journal of an unfinished book, or begins it anew if it is of another book. It reads the scores that were
// found, and returns the numbers of the frames that are missing. Those of damaged lines are among them.
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

// solve finds the scores of the frames that are missing. positions are those of the last ply.
func solve(ctx context.Context, positions []game.Position, scores []int8, missing []int, journal *durable.Journal, workers []Solve, progress func(done, total int)) error {
	done := len(positions)
	for _, i := range missing {
		done -= len(frameOf(scores, i))
	}
	var mu sync.Mutex // guards done and the journal
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		if done += n; progress != nil {
			progress(done, len(positions))
		}
	}
	count(0)
	return jobs.Each(ctx, len(workers), len(missing), func(ctx context.Context, worker, item int) error {
		i := missing[item]
		found := frameOf(scores, i)
		for k := range found {
			s, err := workers[worker](ctx, positions[i*frameSize+k])
			if err != nil {
				return err
			}
			found[k] = int8(s)
			count(1)
		}
		mu.Lock()
		defer mu.Unlock()
		return journal.Add(frame{Number: i, Scores: found})
	})
}
