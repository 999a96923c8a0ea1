//go:build gpu && cgo && linux && amd64

package driver_test

import (
	"errors"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/kernels/cuda/driver"
)

// polled calls do with a stream. Each call of busy queues an operation, which the fake driver performs
// at the second query after that.
func polled(t testing.TB, do func(c *driver.Context, s driver.Stream, busy func() error) error) {
	t.Helper()
	gametest.OK(t, start(t).Do(func(c *driver.Context) error {
		s, err := c.NewStream()
		if err != nil {
			return err
		}
		e, err := c.NewEvent()
		if err != nil {
			return err
		}
		err = do(c, s, func() error { return c.Record(e, s) })
		return errors.Join(err, c.Wait(s), c.DestroyEvent(e), c.DestroyStream(s))
	}))
}

// Idle allocates nothing. Once cu's call allocates nothing either, Idle can be that call.
func TestIdleAllocatesNothing(t *testing.T) {
	if gametest.Race {
		t.Skip("the race detector allocates")
	}
	polled(t, func(c *driver.Context, s driver.Stream, busy func() error) (err error) {
		ask := func(query func() (bool, error)) float64 {
			return testing.AllocsPerRun(100, func() {
				err = errors.Join(err, busy())
				for _, want := range []bool{false, true} {
					idle, failed := query()
					if err = errors.Join(err, failed); idle != want {
						t.Errorf("idle %v, want %v", idle, want)
					}
				}
			})
		}
		if n := ask(func() (bool, error) { return c.Idle(s) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
		if n := ask(func() (bool, error) { return s.Query() == nil, nil }); n == 0 {
			t.Error("cu's Query allocates nothing")
		}
		return err
	})
}

// BenchmarkIdle asks a busy stream, by our call and by cu's.
func BenchmarkIdle(b *testing.B) {
	for name, query := range map[string]func(*driver.Context, driver.Stream) error{
		"ours": func(c *driver.Context, s driver.Stream) error { _, err := c.Idle(s); return err },
		"cu":   func(_ *driver.Context, s driver.Stream) error { _ = s.Query(); return nil },
	} {
		b.Run(name, func(b *testing.B) {
			polled(b, func(c *driver.Context, s driver.Stream, busy func() error) (err error) {
				b.ReportAllocs()
				for b.Loop() {
					err = errors.Join(err, busy(), query(c, s), query(c, s))
				}
				return err
			})
		})
	}
}
