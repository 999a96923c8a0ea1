package places

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evald/evald/engine/game/gametest"
)

// While a limited place is taken, one request waits for it and others are refused; it waits for
// Patience, or until it ends, or until the place is free.
func TestLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Limited(1, 1)
		gametest.OK(t, p.Take(t.Context()))
		wait := func(ctx context.Context, want error, after time.Duration, meanwhile func()) {
			t.Helper()
			start, got := time.Now(), make(chan error)
			go func() { got <- p.Take(ctx) }()
			synctest.Wait()
			if err := p.Take(t.Context()); !errors.Is(err, ErrBusy) || p.Taken() != 1 || p.Waiting() != 1 {
				t.Errorf("while one waits: %v, with %d taken and %d waiting", err, p.Taken(), p.Waiting())
			}
			meanwhile()
			if err := <-got; !errors.Is(err, want) || time.Since(start) != after {
				t.Errorf("error %v after %v, want %v after %v", err, time.Since(start), want, after)
			}
		}
		gone, leave := context.WithCancel(t.Context())
		wait(t.Context(), ErrBusy, Patience, func() {})
		wait(gone, context.Canceled, 0, leave)
		wait(t.Context(), nil, time.Second, func() { time.Sleep(time.Second); p.Leave() })
		p.Leave()
		if p.Taken() != 0 || p.Waiting() != 0 {
			t.Errorf("at the end %d places are taken, %d requests wait", p.Taken(), p.Waiting())
		}
	})
}

// Any number of requests waits for a place without limits, for any time.
func TestUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ended := New(1), make(chan error, 100)
		gametest.OK(t, p.Take(t.Context()))
		for range cap(ended) {
			go func() { ended <- p.Take(t.Context()) }()
		}
		time.Sleep(time.Hour)
		for range cap(ended) {
			p.Leave()
			gametest.OK(t, <-ended)
		}
		p.Leave()
	})
}

// The page's places share its memory: none has less than the least, and there is always one.
func TestForPage(t *testing.T) {
	n := int64(2 * runtime.GOMAXPROCS(0))
	for memory, want := range map[int64]struct{ places, bytes int64 }{
		0:                    {n, usualBytes},
		n * usualBytes * 2:   {n, 2 * usualBytes},
		2*leastBytes - 1:     {1, 2*leastBytes - 1},
		leastBytes / 2:       {1, leastBytes / 2},
		(n + 1) * leastBytes: {n, (n + 1) * leastBytes / n},
	} {
		if p := ForPage(memory); int64(cap(p.taken)) != want.places || p.Bytes != want.bytes || cap(p.asked)-cap(p.taken) != 32 {
			t.Errorf("%d bytes: %d places of %d bytes, want %d of %d", memory, cap(p.taken), p.Bytes, want.places, want.bytes)
		}
	}
}
