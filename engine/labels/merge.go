package labels

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/score"
)

// Pool is positions with exact results, each once up to its mirror image. Each takes 56 bytes.
type Pool struct {
	Read    int // records that were added
	LeftOut int // those of them whose position is in the set that is left out

	board   *game.Board
	without score.Set
	all     []known // in the order of compare after Settle
}

// known is what is known of a position.
type known struct {
	position game.Position // canonical
	kept     game.Bits     // landing cells of the moves that keep the result; none if they are not known
	z        int8          // the result, 1, 0 or -1 for the side to move
}

// Positions is how many there are.
func (p *Pool) Positions() int { return len(p.all) }

// NewPool makes an empty pool, into which no position of a set comes.
func NewPool(b *game.Board, without score.Set) *Pool { return &Pool{board: b, without: without} }

// Add adds the records of a file, which must be exact results of the pool's game. Finished games are left out. progress is called
// with the number of records read so far.
func (p *Pool) Add(ctx context.Context, path string, progress func(read int)) error {
	r, err := record.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	var rec record.Record
	for {
		switch err := r.Next(&rec); {
		case errors.Is(err, io.EOF):
			progress(p.Read)
			return nil
		case err != nil:
			return err
		case rec.Rules != p.board.Rules():
			return fmt.Errorf("%s: is of %v, and the others are of %v", r.Where(), rec.Rules, p.board.Rules())
		case rec.GameOver != game.NotOver:
			continue
		case rec.Source != eval.Solved:
			return fmt.Errorf("%s: column source is %v: only exact results can be merged, whose source is %v, such as those of evald positions --train", r.Where(), rec.Source, eval.Solved)
		}
		if p.Read++; p.Read&(1<<14-1) == 0 {
			progress(p.Read)
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if p.without.Has(p.board, rec.Position) {
			p.LeftOut++
			continue
		}
		p.all = append(p.all, p.known(&rec))
	}
}

func (p *Pool) known(rec *record.Record) known {
	k := known{z: rec.Z}
	for l := p.board.Legal(rec.Position); len(rec.Visits) > 0 && !l.IsZero(); l = l.WithoutFirst() {
		if cell := l.LowBit(); rec.Visits[p.board.Action(cell.First())] > 0 {
			k.kept = k.kept.Or(cell)
		}
	}
	mirrored := false
	if k.position, mirrored = p.board.Canonical(rec.Position); mirrored {
		k.kept = p.board.Mirror(game.Position{Own: k.kept, All: k.kept}).All
	}
	return k
}

// compare puts equal positions next to each other, first what knows the moves.
func compare(a, b known) int {
	return cmp.Or(a.position.Compare(b.position), -cmp.Compare(a.kept.OnesCount(), b.kept.OnesCount()))
}

// Settle keeps each position once. Records that contradict each other are an error.
func (p *Pool) Settle() error {
	slices.SortFunc(p.all, compare)
	var wrong error
	p.all = slices.CompactFunc(p.all, func(a, b known) bool {
		if a.position != b.position {
			return false
		}
		if wrong == nil && (a.z != b.z || !a.kept.IsZero() && !b.kept.IsZero() && a.kept != b.kept) {
			wrong = fmt.Errorf("two records contradict each other: the position own %v, all %v has the results %d and %d, and the moves %v and %v keep them: one of them is not an exact result",
				a.position.Own, a.position.All, a.z, b.z, a.kept, b.kept)
		}
		return true
	})
	p.all = slices.Clip(p.all)
	return wrong
}

// matters reports whether it is known that some moves keep the result and others do not.
func (p *Pool) matters(k known) bool { return !k.kept.IsZero() && k.kept != p.board.Legal(k.position) }

// Share is the share of records that a number of stones has in what is drawn from a pool.
type Share struct {
	Plies
	Share float64 // of all records, greater than 0; shares need not sum to 1
}

// Drawn is what was drawn from the positions of a Share.
type Drawn struct {
	Share
	Positions int // there are
	Matter    int // those of them of which it is known that some moves keep the result and others do not
	Records   int // drawn; a position can be drawn more than once if there are fewer positions
}

// Draw chooses this number of records by shares. In each share the part matter, 0 to 1, is positions where the move matters, if there are
// any. All positions of a kind are drawn equally often, give or take one. Write writes the records.
func (p *Pool) Draw(shares []Share, records int, matter float64, seed uint64) (Choice, []Drawn, error) {
	random := randomOf(seed)
	whole := 0.0
	for _, s := range shares {
		whole += s.Share
	}
	var choice Choice
	var all []Drawn
	for _, s := range shares {
		var decisive, others Choice
		for i, k := range p.all {
			switch n := k.position.Plies(); {
			case n < s.From || n > s.To:
			case p.matters(k):
				decisive = append(decisive, uint32(i))
			default:
				others = append(others, uint32(i))
			}
		}
		d := Drawn{Share: s, Positions: len(decisive) + len(others), Matter: len(decisive), Records: int(math.Round(float64(records) * s.Share / whole))}
		if d.Positions == 0 {
			return nil, nil, fmt.Errorf("there is no position of %d to %d stones", s.From, s.To)
		}
		of := int(math.Round(float64(d.Records) * matter))
		switch {
		case len(decisive) == 0:
			of = 0
		case len(others) == 0:
			of = d.Records
		}
		choice = choice.draw(decisive, of, random).draw(others, d.Records-of, random)
		all = append(all, d)
	}
	choice.shuffle(random)
	return choice, all, nil
}

// All chooses every position once, in random order.
func (p *Pool) All(seed uint64) Choice {
	choice := make(Choice, len(p.all))
	for i := range choice {
		choice[i] = uint32(i)
	}
	choice.shuffle(randomOf(seed))
	return choice
}

// randomOf returns the random numbers of a choice.
func randomOf(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x6d65726765)) }

// Choice is positions of a pool, by number and in the order of their records.
type Choice []uint32

// draw adds n of some positions, each as often as the others, give or take one.
func (c Choice) draw(some Choice, n int, r *rand.Rand) Choice {
	for n > 0 {
		some.shuffle(r)
		round := min(n, len(some))
		c, n = append(c, some[:round]...), n-round
	}
	return c
}

func (c Choice) shuffle(r *rand.Rand) {
	r.Shuffle(len(c), func(i, j int) { c[i], c[j] = c[j], c[i] })
}

// perMerged is the number of records of a file of Write.
const perMerged = 1 << 20

// Files is the number of files that Write makes of a choice.
func (c Choice) Files() int { return (len(c) + perMerged - 1) / perMerged }

// Write writes file number n of a choice to a folder.
func (p *Pool) Write(ctx context.Context, c Choice, dir string, n int) error {
	w, err := record.Create(filepath.Join(dir, fmt.Sprintf("merged-%05d.parquet", n)))
	if err != nil {
		return err
	}
	defer w.Abort()
	for i, at := range c[n*perMerged : min((n+1)*perMerged, len(c))] {
		if i&(1<<12-1) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		rec := p.record(p.all[at])
		if err := w.Write(&rec); err != nil {
			return err
		}
	}
	return w.Close()
}

func (p *Pool) record(k known) record.Record {
	rec := fromResult(p.board, k.position, int(k.z))
	if !k.kept.IsZero() {
		rec.Visits = make([]uint32, p.board.Actions())
		for l := k.kept; !l.IsZero(); l = l.WithoutFirst() {
			rec.Visits[p.board.Action(l.First())] = 1
		}
	}
	return rec
}
