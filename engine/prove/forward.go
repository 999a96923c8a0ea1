package prove

import (
	"context"
	"fmt"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/jobs"
)

const (
	batchRows = 4096 // positions that are read, and passed to the agents, at once
	blockRows = 256  // positions of a batch that a goroutine takes at a time
)

// layer reads a layer in batches.
type layer struct {
	rows, moves *reader // moves is nil if the agent has not moved yet
	total       int64

	first   int64 // index of the batch's first position in the layer
	at      []game.Position
	actions []int
	buf     [batchRows * rowBytes]byte
}

// openLayer opens the positions of a layer, and the agent's moves there if moves is set.
func (p *proof) openLayer(stones int, moves bool) (*layer, error) {
	rows, err := open(p.path(stones, "positions"), rowBytes)
	if err != nil {
		return nil, err
	}
	l := &layer{rows: rows, total: rows.left}
	if moves {
		if l.moves, err = open(p.path(stones, "moves"), 1); err != nil {
			rows.Close()
			return nil, err
		}
	}
	return l, nil
}

func (l *layer) close() {
	l.rows.Close()
	if l.moves != nil {
		l.moves.Close()
	}
}

// next reads the next batch, which is empty after the last one.
func (l *layer) next() error {
	l.first += int64(len(l.at))
	l.at, l.actions = l.at[:0], l.actions[:0]
	rows, err := l.rows.next(l.buf[:])
	if err != nil {
		return err
	}
	for ; len(rows) > 0; rows = rows[rowBytes:] {
		l.at, l.actions = append(l.at, rowAt(rows).position()), append(l.actions, 0)
	}
	if l.moves == nil {
		return nil
	}
	moves, err := l.moves.next(l.buf[:len(l.at)])
	for i, m := range moves {
		l.actions[i] = int(m)
	}
	return err
}

// each calls work for all positions of the batch. Concurrent calls have different workers.
func (p *proof) each(ctx context.Context, l *layer, work func(ctx context.Context, worker, i int) error) error {
	return jobs.Each(ctx, len(p.workers), (len(l.at)+blockRows-1)/blockRows, func(ctx context.Context, worker, block int) error {
		for i := block * blockRows; i < min((block+1)*blockRows, len(l.at)); i++ {
			if err := work(ctx, worker, i); err != nil {
				return err
			}
		}
		return nil
	})
}

// ask lets the agent choose a move in each position of the batch.
func (p *proof) ask(ctx context.Context, l *layer) error {
	type many interface {
		Moves(ctx context.Context, b *game.Board, positions []game.Position, actions []int) error
	}
	if a, ok := p.Agents[0].(many); ok {
		return a.Moves(ctx, p.Board, l.at, l.actions)
	}
	return jobs.Each(ctx, len(p.Agents), len(l.at), func(ctx context.Context, worker, i int) (err error) {
		l.actions[i], err = p.Agents[worker].Move(ctx, p.Board, l.at[i])
		return err
	})
}

// after returns the positions that can follow the agent's move: the end of the game, or the positions after each reply. The worker owns the
// memory.
func (p *proof) after(w *worker, at game.Position, action int) []game.Position {
	w.after = w.after[:0]
	next := p.Board.Play(at, action)
	if p.Board.Result(next) != game.Ongoing {
		return append(w.after, p.canonical(next))
	}
	for l := p.Board.Legal(next); !l.IsZero(); l = l.WithoutFirst() {
		w.after = append(w.after, p.canonical(p.Board.PlayCell(next, l.LowBit())))
	}
	return w.after
}

// forward computes all layers.
func (p *proof) forward(ctx context.Context) error {
	var s *sorter
	for stones := p.start.Plies(); ; stones += 2 {
		if p.find(passForward, stones) == nil {
			if s == nil {
				s = newSorter(p.dir.Path("runs"), len(p.workers), p.Memory)
			}
			now, err := p.expand(ctx, s, stones)
			if err != nil {
				return err
			}
			if err := p.done(now); err != nil {
				return err
			}
		}
		if p.find(passForward, stones).Next == 0 {
			return nil
		}
	}
}

// expand computes the agent's moves in a layer, and writes them and the next layer.
func (p *proof) expand(ctx context.Context, s *sorter, stones int) (step, error) {
	now := step{Pass: passForward, Stones: stones}
	l, err := p.openLayer(stones, false)
	if err != nil {
		return now, err
	}
	defer l.close()
	if err := s.begin(); err != nil {
		return now, err
	}
	moves, err := create(p.path(stones, "moves"))
	if err != nil {
		return now, err
	}
	defer moves.abort()
	now.Positions = l.total
	for err := l.next(); len(l.at) > 0 || err != nil; err = l.next() {
		if err == nil {
			p.show(fmt.Sprintf("forward, %d stones", stones), l.first, l.total)
			err = p.ask(ctx, l)
		}
		for _, a := range l.actions {
			if err == nil {
				err = moves.WriteByte(byte(a))
			}
		}
		if err == nil {
			err = p.each(ctx, l, func(_ context.Context, worker, i int) error {
				for _, next := range p.after(&p.workers[worker], l.at[i], l.actions[i]) {
					if err := s.add(worker, rowOf(next)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			return now, err
		}
	}
	next, err := create(p.path(stones+2, "positions"))
	if err != nil {
		return now, err
	}
	defer next.abort()
	var buf [rowBytes]byte
	err = s.merge(ctx, func(r row) error {
		at := r.position()
		if e := p.end(at); e != (Ends{}) {
			now.Ends[at.Plies()-stones-1].add(e)
			return nil
		}
		now.Next++
		_, err := next.Write(r.appendTo(buf[:0]))
		return err
	})
	if err != nil {
		return now, err
	}
	if err := moves.close(); err != nil {
		return now, err
	}
	return now, next.close()
}
