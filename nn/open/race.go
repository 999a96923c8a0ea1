package open

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
)

// contender is a way to compute a network on a GPU.
type contender struct {
	name string // of the backend
	open func() (*Opened, error)
}

// Limits of the comparison of contenders. Sums of float16 products in another order change answers by at most 0.003 (nn/gpu); a defective
// kernel changes some of them by a tenth or more.
const (
	raceRows  = 1024
	raceTime  = 100 * time.Millisecond // for each contender, after one batch that is not counted
	mostApart = 0.02
)

// fastestOf opens the fastest contender. It measures the contenders once and stores the result in the user's cache under a key, which must
// contain everything that the result depends on. Without a cache, it measures each time. Errors are those of race.
func (o Options) fastestOf(key string, all []contender, reference func() (eval.Backend, error), board *game.Board) (*Opened, error) {
	if len(all) == 1 {
		return all[0].open()
	}
	path := raceFile(key)
	for _, c := range all {
		if path != "" && c.name == readRace(path, key) {
			if e, err := c.open(); err == nil {
				return e, nil
			}
		}
	}
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = c.name
	}
	o.note("measuring once which of %s is fastest here (TensorRT takes minutes to prepare)", strings.Join(names, ", "))
	of, err := reference()
	if err != nil {
		return nil, err
	}
	e, winner, failed := race(all, of, board)
	if e == nil {
		return nil, failed
	}
	if failed != nil {
		o.note("%v", failed)
	}
	if path != "" {
		text, err := durable.MarshalIndent(raced{key, winner})
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), durable.WriteFile(path, text))
		}
		if err != nil {
			o.note("the next start measures again: %v", err)
		}
	}
	return e, nil
}

// raced is the content of a file in the cache.
type raced struct {
	Key    string `json:"key"`
	Winner string `json:"winner"`
}

// raceFile returns the path for a key, or "" without a cache.
func raceFile(key string) string {
	dir, err := durable.CacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "gpu", fmt.Sprintf("fastest-%08x.json", crc32.ChecksumIEEE([]byte(key))))
}

// readRace returns the winner that a file contains, or "" if the file is missing, damaged, or for another key.
func readRace(path, key string) string {
	var was raced
	text, err := durable.ReadFile(path, 1<<16)
	if err == nil {
		err = durable.Unmarshal(text, &was)
	}
	if err != nil || was.Key != key {
		return ""
	}
	return was.Winner
}

// race opens all contenders, drops those that fail or whose answers differ from the reference's, and returns the fastest, whose How
// contains all rates, and its name. It closes the others. If fastest is nil, all have failed. failed, which may be nil, says why contenders
// were dropped.
func race(all []contender, reference eval.Backend, board *game.Board) (fastest *Opened, winner string, failed error) {
	batch := raceBatch(board)
	want := eval.NewBatch(board, raceRows)
	copy(want.Pos, batch.Pos)
	if err := reference.Compute(context.Background(), want); err != nil {
		return nil, "", fmt.Errorf("the reference: %w", err)
	}
	most, rates := 0., ""
	for _, c := range all {
		e, err := c.open()
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", c.name, err))
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
		fastest, winner, most = e, c.name, rate
	}
	if fastest != nil {
		fastest.How += " (positions/s here: " + rates[2:] + ")"
	}
	return fastest, winner, failed
}

// measure returns a backend's rate in positions per second. If its answers differ from the wanted ones, it returns an error.
func measure(b eval.Backend, batch, want *eval.Batch) (rate float64, err error) {
	ctx := context.Background()
	if err := b.Compute(ctx, batch); err != nil {
		return 0, err
	}
	if apart := max(furthest(batch.WDL, want.WDL), furthest(batch.Policy, want.Policy)); !(apart <= mostApart) {
		return 0, fmt.Errorf("its answers differ from the CPU's by up to %.3g, more than %v", apart, mostApart)
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

// furthest returns the largest absolute difference, or NaN if any difference is NaN.
func furthest(a, b []float32) (most float64) {
	for i := range a {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
	}
	return most
}

// raceBatch returns unfinished positions of random play.
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
