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

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/record"
	"github.com/evald/evald/engine/score"
)

// Pool is a set of positions with exact results, in which mirror images are equal. A position takes 56 bytes.
type Pool struct {
	Files durable.FS // of the added records; nil is the operating system's

	Read    int // number of added records
	LeftOut int // records whose position is in the excluded set

	board   *game.Board
	without score.Set
	all     []known // after Settle in the order of compare

	surprise []float32 // by position, from Ask; nil before
	mean     float64   // mean of lack over the distribution that a Draw represents
	floor    float64   // added in lack
}

// known is a position and what is known about it.
type known struct {
	position game.Position // canonical
	kept     game.Bits     // landing cells of the moves that keep the result; empty if they are not known
	z        int8          // the result, 1, 0 or -1 for the side to move

	standsFor float32 // the number of positions that this one represents: the weight of its records
}

// Positions is the number of positions.
func (p *Pool) Positions() int { return len(p.all) }

// NewPool returns an empty pool that excludes the positions of without.
func NewPool(b *game.Board, without score.Set) *Pool { return &Pool{board: b, without: without} }

// Add adds the records of a file, which must be exact results of the pool's game, with equal shares in the column policy if there is one.
// It ignores finished games and records of weight 0.
// progress is called with the number of records read so far.
func (p *Pool) Add(ctx context.Context, path string, progress func(read int)) error {
	r, err := record.OpenIn(p.Files, path)
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
		case rec.GameOver != game.NotOver, rec.Weight == 0:
			continue
		case rec.Source != eval.Solved:
			return fmt.Errorf("%s: column source is %v: only exact results can be merged, whose source is %v, such as those of evald positions --train", r.Where(), rec.Source, eval.Solved)
		case !equalShares(&rec):
			return fmt.Errorf("%s: column policy is %v: of exact results only equal shares of the moves that keep the result can be merged: leave the column out, or train on the file as it is", r.Where(), rec.Policy)
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

// equalShares reports whether a record's policy, if it has one, says no more than its visits: the pool keeps no shares.
func equalShares(rec *record.Record) bool {
	moves := 0
	for _, n := range rec.Visits {
		if n > 0 {
			moves++
		}
	}
	for a, share := range rec.Policy {
		want := 0.0
		if moves > 0 && rec.Visits[a] > 0 {
			want = 1 / float64(moves)
		}
		if math.Abs(float64(share)-want) > 1e-3 {
			return false
		}
	}
	return true
}

func (p *Pool) known(rec *record.Record) known {
	k := known{z: rec.Z, standsFor: rec.Weight}
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

// compare sorts equal positions next to each other: first those with known moves, then those with the highest weight.
func compare(a, b known) int {
	return cmp.Or(a.position.Compare(b.position), -cmp.Compare(a.kept.OnesCount(), b.kept.OnesCount()), -cmp.Compare(a.standsFor, b.standsFor))
}

// Settle removes duplicates. Records that contradict each other are an error.
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

// matters reports whether some moves are known to keep the result and others not to.
func (p *Pool) matters(k known) bool { return !k.kept.IsZero() && k.kept != p.board.Legal(k.position) }

// Share is the fraction of records to draw for a range of numbers of stones.
type Share struct {
	Plies
	Share float64 // greater than 0; shares need not sum to 1
}

// Roots returns a share for each number of stones: the square root of the number of its positions. So a position with a rare number of
// stones, such as one of the first plies, is drawn more often, but all positions with that number still yield fewer records than those with
// a common number.
func (p *Pool) Roots() (shares []Share) {
	positions := make([]int, p.board.Cells())
	for _, k := range p.all {
		positions[k.position.Plies()]++
	}
	for stones, n := range positions {
		if n > 0 {
			shares = append(shares, Share{Plies{stones, stones}, math.Sqrt(float64(n))})
		}
	}
	return shares
}

// Drawn counts the positions of a Share and their drawn records.
type Drawn struct {
	Share
	Positions int // in the pool
	Matter    int // of these, positions in which some moves are known to keep the result and others not to
	Records   int // number of drawn records; a position may be drawn more than once
}

// Draw chooses the given number of records by shares. In each share the fraction matter, 0 to 1, is positions in which the move matters, if
// there are any. Positions of a kind are drawn in proportion to the weights of their added records, rounded up or down. After Ask, a
// position is drawn more often the less the network knows it, and each of its records has proportionally less weight: only the sum of the
// weights of its drawn records follows the weights of the added ones. Write writes the records.
func (p *Pool) Draw(shares []Share, records int, matter float64, seed uint64) (Choice, []Drawn, error) {
	kinds, drawn, err := p.kinds(shares, matter)
	if err != nil {
		return nil, nil, err
	}
	p.measure(kinds)
	random := randomOf(seed)
	var choice Choice
	upTo := 0.0 // sum of the shares so far
	for i, k := range kinds {
		upTo += k.share
		if k.share == 0 {
			continue
		}
		n := int(math.Round(float64(records) * k.share))
		if p.surprise != nil {
			n = int(math.Round(float64(records) * k.share * p.meanLack(k.of) / p.mean))
		} else if i%2 == 1 { // the rest of the share
			n = int(math.Round(float64(records)*upTo)) - len(choice)
		}
		choice = p.draw(choice, k.of, n, random)
		drawn[i/2].Records += n
	}
	shuffle(choice, random)
	return choice, drawn, nil
}

// kind is a class of positions within a share.
type kind struct {
	share float64 // fraction of the records that a Draw represents
	of    []uint32
}

// kinds returns two kinds for each share: positions in which the move matters, and the others.
func (p *Pool) kinds(shares []Share, matter float64) (kinds []kind, drawn []Drawn, err error) {
	whole := 0.0
	for _, s := range shares {
		whole += s.Share
	}
	for _, s := range shares {
		var decisive, others []uint32
		for i, k := range p.all {
			switch n := k.position.Plies(); {
			case n < s.From || n > s.To:
			case p.matters(k):
				decisive = append(decisive, uint32(i))
			default:
				others = append(others, uint32(i))
			}
		}
		part := matter
		switch {
		case len(decisive)+len(others) == 0:
			return nil, nil, fmt.Errorf("there is no position of %d to %d stones", s.From, s.To)
		case len(decisive) == 0:
			part = 0
		case len(others) == 0:
			part = 1
		}
		kinds = append(kinds, kind{s.Share / whole * part, decisive}, kind{s.Share / whole * (1 - part), others})
		drawn = append(drawn, Drawn{Share: s, Positions: len(decisive) + len(others), Matter: len(decisive)})
	}
	return kinds, drawn, nil
}

// draw adds n records of some positions, each drawn worth times a common factor, rounded up or down.
func (p *Pool) draw(c Choice, some []uint32, n int, r *rand.Rand) Choice {
	if n == 0 {
		return c
	}
	shuffle(some, r) // otherwise, of neighbours, which are similar, every second one would be rounded up
	step := p.worths(some) / float64(n)
	next := step * r.Float64()
	sum, end := 0.0, len(c)+n
	for _, i := range some {
		for sum += p.worth(i); next < sum && len(c) < end; next += step {
			c = append(c, chosen{i, p.weight(i)})
		}
	}
	for len(c) < end { // rounding errors of the sum
		last := some[len(some)-1]
		c = append(c, chosen{last, p.weight(last)})
	}
	return c
}

// All chooses every position once, in random order, with the weight of its added records.
func (p *Pool) All(seed uint64) Choice {
	choice := make(Choice, len(p.all))
	for i, k := range p.all {
		choice[i] = chosen{uint32(i), k.standsFor}
	}
	shuffle(choice, randomOf(seed))
	return choice
}

func randomOf(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x6d65726765)) }

// Choice is positions of a pool in the order in which their records are written.
type Choice []chosen

type chosen struct {
	position uint32 // index in the pool
	weight   float32
}

func shuffle[T any](s []T, r *rand.Rand) {
	r.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}

// perMerged is the maximum number of records in a file that Write writes.
const perMerged = 1 << 20

// Files is the number of files of a choice.
func (c Choice) Files() int { return (len(c) + perMerged - 1) / perMerged }

// Write writes file number n of a choice into a folder.
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
		rec := p.record(p.all[at.position])
		rec.Weight = at.weight
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
