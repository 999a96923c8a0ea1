package durable

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// One goroutine at a time has the lock, also if each removes the file before it unlocks it.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	held := errors.New("held")
	var inside, had atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 300 {
				lock, err := acquire(path, held)
				if errors.Is(err, held) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d have the lock", n)
				}
				had.Add(1)
				inside.Add(-1)
				if err := release(lock); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if had.Load() < 10 {
		t.Errorf("the lock was had %d times", had.Load())
	}
}
