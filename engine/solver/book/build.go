package book

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
)

// Solve finds the exact score of a position for the side to move.
type Solve func(ctx context.Context, p game.Position) (score int, err error)

// The unfinished book lies beside the file as FILE.part: the header, then frames of solved positions of the last ply,
// in order:
//
//	4 bytes   CRC-32 (IEEE) of the frame's number and scores
//	n bytes   scores of frameSize positions; the last frame may have fewer
//
// The first frame that is cut off or does not match its checksum ends what can be resumed.
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
	part, err := openPart(path+".part", header(board.Rules(), plies), len(last))
	if err != nil {
		return nil, err
	}
	defer part.file.Close()
	if err := part.solve(ctx, last, workers, progress); err != nil {
		return nil, fmt.Errorf("book %s: %w; what was solved is kept in %s", path, err, part.file.Name())
	}
	b.scores[plies] = part.scores
	for n := plies - 1; n >= 0; n-- {
		b.derive(n)
	}
	if _, err := file.Write(b.marshal()); err != nil {
		return nil, fmt.Errorf("book %s: %w", path, err)
	}
	if err := file.Commit(); err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	return b, os.Remove(part.file.Name())
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

// part is a book that is not finished.
type part struct {
	file   *os.File
	scores []int8
	frames int // complete ones
}

// openPart continues the unfinished file, or begins it anew if it belongs to another book.
func openPart(path string, head []byte, positions int) (*part, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("book: %w", err)
	}
	p := &part{file: f, scores: make([]int8, positions)}
	end, err := p.resume(head)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err == nil && end == 0 {
		_, err = f.Write(head)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("book: %w", err)
	}
	return p, nil
}

// resume reads the complete frames and returns the offset at which they end. It returns 0 if the file belongs to another
// book.
func (p *part) resume(head []byte) (end int64, err error) {
	text, err := io.ReadAll(p.file)
	if err != nil || len(text) < len(head) || !bytes.Equal(text[:len(head)], head) {
		return 0, err
	}
	end = int64(len(head))
	for text = text[len(head):]; ; p.frames++ {
		to := p.frame(p.frames)
		if len(to) == 0 || len(text) < 4+len(to) || binary.LittleEndian.Uint32(text) != checksum(p.frames, text[4:4+len(to)]) {
			return end, nil
		}
		for i := range to {
			to[i] = int8(text[4+i])
		}
		text = text[4+len(to):]
		end += int64(4 + len(to))
	}
}

// frame is the part of scores that frame i holds.
func (p *part) frame(i int) []int8 {
	return p.scores[min(i*frameSize, len(p.scores)):min((i+1)*frameSize, len(p.scores))]
}

func checksum(frame int, scores []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(binary.LittleEndian.AppendUint32(nil, uint32(frame))), crc32.IEEETable, scores)
}

// solve completes the scores of positions, which are those of the last ply.
func (p *part) solve(ctx context.Context, positions []game.Position, workers []Solve, progress func(done, total int)) error {
	first, frames := p.frames, (len(positions)+frameSize-1)/frameSize
	done, ready := min(first*frameSize, len(positions)), map[int]bool{}
	var mu sync.Mutex // guards done, ready, the file and its number of frames
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		if done += n; progress != nil {
			progress(done, len(positions))
		}
	}
	count(0)
	return jobs.Each(ctx, len(workers), frames-first, func(ctx context.Context, worker, item int) error {
		i := first + item
		scores := p.frame(i)
		for k := range scores {
			s, err := workers[worker](ctx, positions[i*frameSize+k])
			if err != nil {
				return err
			}
			scores[k] = int8(s)
			count(1)
		}
		mu.Lock()
		defer mu.Unlock()
		// Frames are written in order, so the file is always a prefix of the whole.
		for ready[i] = true; ready[p.frames]; p.frames++ {
			if err := p.write(p.frames); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *part) write(i int) error {
	var scores []byte
	for _, s := range p.frame(i) {
		scores = append(scores, byte(s))
	}
	_, err := p.file.Write(append(binary.LittleEndian.AppendUint32(nil, checksum(i, scores)), scores...))
	return err
}
