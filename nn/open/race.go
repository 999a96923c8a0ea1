package open

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// contender is a way to compute a network on a GPU.
type contender struct {
	name string // of its backend
	open func() (*Opened, error)
}

// How contenders are compared. Products of float16 and sums in another order move answers by 0.003 at most (nn/gpu); a wrong kernel moves some of
// them by a tenth and more.
const (
	raceRows  = 1024
	raceTime  = 100 * time.Millisecond // of each, after a batch that is not counted
	mostApart = 0.02
)

// race opens all contenders, leaves out those that do not work or whose answers are not the reference's, and returns the fastest, which
// says how fast each was. The others are closed. If none is left, there is only the error. Otherwise the error, which may be nil, says what is
// wrong with those that were left out.
func race(all []contender, reference eval.Backend, board *game.Board) (fastest *Opened, failed error) {
	batch := raceBatch(board)
	want := eval.NewBatch(board, raceRows)
	copy(want.Pos, batch.Pos)
	if err := reference.Compute(context.Background(), want); err != nil {
		return nil, fmt.Errorf("the reference: %w", err)
	}
	most, rates := 0., ""
	for _, c := range all {
		e, err := c.open()
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		rate, err := measure(e.Backend(), batch, want)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", c.name, err), e.Close())
			continue
		}
		rates += fmt.Sprintf(", %s %.0f", c.name, rate)
		if rate <= most {
			failed = errors.Join(failed, e.Close())
			continue
		}
		if fastest != nil {
			failed = errors.Join(failed, fastest.Close())
		}
		fastest, most = e, rate
	}
	if fastest != nil && len(all) > 1 {
		fastest.How += " (positions/s here: " + rates[2:] + ")"
	}
	return fastest, failed
}

// measure is how many positions a second a backend answers. It is an error if an answer is not the wanted one.
func measure(b eval.Backend, batch, want *eval.Batch) (rate float64, err error) {
	ctx := context.Background()
	if err := b.Compute(ctx, batch); err != nil {
		return 0, err
	}
	if apart := max(furthest(batch.WDL, want.WDL), furthest(batch.Policy, want.Policy)); !(apart <= mostApart) {
		return 0, fmt.Errorf("its answers are up to %.3g away from those of the CPU, and may be %v", apart, mostApart)
	}
	start, rows := time.Now(), 0
	for time.Since(start) < raceTime {
		if err := b.Compute(ctx, batch); err != nil {
			return 0, err
		}
		rows += len(batch.Pos)
	}
	return float64(rows) / time.Since(start).Seconds(), nil
}

// furthest is the largest difference; NaN if one is.
func furthest(a, b []float32) (most float64) {
	for i := range a {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
	}
	return most
}

// raceBatch is unfinished positions of random play.
func raceBatch(board *game.Board) *eval.Batch {
	b := eval.NewBatch(board, raceRows)
	r := rand.New(rand.NewPCG(1, 1))
	var p game.Position
	for i := range b.Pos {
		b.Pos[i] = p
		legal := board.Legal(p)
		if p = board.PlayCell(p, legal.Nth(r.IntN(legal.OnesCount()))); board.Result(p) != game.Ongoing {
			p = game.Position{}
		}
	}
	return b
}
