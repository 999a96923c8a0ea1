package prove

import (
	"context"
	"fmt"
	"sort"

	"github.com/evald/evald/engine/game"
)

// verdict is the reason why a position is bad. It is a byte of the file.
type verdict byte

const (
	lost    verdict = 1 << iota // the agent can no longer reach the result
	leads                       // it can, but on some path a mistake follows
	mistake                     // it can, but its move gives the result away
)

const badBytes = rowBytes + 2 // a row, the agent's move, the verdict

// chunk is consecutive bad positions of a layer.
type chunk struct {
	first    int64 // index of its first position in the layer's file
	rows     []row
	actions  []byte
	verdicts []verdict
	last     bool // it is the layer's last chunk
}

// find returns the index of a position in the chunk, or -1.
func (c *chunk) find(r row) int {
	i := sort.Search(len(c.rows), func(i int) bool { return c.rows[i].compare(r) >= 0 })
	if i < len(c.rows) && c.rows[i] == r {
		return i
	}
	return -1
}

// eachChunk calls do with the bad positions of a layer, in chunks that fit into memory. It calls do at least once.
func (p *proof) eachChunk(stones int, do func(*chunk) error) error {
	if p.bad(stones) == 0 {
		return do(&chunk{last: true})
	}
	r, err := open(p.path(stones, "bad"), badBytes)
	if err != nil {
		return err
	}
	defer r.Close()
	most := min(r.left, max(1, p.Memory/2/badBytes))
	c := &chunk{rows: make([]row, 0, most), actions: make([]byte, 0, most), verdicts: make([]verdict, 0, most)}
	for buf := make([]byte, min(most, batchRows)*badBytes); !c.last; {
		c.first += int64(len(c.rows))
		c.rows, c.actions, c.verdicts = c.rows[:0], c.actions[:0], c.verdicts[:0]
		for len(c.rows) < int(most) && r.left > 0 {
			rows, err := r.next(buf[:min(len(buf), (int(most)-len(c.rows))*badBytes)])
			if err != nil {
				return err
			}
			for ; len(rows) > 0; rows = rows[badBytes:] {
				c.rows = append(c.rows, rowAt(rows))
				c.actions, c.verdicts = append(c.actions, rows[rowBytes]), append(c.verdicts, verdict(rows[rowBytes+1]))
			}
		}
		c.last = r.left == 0
		if err := do(c); err != nil {
			return err
		}
	}
	return nil
}

// backward finds the bad positions of all layers.
func (p *proof) backward(ctx context.Context) error {
	stones := p.start.Plies()
	for p.find(passForward, stones) != nil {
		stones += 2
	}
	for stones -= 2; stones >= p.start.Plies(); stones -= 2 {
		if p.find(passBackward, stones) != nil {
			continue
		}
		now, err := p.judge(ctx, stones)
		if err != nil {
			return err
		}
		if err := p.done(now); err != nil {
			return err
		}
	}
	return nil
}

// bad is the number of bad positions of a layer.
func (p *proof) bad(stones int) int64 {
	if s := p.find(passBackward, stones); s != nil {
		return s.Positions
	}
	return 0
}

// judge writes the bad positions of a layer. Those of the next layer must be complete.
func (p *proof) judge(ctx context.Context, stones int) (step, error) {
	now := step{Pass: passBackward, Stones: stones}
	out, err := create(p.path(stones, "bad"))
	if err != nil {
		return now, err
	}
	defer out.abort()
	verdicts := make([]verdict, p.find(passForward, stones).Positions) // final once the next layer's last chunk has been read
	err = p.eachChunk(stones+2, func(c *chunk) error {
		l, err := p.openLayer(stones, true)
		if err != nil {
			return err
		}
		defer l.close()
		for err := l.next(); len(l.at) > 0 || err != nil; err = l.next() {
			if err != nil {
				return err
			}
			p.show(fmt.Sprintf("backward, %d stones", stones), l.first, l.total)
			some := verdicts[l.first:]
			err = p.each(ctx, l, func(ctx context.Context, worker, i int) (err error) {
				w := &p.workers[worker]
				some[i] |= p.look(c, p.after(w, l.at[i], l.actions[i]))
				if c.last {
					some[i], err = p.decide(ctx, w, l.at[i], some[i])
				}
				return err
			})
			if err != nil {
				return err
			}
			for i, v := range some[:len(l.at)] {
				if c.last && v != 0 {
					now.Positions++
					if _, err := out.Write(append(rowOf(l.at[i]).appendTo(l.buf[:0]), byte(l.actions[i]), byte(v))); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return now, err
	}
	return now, out.close()
}

// look combines the verdicts of the positions in after.
func (p *proof) look(c *chunk, after []game.Position) (v verdict) {
	for _, next := range after {
		if e := p.end(next); e != (Ends{}) {
			if e.score() < p.result {
				v |= lost
			}
		} else if i := c.find(rowOf(next)); i >= 0 {
			v |= c.verdicts[i]
		}
	}
	return v
}

// decide returns the verdict on a position. after is the combined verdicts of the positions that can follow.
func (p *proof) decide(ctx context.Context, w *worker, at game.Position, after verdict) (verdict, error) {
	if after&lost == 0 {
		if after != 0 {
			return leads, nil
		}
		return 0, nil
	}
	result, err := p.solve(ctx, w, at)
	if result < p.result {
		return lost, err
	}
	return mistake, err
}

// mistakes finds the first mistake of each path. It visits bad positions only.
func (p *proof) mistakes(ctx context.Context) error {
	if p.find(passFirst, p.start.Plies()) != nil {
		return nil
	}
	now := step{Pass: passFirst, Stones: p.start.Plies()}
	out, err := create(p.dir.Path("mistakes"))
	if err != nil {
		return err
	}
	defer out.abort()
	reached := []bool{true} // by bad position of a layer
	for stones := p.start.Plies(); p.bad(stones) > 0; stones += 2 {
		p.show("first mistakes", int64(stones), int64(p.Board.Cells()))
		next := make([]bool, p.bad(stones+2))
		now.Mistakes = append(now.Mistakes, make([]int64, stones+1-len(now.Mistakes))...)
		err := p.eachChunk(stones+2, func(c *chunk) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return p.eachChunk(stones, func(from *chunk) error {
				for i, r := range from.rows {
					switch v := from.verdicts[i]; {
					case !reached[from.first+int64(i)]:
					case v == mistake && c.last:
						now.Mistakes[stones]++
						if _, err := out.Write(r.appendTo(nil)); err != nil {
							return err
						}
					case v == leads:
						for _, a := range p.after(&p.workers[0], r.position(), int(from.actions[i])) {
							if j := c.find(rowOf(a)); j >= 0 {
								next[c.first+int64(j)] = true
							}
						}
					}
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		reached = next
	}
	if err := out.close(); err != nil {
		return err
	}
	return p.done(now)
}
